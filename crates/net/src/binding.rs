//! From where on this host sockets send: for hosts with several addresses, interfaces or routing tables.

use crate::family::Family;
use crate::index::index_of;
#[cfg(target_os = "linux")]
use crate::interface;
use crate::scoped_address::is_of_one_link;
#[cfg(target_os = "linux")]
use crate::setup::SetupError;
#[cfg(target_os = "linux")]
use nix::ifaddrs::getifaddrs;
#[cfg(target_os = "linux")]
use nix::libc;
#[cfg(target_os = "linux")]
use nix::sys::socket::SockaddrStorage;
use rustix::fd::AsFd;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

/// What sockets are bound to before they connect. By default nothing: the system's routes decide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketBinding {
    /// The source address of all packets.
    pub source: Option<IpAddr>,
    /// The interface through which they leave and come (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// The firewall mark of all packets (`SO_MARK`), by which policy routes and rules choose; takes `CAP_NET_ADMIN`.
    pub mark: Option<u32>,
}

impl SocketBinding {
    /// Binds a socket that is going to connect to `peer`. A UDP socket must be bound in any case.
    ///
    /// # Errors
    /// Where this host has no such address or interface, the address is of the other IP version, or the process may
    /// not.
    pub fn apply(&self, socket: &impl AsFd, peer: SocketAddr) -> io::Result<()> {
        let socket = socket.as_fd();
        let options = SockRef::from(&socket);
        if self.source.is_some() || options.r#type()? == Type::DGRAM {
            return self.apply_with_port(&socket, peer, 0);
        }
        self.set_mark_and_interface(&options)
    }

    /// The same, to this port of this host, or any where it is 0.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), or where the port is taken.
    pub(crate) fn apply_with_port(&self, socket: &impl AsFd, peer: SocketAddr, port: u16) -> io::Result<()> {
        let socket = socket.as_fd();
        let options = SockRef::from(&socket);
        self.set_mark_and_interface(&options)?;
        let source = self.source.unwrap_or_else(|| unspecified_address(Family::from_address(peer.ip())));
        options.bind(&self.scoped(source, port, Some(peer)).into())
    }

    /// An address of one link is one of the interface's, or of the link where the peer is.
    fn scoped(&self, ip: IpAddr, port: u16, peer: Option<SocketAddr>) -> SocketAddr {
        let interface = self.interface.as_deref().and_then(|name| index_of(name).ok());
        match (ip, peer) {
            (IpAddr::V6(v6), Some(SocketAddr::V6(peer))) if is_of_one_link(ip) => {
                SocketAddrV6::new(v6, port, 0, interface.unwrap_or(peer.scope_id())).into()
            }
            (IpAddr::V6(v6), _) if is_of_one_link(ip) => {
                SocketAddrV6::new(v6, port, 0, interface.unwrap_or_default()).into()
            }
            _ => SocketAddr::new(ip, port),
        }
    }

    fn set_mark_and_interface(&self, socket: &SockRef<'_>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.mark.map_or(Ok(()), |mark| socket.set_mark(mark))?;
        match &self.interface {
            #[cfg(target_os = "linux")]
            Some(interface) => bind_to_interface(socket, interface),
            None if cfg!(target_os = "linux") || self.mark.is_none() => Ok(()),
            _ => {
                let refusal =
                    format!("this system binds the socket of type {:?} to no interface and no mark", socket.r#type()?);
                Err(io::Error::new(io::ErrorKind::Unsupported, refusal))
            }
        }
    }

    /// A UDP socket of one IP version that is bound to this port, or to any where it is 0.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), or where the port is taken.
    pub fn bind_udp(&self, family: Family, port: u16) -> io::Result<UdpSocket> {
        let address = self.scoped(self.source.unwrap_or_else(|| unspecified_address(family)), port, None);
        if Family::from_address(address.ip()) != family {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the source address is of the other IP version"));
        }
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        self.set_mark_and_interface(&SockRef::from(&socket))?;
        if family == Family::V6 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        Ok(socket.into())
    }

    /// A UDP socket that is bound and connected to `peer`.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), or where there is no route.
    pub fn connect_udp(&self, peer: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        self.apply(&socket, peer)?;
        socket.connect(&peer.into())?;
        Ok(socket.into())
    }

    /// A UDP socket, prepared by `prepare`, that talks to the first of these addresses to which this host knows a way: the error of the last of them, or
    /// `AddrNotAvailable`, where there is none.
    pub(crate) fn connect_first_udp(
        &self,
        peers: &[SocketAddr],
        prepare: impl Fn(&UdpSocket) -> io::Result<()>,
    ) -> io::Result<UdpSocket> {
        let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
        for &peer in peers {
            result = self.connect_udp(peer).and_then(|socket| prepare(&socket).map(|()| socket));
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// The address that a socket to `peer` would have now, by the system's routes; none where there is no route. Nothing is sent.
    pub fn source_towards(&self, peer: SocketAddr) -> Option<IpAddr> {
        let socket = self.connect_udp(peer).ok()?;
        Some(socket.local_addr().ok()?.ip().to_canonical())
    }
}

impl fmt::Display for SocketBinding {
    /// `source 192.0.2.1, interface eth0, mark 7`; or `any address`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.map(|source| format!("source {source}"));
        let interface = self.interface.as_ref().map(|interface| format!("interface {interface}"));
        let mark = self.mark.map(|mark| format!("mark {mark}"));
        let parts: Vec<_> = [source, interface, mark].into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "any address" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

#[cfg(target_os = "linux")]
/// By any of the interface's names.
pub(crate) fn bind_to_interface(socket: &SockRef<'_>, interface: &str) -> io::Result<()> {
    if interface.len() < libc::IFNAMSIZ {
        return socket.bind_device(Some(interface.as_bytes()));
    }
    // The kernel would take the beginning of a longer name for the whole.
    let code = |error: SetupError| error.io_error().raw_os_error().unwrap_or(libc::ENODEV);
    let name = interface::kernel_name(interface).map_err(|error| io::Error::from_raw_os_error(code(error)))?;
    socket.bind_device(Some(name.as_bytes()))
}

/// Whether this host no longer has an address that it had, as after a move to another network.
pub fn is_address_gone(own: IpAddr) -> bool {
    UdpSocket::bind((own, 0)).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

#[cfg(target_os = "linux")]
/// Whether packets to this address arrive at this host itself: those of its interfaces, of loopback, and of `local` routes.
/// Where the system does not tell, as without descriptors, it counts as one of these.
pub fn is_own_address(address: IpAddr) -> bool {
    if is_address_gone(address) {
        return false;
    }
    // Never of a host (RFC 1112 §4, RFC 6666): who can take these can take any (`ip_nonlocal_bind`).
    let nobodys: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::new(240, 0, 0, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1).into(),
    };
    UdpSocket::bind((nobodys, 0)).is_err() || is_interface_address(address)
}

#[cfg(target_os = "linux")]
fn is_interface_address(address: IpAddr) -> bool {
    let own = |storage: &SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|found| IpAddr::from(found.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|found| found.ip().into()))
    };
    let mut interfaces = getifaddrs().into_iter().flatten();
    address.is_loopback() || interfaces.any(|interface| interface.address.as_ref().and_then(own) == Some(address))
}

fn unspecified_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::scoped_address::ScopedAddress;
    use kumade_netns_testbed::{eventually, in_namespaces};
    use std::time::Duration;

    #[test]
    fn own_addresses_are_told_from_others() {
        for own in ["127.0.0.1", "127.9.9.9"] {
            assert!(is_own_address(own.parse().unwrap()) && is_interface_address(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.77", "2001:db8::77"] {
            assert!(
                !is_own_address(other.parse().unwrap()) && !is_interface_address(other.parse().unwrap()),
                "{other}"
            );
        }
    }

    #[test]
    fn packets_come_from_the_address_that_was_chosen() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let source: IpAddr = "127.0.0.5".parse().unwrap();
        let binding = SocketBinding { source: Some(source), interface: Some("lo".into()), mark: None };
        let near = binding.connect_udp(far.local_addr().unwrap()).unwrap();
        near.send(b"hello").unwrap();
        assert_eq!(far.recv_from(&mut [0; 9]).unwrap().1.ip(), source);
    }

    #[test]
    fn an_address_of_one_link_is_of_the_interface_or_of_the_peers_link() {
        in_namespaces("binding::tests::an_address_of_one_link_is_of_the_interface_or_of_the_peers_link", || {
            let namespace = Namespace::new().unwrap();
            let add = ["-6", "addr", "add", "fe80::7/64", "dev", "lo", "nodad"];
            assert!(namespace.command("ip").args(add).status().unwrap().success());
            let reached = || {
                let address: ScopedAddress = "fe80::7%lo".parse().unwrap();
                let far = UdpSocket::bind(address.with_port(0)).unwrap();
                far.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let interface = Some("lo".to_owned());
                let bound = SocketBinding { source: Some(address.ip()), interface, mark: None };
                let sources = [&bound, &SocketBinding { interface: None, ..bound.clone() }].map(|binding| {
                    let mut source = None;
                    // The kernel adds the route to an own address in its own time. A socket that was connected before goes by another
                    // one for ever.
                    assert!(eventually(|| {
                        binding.connect_udp(far.local_addr().unwrap()).unwrap().send(b"hello").unwrap();
                        source = far.recv_from(&mut [0; 9]).ok().map(|(_, source)| source.ip());
                        source.is_some()
                    }));
                    source.unwrap()
                });
                (sources, bound.bind_udp(Family::V6, 0).unwrap().local_addr().unwrap().ip())
            };
            let source: IpAddr = "fe80::7".parse().unwrap();
            assert_eq!(namespace.run(reached).unwrap(), ([source; 2], source));
        });
    }

    #[test]
    fn an_address_is_this_hosts_or_not() {
        let [loopback, foreign]: [IpAddr; 2] = ["127.0.0.1", "192.0.2.1"].map(|text| text.parse().unwrap());
        assert!(!is_address_gone(loopback) && is_address_gone(foreign));
    }

    #[test]
    fn what_this_host_has_not_is_refused() {
        let peer = "127.0.0.1:9".parse().unwrap();
        let foreign = SocketBinding { source: Some("192.0.2.1".parse().unwrap()), ..SocketBinding::default() };
        assert_eq!(foreign.connect_udp(peer).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        let absent = SocketBinding { interface: Some("absent0".into()), ..SocketBinding::default() };
        assert!(absent.connect_udp(peer).is_err());
    }
}
