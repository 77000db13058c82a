//! Nanoseconds per packet: `cargo run --release -p kumade-middlebox --example packet_cost`.
//!
//! Packets of 10 000 flows pass out, and what replies to them would look like passes in, each parsed, looked up and
//! translated in place. Copying the packet into the buffer is measured by itself and subtracted.

use etherparse::PacketBuilder;
use kumade_middlebox::{
    Direction, EndpointDependence, Middlebox, MiddleboxConfig, NatConfig, NatLimits, PacketAction, PrefixPair,
    PrefixSide,
};
use kumade_units::Time;
use std::time::Instant;

const FLOWS: u16 = 10_000;
const ROUNDS: usize = 100;

fn main() {
    let nat = |filtering| {
        let limits = NatLimits { max_sessions_per_host: FLOWS.into(), ..NatLimits::default() };
        Some(NatConfig { filtering, limits, ..NatConfig::new([203, 0, 113, 1].into()) })
    };
    let prefixes = vec![PrefixPair {
        side: PrefixSide::Inside,
        internal: "fd00::/48".parse().expect("a prefix"),
        external: "2001:db8:1::/48".parse().expect("a prefix"),
    }];
    let with = |nat, prefixes| MiddleboxConfig { nat, prefixes, ..MiddleboxConfig::default() };
    for (name, config, packet) in [
        ("nothing to do", with(None, vec![]), udp_v4 as fn(u16) -> Vec<u8>),
        ("NAT44, UDP", with(nat(EndpointDependence::EndpointIndependent), vec![]), udp_v4),
        ("NAT44, UDP, dependent filtering", with(nat(EndpointDependence::AddressAndPortDependent), vec![]), udp_v4),
        ("NAT44, TCP", with(nat(EndpointDependence::EndpointIndependent), vec![]), tcp_v4),
        ("prefix, IPv6", with(None, prefixes), udp_v6),
    ] {
        let packets: Vec<_> = (0..FLOWS).map(packet).collect();
        let mut router = Middlebox::new(config, 1).expect("valid settings");
        // Sessions are opened before, and the replies that belong to them kept.
        let replies: Vec<_> = packets.iter().map(|packet| turned_around(&mut router, packet)).collect();
        let out = measure(&packets, |packet| router.process_packet(Direction::Outbound, packet, Time::ZERO));
        let back = measure(&replies, |packet| router.process_packet(Direction::Inbound, packet, Time::ZERO));
        println!("{name:<34} {out:>6.0} ns out {back:>6.0} ns in");
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(packets: &[Vec<u8>], mut pass: impl FnMut(&mut [u8]) -> PacketAction) -> f64 {
    let mut buffer = [0; 2048];
    // The fastest of all rounds: others were interrupted by what else the machine does.
    let mut run = |pass: &mut dyn FnMut(&mut [u8]) -> PacketAction| {
        let round = || {
            let begin = Instant::now();
            for packet in packets {
                let bytes = &mut buffer[..packet.len()];
                bytes.copy_from_slice(packet);
                assert_eq!(pass(bytes), PacketAction::Forward);
            }
            begin.elapsed().as_nanos() as f64 / packets.len() as f64
        };
        std::iter::repeat_with(round).take(ROUNDS).fold(f64::INFINITY, f64::min)
    };
    let copy = run(&mut |_| PacketAction::Forward);
    run(&mut pass) - copy
}

fn turned_around(router: &mut Middlebox, packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    router.process_packet(Direction::Outbound, &mut packet, Time::ZERO);
    let headers = kumade_packet::Headers::parse(&packet).expect("an IP packet");
    let mut turned = headers;
    (turned.source, turned.destination) = (headers.destination, headers.source);
    turned.ports = headers.ports.map(|(source, destination)| (destination, source));
    kumade_packet::rewrite(&mut packet, &headers, &turned).expect("the headers of this packet");
    packet
}

fn udp_v4(flow: u16) -> Vec<u8> {
    let mut packet = Vec::new();
    let step = PacketBuilder::ipv4([10, 0, 0, 1], [198, 51, 100, 2], 64).udp(1024 + flow, 5201);
    step.write(&mut packet, &[0; 1000]).expect("written to memory");
    packet
}

fn tcp_v4(flow: u16) -> Vec<u8> {
    let mut packet = Vec::new();
    let step = PacketBuilder::ipv4([10, 0, 0, 1], [198, 51, 100, 2], 64).tcp(1024 + flow, 5201, 1, 64_000).ack(1);
    step.write(&mut packet, &[0; 1000]).expect("written to memory");
    packet
}

fn udp_v6(flow: u16) -> Vec<u8> {
    let mut packet = Vec::new();
    let source = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let step = PacketBuilder::ipv6(source, [0x20; 16], 64).udp(1024 + flow, 5201);
    step.write(&mut packet, &[0; 1000]).expect("written to memory");
    packet
}
