use kumade_packet::{Headers, PacketEnd, protocol};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

/// The protocols that a NAT44 translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Queries of ICMP, whose identifier takes the place of the port (RFC 5508 §3).
    Icmp,
}

impl Protocol {
    /// The number of protocols.
    pub(crate) const PROTOCOL_COUNT: usize = 3;

    /// The protocol of a packet, possibly a truncated one, that has ports or an identifier.
    pub(crate) fn from_headers(headers: &Headers) -> Option<Self> {
        headers.port(PacketEnd::Source)?;
        match headers.protocol {
            protocol::TCP => Some(Protocol::Tcp),
            protocol::UDP => Some(Protocol::Udp),
            protocol::ICMP => Some(Protocol::Icmp),
            _ => None,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// The address and port, or identifier, of one end of an IPv4 packet.
pub(crate) fn endpoint(headers: &Headers, end: PacketEnd) -> Option<SocketAddrV4> {
    Some(SocketAddrV4::new(as_v4(headers.address(end))?, headers.port(end)?))
}

pub(crate) fn set_endpoint(headers: &mut Headers, end: PacketEnd, to: SocketAddrV4) {
    headers.set_address(end, IpAddr::V4(*to.ip()));
    headers.set_port(end, to.port());
}

pub(crate) fn as_v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
