/// What may help against an [`Error`](crate::Error). Words for it are up to the program that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hint {
    /// Check the host's name.
    CheckName,
    /// Allow both IP versions, or another source address.
    AllowOtherFamily,
    /// Name the interface of a link-local address: `fe80::1%eth0`.
    NameInterface,
    /// Nothing listens there: check the port, and that the server runs.
    StartServer,
    /// Nothing answers: check the address, and that a firewall lets the port through.
    CheckAddressAndFirewall,
    /// Check the route and the firewall.
    CheckRouteAndFirewall,
    /// Something else listens there: check the port, and that the server runs on it.
    CheckService,
    /// Check that server and path are still up, then try again.
    CheckServerAndPath,
    /// Use the same release on both ends.
    UseSameRelease,
    /// The server is busy: try again later.
    TryLater,
    /// Measure over many TCP connections, or leave the choice of the transport open.
    UseTcp,
    /// A firewall may limit connections: try again later, or measure over UDP.
    ConnectionsLimited,
    /// Something on the path resets connections: open fewer of them, or measure over UDP.
    UseFewerConnections,
    /// Check that a STAMP reflector runs on that port.
    StartReflector,
    /// Check the reflector, its port, and that a firewall lets UDP through.
    CheckReflectorAndFirewall,
    /// Give the key that the server has.
    GiveKey,
    /// Measure without a key, or start the server with it.
    OmitKey,
    /// Check the source address, interface and firewall mark; a mark takes privileges.
    CheckBinding,
}
