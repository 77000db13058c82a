use crate::headers::{Headers, Tcp, Transport};
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, TcpHeader};
use std::net::IpAddr;

/// The segments that reset a connection at both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPair {
    /// To the source of the packet, with the addresses of a reply.
    pub to_source: Vec<u8>,
    /// To the destination of the packet, with the addresses of the packet.
    pub to_destination: Vec<u8>,
}

const HOP_LIMIT: u8 = 64;
// RFC 1812 §4.3.2.3: "The total length of the ICMP packet must not exceed 576 bytes"; RFC 4443 §3.1: "as much of
// invoking packet as possible without the ICMPv6 packet exceeding the minimum IPv6 MTU".
const MAX_ERROR_BYTES_V4: usize = 576;
const MAX_ERROR_BYTES_V6: usize = 1280;

/// Type and code of an ICMP error in IPv4 and in IPv6.
#[derive(Clone, Copy)]
struct ErrorCode {
    v4: (u8, u8),
    v6: (u8, u8),
}

const MIN_MTU_V6: u32 = 1280;

const PACKET_TOO_BIG: ErrorCode = ErrorCode { v4: (3, 4), v6: (2, 0) };
const PORT_UNREACHABLE: ErrorCode = ErrorCode { v4: (3, 3), v6: (1, 4) };
const ADMINISTRATIVELY_PROHIBITED: ErrorCode = ErrorCode { v4: (3, 13), v6: (1, 1) };

/// The reply of a firewall that rejects `packet`, with the packet's destination as its source: RST to TCP, "port
/// unreachable" to UDP, "administratively prohibited" to others. `None` where no reply is allowed: to RST, ICMP errors,
/// fragments, multicast and broadcast, sources that are not a single host (RFC 1122 §3.2.2), and bytes that are not a
/// complete IP packet.
pub fn reject(packet: &[u8]) -> Option<Vec<u8>> {
    let headers = answerable_headers(packet)?;
    match headers.transport {
        Some(Transport::Tcp(tcp)) => reset_reply(&headers, &tcp),
        Some(Transport::Udp(_)) => icmp_error(&headers, packet, PORT_UNREACHABLE, [0; 4]),
        _ => icmp_error(&headers, packet, ADMINISTRATIVELY_PROHIBITED, [0; 4]),
    }
}

/// The ICMP error "communication administratively prohibited" about `packet`, whatever it carries: the reply of a
/// translator without resources for a new session (RFC 5508 REQ-8). `None` as for [`reject`].
pub fn prohibit(packet: &[u8]) -> Option<Vec<u8>> {
    icmp_error(&answerable_headers(packet)?, packet, ADMINISTRATIVELY_PROHIBITED, [0; 4])
}

/// The ICMP error "packet too big" about `packet`, "fragmentation needed" for IPv4, with the length of the longest packet
/// that passes (RFC 8201; RFC 1191 §4), for IPv6 at least 1280 bytes. `None` as for [`reject`].
pub fn packet_too_big(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let headers = answerable_headers(packet)?;
    let field = match headers.source {
        IpAddr::V4(_) => mtu.min(u16::MAX.into()),
        IpAddr::V6(_) => mtu.max(MIN_MTU_V6),
    };
    icmp_error(&headers, packet, PACKET_TOO_BIG, field.to_be_bytes())
}

/// The segments with which a middlebox resets the connection of `packet`, a TCP segment, instead of forwarding it. Both
/// carry exactly the sequence number that their receiver expects next (RFC 5961 §3.2), provided that earlier segments
/// have arrived. `None` for everything but an unfragmented segment with ACK and without RST.
pub fn reset_both(packet: &[u8]) -> Option<ResetPair> {
    let headers = Headers::parse(packet).ok()?;
    let tcp = headers.tcp().filter(|tcp| !headers.is_fragment() && !tcp.rst)?;
    let (acknowledgment, (source_port, destination_port)) = (tcp.acknowledgment?, headers.ports?);
    let to_source = ip_builder(headers.destination, headers.source)?
        .tcp(destination_port, source_port, acknowledgment, 0)
        .rst()
        .ack(tcp.sequence.wrapping_add(tcp.sequence_len()));
    let to_destination = ip_builder(headers.source, headers.destination)?
        .tcp(source_port, destination_port, tcp.sequence, 0)
        .rst()
        .ack(acknowledgment);
    Some(ResetPair { to_source: build_segment(to_source)?, to_destination: build_segment(to_destination)? })
}

/// The headers of a packet that may be answered.
fn answerable_headers(packet: &[u8]) -> Option<Headers> {
    let headers = Headers::parse(packet).ok()?;
    let single = |address: IpAddr| !address.is_multicast() && !is_broadcast(address) && !address.is_unspecified();
    let allowed = !headers.is_fragment() && !headers.is_icmp_error();
    (allowed && single(headers.source) && single(headers.destination)).then_some(headers)
}

/// RFC 9293 §3.10.7.1: "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
/// If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>."
fn reset_reply(headers: &Headers, tcp: &Tcp) -> Option<Vec<u8>> {
    if tcp.rst {
        return None;
    }
    let ip = ip_builder(headers.destination, headers.source)?;
    let (to, from) = headers.ports?;
    build_segment(match tcp.acknowledgment {
        Some(expected) => ip.tcp(from, to, expected, 0).rst(),
        None => ip.tcp(from, to, 0, 0).rst().ack(tcp.sequence.wrapping_add(tcp.sequence_len())),
    })
}

/// An ICMP error that quotes as much of the packet as is allowed. `field` are the four bytes after the checksum.
fn icmp_error(headers: &Headers, packet: &[u8], code: ErrorCode, field: [u8; 4]) -> Option<Vec<u8>> {
    let step = ip_builder(headers.destination, headers.source)?;
    let packet = &packet[..headers.total_len];
    let quote = |max_bytes: usize| &packet[..packet.len().min(max_bytes)];
    let mut answer = Vec::new();
    match headers.source {
        IpAddr::V4(_) => {
            step.icmpv4_raw(code.v4.0, code.v4.1, field).write(&mut answer, quote(MAX_ERROR_BYTES_V4 - 28))
        }
        IpAddr::V6(_) => {
            step.icmpv6_raw(code.v6.0, code.v6.1, field).write(&mut answer, quote(MAX_ERROR_BYTES_V6 - 48))
        }
    }
    .ok()?;
    Some(answer)
}

fn ip_builder(source: IpAddr, destination: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some(PacketBuilder::ipv4(source.octets(), destination.octets(), HOP_LIMIT))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some(PacketBuilder::ipv6(source.octets(), destination.octets(), HOP_LIMIT))
        }
        _ => None,
    }
}

fn build_segment(step: PacketBuilderStep<TcpHeader>) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(step.size(0));
    step.write(&mut packet, &[]).ok()?;
    Some(packet)
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_broadcast())
}

#[cfg(test)]
mod tests;
