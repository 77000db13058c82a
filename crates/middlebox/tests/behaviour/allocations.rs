//! Once the tables have grown, packets pass without an allocation, as do new sessions in the place of ended ones.

use super::traffic::*;
use kumade_middlebox::{
    Direction, FilterRule, Middlebox, MiddleboxConfig, PacketMatch, PrefixPair, PrefixSide, RefusalKind,
};
use kumade_packet::protocol;
use kumade_units::{Span, Time};

const PACKETS: usize = 20_000;

fn middlebox() -> Middlebox {
    let net = |text: &str| text.parse().unwrap();
    let prefixes =
        vec![PrefixPair { side: PrefixSide::Inside, internal: net("fd00::/48"), external: net("2001:db8:1::/48") }];
    let no_smtp = PacketMatch { protocol: Some(protocol::TCP), destination_port: Some(25) };
    let rules = vec![
        FilterRule::Refuse { matching: no_smtp, refusal: RefusalKind::Reject },
        FilterRule::LimitConnections { max_connections: 10_000, refusal: RefusalKind::Drop },
    ];
    Middlebox::new(MiddleboxConfig { rules, nat: Some(nat()), prefixes, ..Default::default() }, 1).unwrap()
}

/// Traffic of many hosts and of all kinds, with sessions that end and others that begin.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for host in 1..=50 {
        for port in 1..=8 {
            let from = format!("10.0.0.{host}:{}", 1000 + port);
            packets.push(udp(&from, SERVER, b"data"));
            packets.push(tcp(&from, SERVER, if port % 2 == 0 { "S" } else { "A" }, b"data"));
            packets.push(echo(&from, "192.0.2.9:0", true));
            packets.push(udp(&format!("[fd00::{host}]:{port}"), "[2001:db8::2]:9", b"data"));
        }
    }
    packets
}

/// Passes packets out, and what they look like from the outside back in; how many passed.
fn carry(router: &mut Middlebox, packets: &[Vec<u8>], buffer: &mut [u8], start: Time) -> usize {
    let mut passed = 0;
    for number in 0..PACKETS {
        // 100 s for all: sessions of ICMP and some of TCP end meanwhile.
        let now = start + Span::from_millis(5 * number as i64);
        let packet = &packets[number * 7 % packets.len()];
        let bytes = &mut buffer[..packet.len()];
        bytes.copy_from_slice(packet);
        passed += usize::from(
            router.process_packet(Direction::Outbound, bytes, now) == kumade_middlebox::PacketAction::Forward,
        );
        turn_around(bytes);
        passed += usize::from(
            router.process_packet(Direction::Inbound, bytes, now) == kumade_middlebox::PacketAction::Forward,
        );
    }
    passed
}

/// Exchanges source and destination, and makes a reply of an echo request. Checksums stay valid but that of ICMP, which
/// the middlebox does not check.
fn turn_around(packet: &mut [u8]) {
    let (first, length, transport) = if packet[0] >> 4 == 4 { (12, 4, 20) } else { (8, 16, 40) };
    let (sources, destinations) = packet[first..first + 2 * length].split_at_mut(length);
    sources.swap_with_slice(destinations);
    if packet[9] == protocol::ICMP && length == 4 {
        packet[transport] = 0;
    } else {
        let (sources, destinations) = packet[transport..transport + 4].split_at_mut(2);
        sources.swap_with_slice(destinations);
    }
}

#[test]
fn nothing_is_allocated_per_packet() {
    let (mut router, packets, mut buffer) = (middlebox(), packets(), [0; 1500]);
    carry(&mut router, &packets, &mut buffer, seconds(0));
    let created = router.counters().sessions_created;
    let mut passed = 0;
    let counted = allocation_counter::measure(|| passed = carry(&mut router, &packets, &mut buffer, seconds(10_000)));
    assert_eq!(passed, 2 * PACKETS);
    assert!(router.counters().sessions_created > created + 1000, "all sessions are new");
    assert_eq!(counted.count_total, 0);
}
