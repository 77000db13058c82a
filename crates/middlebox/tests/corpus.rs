//! Replays the fuzzer's corpus (`fuzz/corpus/middlebox`), so that every find stays found, and gives a middlebox random
//! packets in the same way.

use crate::checks;
use crate::replay::replay;
use proptest::prelude::*;

#[test]
fn the_corpus_is_replayed() {
    replay("middlebox", checks::middlebox);
}

/// A packet between two of a few hosts, of any kind, whole or as a fragment, possibly damaged.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let packet =
        (0usize..HOSTS.len(), 0usize..HOSTS.len(), 0u8..4, any::<[u8; 6]>(), prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(from, to, kind, noise, payload)| packet(HOSTS[from], HOSTS[to], kind, noise, &payload));
    let noise = prop::collection::vec(any::<u8>(), 0..100);
    let damage = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    (any::<u8>(), prop_oneof![9 => packet, 1 => noise], damage).prop_map(|(control, mut bytes, damage)| {
        if let (Some((at, value)), false) = (damage, bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let length = (bytes.len() as u16).to_be_bytes();
        [&[control | 2, length[0], length[1]], &bytes[..]].concat()
    })
}

const HOSTS: [[u8; 4]; 6] =
    [[10, 0, 0, 1], [10, 0, 0, 2], [10, 1, 0, 3], [198, 51, 100, 2], [203, 0, 113, 1], [198, 18, 0, 3]];

/// An IPv4 packet: UDP, TCP, an ICMP query or an ICMP error, from one of few ports.
fn packet(from: [u8; 4], to: [u8; 4], kind: u8, noise: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let [port, other, flags, fragment, identification, _] = noise;
    let (port, other) = ([4, port % 8], [4, other % 8]);
    let segment = match kind {
        0 => [&port[..], &other, &[0, 8 + payload.len() as u8, 0, 0], payload].concat(),
        1 => [&port[..], &other, &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 0, 0, 0, 0, 0], payload].concat(),
        2 => [&[[8, 0, 13, 14][usize::from(flags % 4)], 0, 0, 0], &port[..], &[0, 1], payload].concat(),
        _ => [
            &[[3, 11, 12, 5][usize::from(flags % 4)], 0, 0, 0, 0, 0, 0, 0],
            &packet(to, from, flags % 3, noise, payload)[..],
        ]
        .concat(),
    };
    let protocol = [17, 6, 1, 1][usize::from(kind)];
    // Mostly whole, or else the first or the second of two fragments.
    let fragment = [[0, 0], [0, 0], [0x20, 0], [0, 1]][usize::from(fragment % 4)];
    let length = (20 + segment.len() as u16).to_be_bytes();
    let header = [0x45, 0, length[0], length[1], 0, identification % 3, fragment[0], fragment[1], 64, protocol, 0, 0];
    let mut packet = [&header[..], &from, &to, &segment].concat();
    let _ = kumade_packet::checksum::set(&mut packet);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_packets_do_harm(settings: u8, records in prop::collection::vec(record(), 0..120)) {
        checks::middlebox(&[&[settings][..], &records.concat()].concat());
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        checks::middlebox(&bytes);
    }
}
