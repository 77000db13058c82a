/// What to try after an [`Error`](crate::Error). The program that shows it chooses the wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hint {
    /// Check the host's name.
    CheckName,
    /// No name service answers: check this host's own, or give an address.
    CheckNameService,
    /// Allow both IP versions, or another source address.
    AllowOtherFamily,
    /// An address is given, and the other IP version asked for: leave one of the two out.
    AddressOfOtherFamily,
    /// Name the interface of a link-local address: `fe80::1%eth0`.
    NameInterface,
    /// Nothing listens on that port: check the port, and that the server is running.
    StartServer,
    /// No answer: check the address, and that firewalls pass the port.
    CheckAddressAndFirewall,
    /// A route of this host discards what goes there (`blackhole`, `prohibit`): check the routes.
    RouteDiscards,
    /// Check the route and the firewall.
    CheckRouteAndFirewall,
    /// Another service listens on that port: check the port, and that the server is running on it.
    CheckService,
    /// Check that the server and the path are still up, then retry.
    CheckServerAndPath,
    /// Use the same release on both ends.
    UseSameRelease,
    /// The server is busy: retry later.
    TryLater,
    /// The server measures other clients, or another program measures at this host: retry later, or wait longer.
    WaitLonger,
    /// Measure over many TCP connections, or choose the transport automatically.
    UseTcp,
    /// A firewall may limit the number of connections: retry later, or measure over UDP.
    ConnectionsLimited,
    /// A middlebox resets connections: open fewer of them, or measure over UDP.
    UseFewerConnections,
    /// Check that a STAMP reflector is running on that port.
    StartReflector,
    /// Check the reflector, its port, and that firewalls pass UDP.
    CheckReflectorAndFirewall,
    /// Use the server's key.
    GiveKey,
    /// Measure without a key, or start the server with one.
    OmitKey,
    /// Check the source address, interface and firewall mark; a mark requires privileges.
    CheckBinding,
}
