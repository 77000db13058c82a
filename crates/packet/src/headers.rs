use etherparse::{Ipv6ExtensionSlice, LaxIpSlice, LaxIpv6Slice, TcpHeaderSlice, UdpHeaderSlice};
use std::net::IpAddr;
use thiserror::Error;

/// Protocol numbers of what IP carries (IANA).
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// What the headers of an IP packet say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// What the packet carries, behind all extension headers; see [`protocol`].
    pub protocol: u8,
    /// Whether the packet is whole.
    pub fragment: Fragment,
    /// The transport's header; `None` for other protocols, fragments after the first, and headers cut short.
    pub transport: Option<Transport>,
    /// Bytes before the transport's header.
    pub transport_offset: usize,
    /// Bytes of the whole packet by its own account; what lies beyond is not part of it.
    pub total_len: usize,
}

/// Which part of a datagram a packet holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// The first, with the transport's header.
    First,
    /// Another, without that header.
    Later,
}

/// A transport's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
    /// ICMP of either version.
    Icmp(Icmp),
}

/// A TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The next byte that the sender expects, if the ACK flag is set.
    pub acknowledgment: Option<u32>,
    /// It asks for a connection.
    pub syn: bool,
    /// It ends one direction.
    pub fin: bool,
    /// It breaks the connection off.
    pub rst: bool,
    /// Bytes of data.
    pub payload_len: usize,
}

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Bytes of data in this packet.
    pub payload_len: usize,
}

/// An ICMP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp {
    /// The type; its meaning differs between the versions.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// It reports an error about another packet, which it quotes.
    pub is_error: bool,
}

/// Bytes that are no whole IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The IP header itself is cut short or contradicts itself.
    #[error("cannot read an IP packet from {len} bytes: its header is cut short or contradicts itself; drop it")]
    Header {
        /// Bytes given.
        len: usize,
    },
    /// The header promises more bytes than there are.
    #[error("cannot read an IP packet from {len} bytes: it should have more; give it whole or drop it")]
    Truncated {
        /// Bytes given.
        len: usize,
    },
}

impl Headers {
    /// Reads the headers of a whole packet.
    pub fn parse(packet: &[u8]) -> Result<Headers, ParseError> {
        let (headers, complete) = read(packet)?;
        if complete { Ok(headers) } else { Err(ParseError::Truncated { len: packet.len() }) }
    }

    /// Reads the headers of a packet of which only the beginning may be there, as a snapped capture or an ICMP error
    /// has it. Lengths then count what is there.
    pub fn parse_beginning(packet: &[u8]) -> Result<Headers, ParseError> {
        read(packet).map(|(headers, _)| headers)
    }

    /// Source and destination port of TCP and UDP.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match self.transport? {
            Transport::Tcp(tcp) => Some((tcp.source_port, tcp.destination_port)),
            Transport::Udp(udp) => Some((udp.source_port, udp.destination_port)),
            Transport::Icmp(_) => None,
        }
    }

    /// The TCP header, if there is one.
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.transport {
            Some(Transport::Tcp(tcp)) => Some(tcp),
            _ => None,
        }
    }

    /// Whether it reports an error, so that nothing may be reported about it (RFC 1122 §3.2.2).
    pub fn is_icmp_error(&self) -> bool {
        matches!(self.transport, Some(Transport::Icmp(icmp)) if icmp.is_error)
    }

    /// Whether it is part of a datagram only.
    pub fn is_fragment(&self) -> bool {
        self.fragment != Fragment::Whole
    }
}

impl Tcp {
    /// How far this segment moves the sequence number: its data, SYN and FIN.
    pub fn sequence_len(&self) -> u32 {
        // A segment is shorter than 2³² bytes, being within one IP packet.
        self.payload_len as u32 + u32::from(self.syn) + u32::from(self.fin)
    }

    /// Whether it opens a connection: a SYN that answers none.
    pub fn opens(&self) -> bool {
        self.syn && self.acknowledgment.is_none() && !self.rst
    }
}

fn read(packet: &[u8]) -> Result<(Headers, bool), ParseError> {
    let error = ParseError::Header { len: packet.len() };
    let (slice, stop) = LaxIpSlice::from_slice(without_foreign_tail(packet)).map_err(|_| error)?;
    // Of extension headers that end in a broken one, etherparse 0.21 iterates on, and reads past the packet.
    if stop.is_some() && matches!(slice, LaxIpSlice::Ipv6(_)) {
        return Err(error);
    }
    let (offset, fragment) = match &slice {
        LaxIpSlice::Ipv4(v4) => {
            let header = v4.header();
            if usize::from(header.total_len()) < header.slice().len() {
                return Err(error);
            }
            let auth = v4.extensions().auth.map_or(0, |auth| auth.slice().len());
            let fragment = fragment(header.fragments_offset().value(), header.more_fragments());
            (header.slice().len() + auth, fragment)
        }
        LaxIpSlice::Ipv6(v6) => (v6.header().slice().len() + v6.extensions().slice().len(), ipv6_fragment(v6)),
    };
    let payload = slice.payload();
    let protocol = payload.ip_number.0;
    let transport = if fragment == Fragment::Later { None } else { transport(protocol, payload.payload) };
    let headers = Headers {
        source: slice.source_addr(),
        destination: slice.destination_addr(),
        protocol,
        fragment,
        transport,
        transport_offset: offset,
        total_len: offset + payload.payload.len(),
    };
    Ok((headers, !payload.incomplete))
}

/// An IPv6 payload length of zero means that there is none (jumbograms are of no use here), while the parser takes all
/// that follows.
fn without_foreign_tail(packet: &[u8]) -> &[u8] {
    match packet {
        [first, _, _, _, 0, 0, ..] if first >> 4 == 6 => &packet[..packet.len().min(40)],
        _ => packet,
    }
}

fn ipv6_fragment(slice: &LaxIpv6Slice<'_>) -> Fragment {
    let header = slice.extensions().clone().into_iter().find_map(|extension| match extension {
        Ipv6ExtensionSlice::Fragment(header) => Some(header),
        _ => None,
    });
    header.map_or(Fragment::Whole, |header| fragment(header.fragment_offset().value(), header.more_fragments()))
}

fn fragment(offset: u16, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}

fn transport(protocol: u8, segment: &[u8]) -> Option<Transport> {
    match protocol {
        protocol::TCP => {
            let header = TcpHeaderSlice::from_slice(segment).ok()?;
            Some(Transport::Tcp(Tcp {
                source_port: header.source_port(),
                destination_port: header.destination_port(),
                sequence: header.sequence_number(),
                acknowledgment: header.ack().then(|| header.acknowledgment_number()),
                syn: header.syn(),
                fin: header.fin(),
                rst: header.rst(),
                payload_len: segment.len() - header.slice().len(),
            }))
        }
        protocol::UDP => {
            let header = UdpHeaderSlice::from_slice(segment).ok()?;
            let (source_port, destination_port) = (header.source_port(), header.destination_port());
            Some(Transport::Udp(Udp { source_port, destination_port, payload_len: segment.len() - 8 }))
        }
        protocol::ICMP | protocol::ICMPV6 if segment.len() >= 8 => {
            let kind = segment[0];
            // RFC 1122 §3.2.2 names the errors of version 4; in version 6 they have the upper bit clear (RFC 4443 §2.1).
            let is_error = if protocol == protocol::ICMP { matches!(kind, 3 | 4 | 5 | 11 | 12) } else { kind < 128 };
            Some(Transport::Icmp(Icmp { kind, code: segment[1], is_error }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
