//! Packets for the tests of this crate, built by etherparse, and a router that takes them.

use etherparse::{IpFragOffset, IpHeaders, IpNumber, Ipv4Header, PacketBuilder, PacketBuilderStep, TcpHeader};
use kumade_middlebox::{Direction, EndpointDependence, Middlebox, MiddleboxConfig, NatConfig, PacketAction};
use kumade_packet::{FlowKey, Headers, checksum};
use kumade_units::{Span, Time};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

pub const EXTERNAL: &str = "203.0.113.1";
pub const CLIENT: &str = "10.0.0.1:40000";
pub const SERVER: &str = "198.51.100.2:5201";

pub fn seconds(seconds: i64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn ip(from: &str, to: &str) -> (PacketBuilderStep<IpHeaders>, u16, u16) {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let step = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        mixed => panic!("of two IP versions: {mixed:?}"),
    };
    (step, from.port(), to.port())
}

pub fn udp(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let (step, from, to) = ip(from, to);
    let mut packet = Vec::new();
    step.udp(from, to).write(&mut packet, payload).unwrap();
    packet
}

/// A TCP segment with the flags named by `S`, `A`, `F` and `R`.
pub fn tcp(from: &str, to: &str, flags: &str, payload: &[u8]) -> Vec<u8> {
    let (step, from, to) = ip(from, to);
    let mut header = TcpHeader::new(from, to, 1000, 64_000);
    (header.syn, header.ack, header.fin) = (flags.contains('S'), flags.contains('A'), flags.contains('F'));
    (header.rst, header.acknowledgment_number) = (flags.contains('R'), if header.ack { 500 } else { 0 });
    let mut packet = Vec::new();
    step.tcp_header(header).write(&mut packet, payload).unwrap();
    packet
}

/// An echo request, or the reply to one; the port of `from` or `to` is the identifier.
pub fn echo(from: &str, to: &str, is_request: bool) -> Vec<u8> {
    let (step, from_port, to_port) = ip(from, to);
    let is_v4 = from.parse::<SocketAddr>().unwrap().is_ipv4();
    let mut packet = Vec::new();
    match (is_v4, is_request) {
        (true, true) => step.icmpv4_echo_request(from_port, 7).write(&mut packet, b"ping"),
        (true, false) => step.icmpv4_echo_reply(to_port, 7).write(&mut packet, b"ping"),
        (false, true) => step.icmpv6_echo_request(from_port, 7).write(&mut packet, b"ping"),
        (false, false) => step.icmpv6_echo_reply(to_port, 7).write(&mut packet, b"ping"),
    }
    .unwrap();
    packet
}

/// "Time exceeded" by `router` about `packet`, quoting `quoted_bytes` of it.
pub fn time_exceeded(router: &str, packet: &[u8], quoted_bytes: usize) -> Vec<u8> {
    let headers = Headers::parse(packet).unwrap();
    let router = SocketAddr::new(router.parse().unwrap(), 0).to_string();
    let (step, ..) = ip(&router, &SocketAddr::new(headers.source, 0).to_string());
    let quote = &packet[..packet.len().min(quoted_bytes)];
    let mut error = Vec::new();
    match headers.source {
        IpAddr::V4(_) => step.icmpv4_raw(11, 0, [0; 4]).write(&mut error, quote),
        IpAddr::V6(_) => step.icmpv6_raw(3, 0, [0; 4]).write(&mut error, quote),
    }
    .unwrap();
    error
}

/// The fragments of an IPv4 packet, each with at most this many bytes of it, a multiple of 8.
pub fn fragments(packet: &[u8], bytes: usize, identification: u16) -> Vec<Vec<u8>> {
    let (header, payload) = Ipv4Header::from_slice(packet).unwrap();
    let parts: Vec<_> = payload.chunks(bytes).collect();
    let build = |(index, part): (usize, &&[u8])| {
        let mut header = header.clone();
        header.identification = identification;
        header.fragment_offset = IpFragOffset::try_new((index * bytes / 8) as u16).unwrap();
        (header.more_fragments, header.dont_fragment) = (index + 1 < parts.len(), false);
        header.set_payload_len(part.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        [&header.to_bytes()[..], part].concat()
    };
    parts.iter().enumerate().map(build).collect()
}

/// The datagram of all its fragments, in order.
pub fn reassembled(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut header = Ipv4Header::from_slice(&fragments[0]).unwrap().0;
    let payload: Vec<u8> = fragments.iter().flat_map(|fragment| fragment[20..].to_vec()).collect();
    (header.more_fragments, header.identification) = (false, 0);
    header.set_payload_len(payload.len()).unwrap();
    header.header_checksum = header.calc_header_checksum();
    [&header.to_bytes()[..], &payload].concat()
}

pub fn flow(packet: &[u8]) -> FlowKey {
    let headers = Headers::parse(packet).unwrap();
    let mut flow = FlowKey::from_headers(&headers);
    if let Some(identifier) = headers.icmp().and_then(|icmp| icmp.identifier) {
        flow.source.set_port(identifier);
        flow.destination.set_port(identifier);
    }
    flow
}

pub fn is_icmp(packet: &[u8]) -> bool {
    Headers::parse(packet).unwrap().protocol == u8::from(IpNumber::ICMP)
}

pub fn nat() -> NatConfig {
    NatConfig::new(EXTERNAL.parse().unwrap())
}

pub fn filtering(filtering: EndpointDependence) -> NatConfig {
    NatConfig { filtering, ..nat() }
}

pub fn router(nat: NatConfig) -> Middlebox {
    Middlebox::new(MiddleboxConfig { nat: Some(nat), ..Default::default() }, 42).unwrap()
}

/// Passes a packet; the translated packet if it is forwarded.
pub fn pass(router: &mut Middlebox, direction: Direction, packet: &[u8], now: Time) -> Option<Vec<u8>> {
    let mut translated = packet.to_vec();
    match router.process_packet(direction, &mut translated, now) {
        PacketAction::Forward | PacketAction::Hairpin => {
            assert_eq!(checksum::is_valid(&translated), checksum::is_valid(packet));
            Some(translated)
        }
        _ => {
            assert_eq!(translated, packet, "only what is forwarded changes");
            None
        }
    }
}

pub fn out(router: &mut Middlebox, packet: &[u8], now: Time) -> Option<Vec<u8>> {
    pass(router, Direction::Outbound, packet, now)
}

pub fn back(router: &mut Middlebox, packet: &[u8], now: Time) -> Option<Vec<u8>> {
    pass(router, Direction::Inbound, packet, now)
}

/// The external endpoint of an inside one, as an outbound UDP packet shows it.
pub fn external_of(router: &mut Middlebox, inside: &str, now: Time) -> SocketAddrV4 {
    let packet = out(router, &udp(inside, SERVER, b"x"), now).expect("forwarded");
    match flow(&packet).source {
        SocketAddr::V4(source) => source,
        SocketAddr::V6(source) => panic!("{source} is not IPv4"),
    }
}
