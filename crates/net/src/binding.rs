//! From where on this host sockets send: for hosts with several addresses, interfaces or routing tables.

use crate::interface::Family;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

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
        let options = SockRef::from(socket);
        self.set_mark_and_interface(&options)?;
        match self.source {
            Some(source) => options.bind(&SocketAddr::new(source, 0).into()),
            None if options.r#type()? == Type::DGRAM => {
                options.bind(&SocketAddr::new(unspecified_address(Family::from_address(peer.ip())), 0).into())
            }
            None => Ok(()),
        }
    }

    fn set_mark_and_interface(&self, socket: &SockRef<'_>) -> io::Result<()> {
        if let Some(mark) = self.mark {
            socket.set_mark(mark)?;
        }
        match &self.interface {
            Some(interface) => socket.bind_device(Some(interface.as_bytes())),
            None => Ok(()),
        }
    }

    /// A UDP socket of one IP version that is bound to this port, or to any where it is 0.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), or where the port is taken.
    pub fn bind_udp(&self, family: Family, port: u16) -> io::Result<UdpSocket> {
        let address = SocketAddr::new(self.source.unwrap_or_else(|| unspecified_address(family)), port);
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

/// Whether this host no longer has an address that it had, as after a move to another network.
pub fn is_address_gone(own: IpAddr) -> bool {
    UdpSocket::bind((own, 0)).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
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
