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

/// The fields of a packet's IP and transport headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number of the payload, behind all extension headers; see [`protocol`].
    pub protocol: u8,
    /// Which part of a datagram the packet holds.
    pub fragment: Fragment,
    /// The datagram's identification: 16 bits in IPv4, 32 in an IPv6 fragment header, 0 in IPv6 without one.
    pub identification: u32,
    /// Source and destination port of TCP and UDP, even where the rest of their header is cut off; `None` for other
    /// protocols and fragments after the first.
    pub ports: Option<(u16, u16)>,
    /// The transport header; `None` for other protocols, fragments after the first, and truncated headers.
    pub transport: Option<Transport>,
    /// Offset of the transport header, in bytes.
    pub transport_offset: usize,
    /// Length of the packet according to its own header, in bytes; what follows is padding.
    pub total_len: usize,
}

/// The source or the destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketEnd {
    /// The sending end.
    Source,
    /// The receiving end.
    Destination,
}

/// Which part of a datagram a packet holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// The whole datagram.
    Whole,
    /// The first fragment, which has the transport header.
    First,
    /// Any later fragment, which has none.
    Later,
}

/// A transport header.
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
    /// Sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// Acknowledgment number, if the ACK flag is set.
    pub acknowledgment: Option<u32>,
    /// The SYN flag.
    pub syn: bool,
    /// The FIN flag.
    pub fin: bool,
    /// The RST flag.
    pub rst: bool,
    /// Payload in this packet, in bytes.
    pub payload_len: usize,
}

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp {
    /// Payload in this packet, in bytes.
    pub payload_len: usize,
}

/// An ICMP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp {
    /// Type; its meaning differs between the IP versions.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Whether this is an error message, which quotes the packet it is about.
    pub is_error: bool,
    /// Identifier of a query or its reply: echo of both versions, timestamp, information and address mask of IPv4.
    pub identifier: Option<u16>,
}

/// Why bytes cannot be read as an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The IP header is truncated or inconsistent.
    #[error("cannot read an IP packet from {len} bytes: its header is truncated or inconsistent; drop it")]
    Header {
        /// Length of the input, in bytes.
        len: usize,
    },
    /// The packet is shorter than its header says.
    #[error("cannot read an IP packet from {len} bytes: its header announces more; pass the whole packet or drop it")]
    Truncated {
        /// Length of the input, in bytes.
        len: usize,
    },
}

impl Headers {
    /// Reads the headers of a complete packet, which may be followed by padding.
    ///
    /// # Errors
    /// The IP header is truncated or inconsistent, or announces more bytes than there are.
    pub fn parse(packet: &[u8]) -> Result<Headers, ParseError> {
        let (headers, complete) = read_headers(packet)?;
        if complete { Ok(headers) } else { Err(ParseError::Truncated { len: packet.len() }) }
    }

    /// Reads the headers of a packet that may be truncated, as in a capture with a snap length or in an ICMP error.
    /// Lengths then count the bytes present.
    ///
    /// # Errors
    /// The IP header itself is truncated or inconsistent.
    pub fn parse_truncated(packet: &[u8]) -> Result<Headers, ParseError> {
        read_headers(packet).map(|(headers, _)| headers)
    }

    /// The TCP header, if there is one.
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.transport {
            Some(Transport::Tcp(tcp)) => Some(tcp),
            _ => None,
        }
    }

    /// The ICMP header, if there is one.
    pub fn icmp(&self) -> Option<&Icmp> {
        match &self.transport {
            Some(Transport::Icmp(icmp)) => Some(icmp),
            _ => None,
        }
    }

    /// Whether this is an ICMP error, about which no error may be sent (RFC 1122 §3.2.2).
    pub fn is_icmp_error(&self) -> bool {
        self.icmp().is_some_and(|icmp| icmp.is_error)
    }

    /// Whether the packet holds only part of a datagram.
    pub fn is_fragment(&self) -> bool {
        self.fragment != Fragment::Whole
    }

    /// The address of one end.
    pub fn address(&self, end: PacketEnd) -> IpAddr {
        match end {
            PacketEnd::Source => self.source,
            PacketEnd::Destination => self.destination,
        }
    }

    /// The port of one end, or the identifier of an ICMP query, which belongs to both ends.
    pub fn port(&self, end: PacketEnd) -> Option<u16> {
        match (self.ports, end) {
            (Some((source, _)), PacketEnd::Source) => Some(source),
            (Some((_, destination)), PacketEnd::Destination) => Some(destination),
            (None, _) => self.icmp()?.identifier,
        }
    }

    /// Sets the address of one end; the packet follows with [`rewrite`](fn@crate::rewrite).
    pub fn set_address(&mut self, end: PacketEnd, address: IpAddr) {
        match end {
            PacketEnd::Source => self.source = address,
            PacketEnd::Destination => self.destination = address,
        }
    }

    /// Sets the port of one end, or the identifier of an ICMP query; no effect where there is neither. The packet
    /// follows with [`rewrite`](fn@crate::rewrite).
    pub fn set_port(&mut self, end: PacketEnd, port: u16) {
        match (&mut self.ports, end) {
            (Some((source, _)), PacketEnd::Source) => *source = port,
            (Some((_, destination)), PacketEnd::Destination) => *destination = port,
            (None, _) => {
                if let Some(Transport::Icmp(Icmp { identifier: Some(identifier), .. })) = &mut self.transport {
                    *identifier = port;
                }
            }
        }
    }
}

impl Tcp {
    /// The sequence space that this segment occupies: its payload, SYN and FIN.
    pub fn sequence_len(&self) -> u32 {
        // A segment within one IP packet is shorter than 2³² bytes.
        self.payload_len as u32 + u32::from(self.syn) + u32::from(self.fin)
    }

    /// Whether it opens a connection: SYN without ACK.
    pub fn is_connection_request(&self) -> bool {
        self.syn && self.acknowledgment.is_none() && !self.rst
    }
}

fn read_headers(packet: &[u8]) -> Result<(Headers, bool), ParseError> {
    let error = ParseError::Header { len: packet.len() };
    let (slice, stop) = LaxIpSlice::from_slice(without_padding(packet)).map_err(|_| error)?;
    // Where the last extension header is malformed, etherparse 0.21 iterates past the packet.
    if stop.is_some() && matches!(slice, LaxIpSlice::Ipv6(_)) {
        return Err(error);
    }
    let (offset, fragment, identification) = match &slice {
        LaxIpSlice::Ipv4(v4) => {
            let header = v4.header();
            if usize::from(header.total_len()) < header.slice().len() {
                return Err(error);
            }
            let auth = v4.extensions().auth.map_or(0, |auth| auth.slice().len());
            let fragment = fragment(header.fragments_offset().value(), header.more_fragments());
            (header.slice().len() + auth, fragment, u32::from(header.identification()))
        }
        LaxIpSlice::Ipv6(v6) => {
            let (fragment, identification) = ipv6_fragment(v6);
            (v6.header().slice().len() + v6.extensions().slice().len(), fragment, identification)
        }
    };
    let payload = slice.payload();
    let protocol = payload.ip_number.0;
    let segment = if fragment == Fragment::Later { &[] } else { payload.payload };
    let headers = Headers {
        source: slice.source_addr(),
        destination: slice.destination_addr(),
        protocol,
        fragment,
        identification,
        ports: ports(protocol, segment),
        transport: transport(protocol, segment),
        transport_offset: offset,
        total_len: offset + payload.payload.len(),
    };
    Ok((headers, !payload.incomplete))
}

/// An IPv6 payload length of zero means an empty payload (jumbograms are not supported), while the parser would take all
/// that follows.
fn without_padding(packet: &[u8]) -> &[u8] {
    match packet {
        [first, _, _, _, 0, 0, ..] if first >> 4 == 6 => &packet[..packet.len().min(40)],
        _ => packet,
    }
}

fn ipv6_fragment(slice: &LaxIpv6Slice<'_>) -> (Fragment, u32) {
    let header = slice.extensions().clone().into_iter().find_map(|extension| match extension {
        Ipv6ExtensionSlice::Fragment(header) => Some(header),
        _ => None,
    });
    header.map_or((Fragment::Whole, 0), |header| {
        (fragment(header.fragment_offset().value(), header.more_fragments()), header.identification())
    })
}

fn fragment(offset: u16, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}

fn ports(protocol: u8, segment: &[u8]) -> Option<(u16, u16)> {
    match (protocol, segment) {
        (protocol::TCP | protocol::UDP, [a, b, c, d, ..]) => {
            Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
        }
        _ => None,
    }
}

fn transport(protocol: u8, segment: &[u8]) -> Option<Transport> {
    match protocol {
        protocol::TCP => tcp(segment),
        protocol::UDP => {
            let header = UdpHeaderSlice::from_slice(segment).ok()?;
            Some(Transport::Udp(Udp { payload_len: segment.len() - header.slice().len() }))
        }
        protocol::ICMP | protocol::ICMPV6 => icmp(protocol, segment),
        _ => None,
    }
}

fn tcp(segment: &[u8]) -> Option<Transport> {
    let header = TcpHeaderSlice::from_slice(segment).ok()?;
    Some(Transport::Tcp(Tcp {
        sequence: header.sequence_number(),
        acknowledgment: header.ack().then(|| header.acknowledgment_number()),
        syn: header.syn(),
        fin: header.fin(),
        rst: header.rst(),
        payload_len: segment.len() - header.slice().len(),
    }))
}

fn icmp(protocol: u8, segment: &[u8]) -> Option<Transport> {
    let &[kind, code, _, _, high, low, _, _, ..] = segment else { return None };
    let (is_error, is_query) = match protocol {
        // RFC 1122 §3.2.2 lists the error messages of ICMP for IPv4.
        protocol::ICMP => (matches!(kind, 3 | 4 | 5 | 11 | 12), matches!(kind, 0 | 8 | 13..=18)),
        // RFC 4443 §2.1: "error messages are identified as such by a zero in the high-order bit".
        _ => (kind < 128, matches!(kind, 128 | 129)),
    };
    let identifier = is_query.then(|| u16::from_be_bytes([high, low]));
    Some(Transport::Icmp(Icmp { kind, code, is_error, identifier }))
}

#[cfg(test)]
mod tests;
