use crate::headers::{Headers, Tcp, Transport};
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, TcpHeader};
use std::net::IpAddr;

/// The segments that break a connection off at both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPair {
    /// For the sender of the packet seen, as if from its receiver.
    pub to_source: Vec<u8>,
    /// For the receiver of the packet seen, as if from its sender.
    pub to_destination: Vec<u8>,
}

const HOP_LIMIT: u8 = 64;
/// An ICMP error is no longer than this (RFC 1812 §4.3.2.3; RFC 4443 §3.1 (c)).
const LONGEST_ERROR_V4: usize = 576;
const LONGEST_ERROR_V6: usize = 1280;

/// What a firewall that rejects `packet` answers its sender, in the name of its receiver: RST to TCP, "port
/// unreachable" to UDP, "administratively prohibited" to the rest. `None` where nothing may be answered: to RST, ICMP
/// errors, fragments, many receivers, senders that are no single host (RFC 1122 §3.2.2), and to what is no IP packet.
pub fn reject(packet: &[u8]) -> Option<Vec<u8>> {
    let headers = Headers::parse(packet).ok()?;
    let single = |address: IpAddr| !address.is_multicast() && !is_broadcast(address) && !address.is_unspecified();
    if headers.is_fragment() || headers.is_icmp_error() || !single(headers.source) || !single(headers.destination) {
        return None;
    }
    match headers.transport {
        Some(Transport::Tcp(tcp)) => reset_answer(&headers, &tcp),
        Some(Transport::Udp(_)) => unreachable(&headers, &packet[..headers.total_len], (3, 3), (1, 4)),
        _ => unreachable(&headers, &packet[..headers.total_len], (3, 13), (1, 1)),
    }
}

/// What a middlebox sends to break off the connection of `packet`, a TCP segment, instead of passing it on. Both RST
/// have the very sequence number that their receiver expects next (as RFC 5961 §3.2 demands), provided that what was
/// sent before has arrived. `None` for anything but a whole segment with an acknowledgment.
pub fn reset_both(packet: &[u8]) -> Option<ResetPair> {
    let headers = Headers::parse(packet).ok()?;
    let tcp = headers.tcp().filter(|tcp| !headers.is_fragment() && !tcp.rst)?;
    let acknowledgment = tcp.acknowledgment?;
    let back = ip(headers.destination, headers.source)?
        .tcp(tcp.destination_port, tcp.source_port, acknowledgment, 0)
        .rst()
        .ack(tcp.sequence.wrapping_add(tcp.sequence_len()));
    let onward = ip(headers.source, headers.destination)?
        .tcp(tcp.source_port, tcp.destination_port, tcp.sequence, 0)
        .rst()
        .ack(acknowledgment);
    Some(ResetPair { to_source: built_tcp(back)?, to_destination: built_tcp(onward)? })
}

/// RFC 9293 §3.10.7.1: "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
/// If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>."
fn reset_answer(headers: &Headers, tcp: &Tcp) -> Option<Vec<u8>> {
    if tcp.rst {
        return None;
    }
    let ip = ip(headers.destination, headers.source)?;
    let (from, to) = (tcp.destination_port, tcp.source_port);
    built_tcp(match tcp.acknowledgment {
        Some(expected) => ip.tcp(from, to, expected, 0).rst(),
        None => ip.tcp(from, to, 0, 0).rst().ack(tcp.sequence.wrapping_add(tcp.sequence_len())),
    })
}

/// An ICMP error of this type and code by version, with as much of the packet as may be quoted.
fn unreachable(headers: &Headers, packet: &[u8], v4: (u8, u8), v6: (u8, u8)) -> Option<Vec<u8>> {
    let step = ip(headers.destination, headers.source)?;
    let mut answer = Vec::new();
    let quote = |most: usize| &packet[..packet.len().min(most)];
    match headers.source {
        IpAddr::V4(_) => step.icmpv4_raw(v4.0, v4.1, [0; 4]).write(&mut answer, quote(LONGEST_ERROR_V4 - 28)),
        IpAddr::V6(_) => step.icmpv6_raw(v6.0, v6.1, [0; 4]).write(&mut answer, quote(LONGEST_ERROR_V6 - 48)),
    }
    .ok()?;
    Some(answer)
}

fn ip(source: IpAddr, destination: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
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

fn built_tcp(step: PacketBuilderStep<TcpHeader>) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(step.size(0));
    step.write(&mut packet, &[]).ok()?;
    Some(packet)
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_broadcast())
}

#[cfg(test)]
mod tests;
