use crate::flow::FlowKey;
use crate::headers::protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What identifies the flow of a packet to a queue (RFC 8290 §4.1), for any IP packet, complete or not. Unlike
/// [`crate::FlowKey`] it covers protocols without ports, and needs fewer bytes of the packet.
///
/// Only the first fragment of a datagram has ports, so that all fragments are classified by addresses and protocol
/// alone: a datagram stays in one flow, and sending fragments does not give more flows (their identification would).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowSelector {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number, behind the extension headers that were followed; see [`protocol`].
    pub protocol: u8,
    /// What distinguishes flows between the same addresses.
    pub detail: FlowDetail,
}

/// What distinguishes flows of one protocol between the same addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowDetail {
    /// Nothing: another protocol, a fragment, or a truncated packet.
    None,
    /// Source and destination port.
    Ports(u16, u16),
    /// Security parameters index of ESP.
    SecurityAssociation(u32),
    /// Identifier of an ICMP echo request or reply.
    Echo(u16),
}

/// Extension headers that are followed at most.
const MAX_EXTENSIONS: usize = 8;

// Protocol numbers that are needed here only (IANA).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ESP: u8 = 50;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;
const UDP_LITE: u8 = 136;

impl FlowSelector {
    /// Reads a packet from its IP header on; `None` where that is truncated or not IP.
    #[inline]
    pub(crate) fn from_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::from_v4(packet),
            6 => Self::from_v6(packet),
            _ => None,
        }
    }

    /// The same as a 5-tuple, for people to read.
    pub fn flow_key(&self) -> FlowKey {
        let (source, destination) = match self.detail {
            FlowDetail::Ports(source, destination) => (source, destination),
            _ => (0, 0),
        };
        FlowKey {
            protocol: self.protocol,
            source: SocketAddr::new(self.source, source),
            destination: SocketAddr::new(self.destination, destination),
        }
    }

    fn from_v4(packet: &[u8]) -> Option<Self> {
        let (header, _) = packet.split_first_chunk::<20>()?;
        let length = usize::from(header[0] & 15) * 4;
        let source = Ipv4Addr::from(*header[12..].first_chunk::<4>()?).into();
        let destination = Ipv4Addr::from(*header[16..].first_chunk::<4>()?).into();
        // The offset and "more fragments".
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        let rest = if is_fragment || length < 20 { None } else { packet.get(length..) };
        let (protocol, rest) = match (header[9], rest) {
            (AUTHENTICATION, Some(rest)) => skip_extensions(AUTHENTICATION, rest, 1),
            (protocol, rest) => (protocol, rest),
        };
        Some(Self::from_payload(source, destination, protocol, rest))
    }

    fn from_v6(packet: &[u8]) -> Option<Self> {
        let (header, rest) = packet.split_first_chunk::<40>()?;
        let source = Ipv6Addr::from(*header[8..].first_chunk::<16>()?).into();
        let destination = Ipv6Addr::from(*header[24..].first_chunk::<16>()?).into();
        let (protocol, rest) = skip_extensions(header[6], rest, MAX_EXTENSIONS);
        Some(Self::from_payload(source, destination, protocol, rest))
    }

    fn from_payload(source: IpAddr, destination: IpAddr, protocol: u8, rest: Option<&[u8]>) -> Self {
        let detail = rest.map_or(FlowDetail::None, |rest| read_detail(protocol, rest));
        FlowSelector { source, destination, protocol, detail }
    }
}

/// The protocol behind at most `limit` extension headers, and the bytes from its header on; `None` for those of a
/// fragment.
fn skip_extensions(first: u8, packet: &[u8], limit: usize) -> (u8, Option<&[u8]>) {
    let (mut protocol, mut rest) = (first, packet);
    for _ in 0..limit {
        let length = match (protocol, rest) {
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6, [_, words, ..]) => {
                (usize::from(*words) + 1) * 8
            }
            (AUTHENTICATION, [_, words, ..]) => (usize::from(*words) + 2) * 4,
            (FRAGMENT, [next, _, high, low, ..]) => {
                if u16::from_be_bytes([*high, *low]) & 0xfff9 != 0 {
                    return (*next, None);
                }
                8
            }
            _ => return (protocol, Some(rest)),
        };
        let next = rest[0];
        let Some(behind) = rest.get(length..) else { return (next, None) };
        (protocol, rest) = (next, behind);
    }
    // Where one more follows, it tells no flows apart.
    (protocol, Some(rest))
}

fn read_detail(protocol: u8, rest: &[u8]) -> FlowDetail {
    let word = |at: usize| rest.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let long = |at: usize| Some(u32::from(word(at)?) << 16 | u32::from(word(at + 2)?));
    let found = match protocol {
        protocol::TCP | protocol::UDP | DCCP | SCTP | UDP_LITE => {
            word(0).zip(word(2)).map(|(source, destination)| FlowDetail::Ports(source, destination))
        }
        ESP => long(0).map(FlowDetail::SecurityAssociation),
        protocol::ICMP if matches!(rest.first(), Some(0 | 8)) => word(4).map(FlowDetail::Echo),
        protocol::ICMPV6 if matches!(rest.first(), Some(128 | 129)) => word(4).map(FlowDetail::Echo),
        _ => None,
    };
    found.unwrap_or(FlowDetail::None)
}

#[cfg(test)]
mod tests;
