//! Fragments. RFC 4787 REQ-14: "A NAT MUST support receiving in-order and out-of-order fragments, so it MUST have 'Received
//! Fragment Out of Order' behavior. a) A NAT's out-of-order fragment processing mechanism MUST be designed so that
//! fragmentation-based DoS attacks do not compromise the NAT's ability to process in-order and unfragmented IP packets."

use super::traffic::*;
use kumade_middlebox::{Direction, DropCause, Middlebox, NatConfig, NatLimits, PacketAction, ReleasedFragment};
use kumade_packet::checksum;
use kumade_units::Time;

const PAYLOAD: [u8; 3000] = [0x5a; 3000];

fn datagram(router: &mut Middlebox, direction: Direction) -> Vec<u8> {
    match direction {
        Direction::Outbound => udp(CLIENT, SERVER, &PAYLOAD),
        Direction::Inbound => {
            let external = external_of(router, CLIENT, Time::ZERO).to_string();
            udp(SERVER, &external, &PAYLOAD)
        }
    }
}

fn released(router: &mut Middlebox) -> Vec<ReleasedFragment> {
    std::iter::from_fn(|| router.next_released()).collect()
}

#[test]
fn fragments_in_order_follow_the_first() {
    for direction in [Direction::Outbound, Direction::Inbound] {
        let mut router = router(nat());
        let datagram = datagram(&mut router, direction);
        let passed: Vec<_> = fragments(&datagram, 1480, 77)
            .iter()
            .map(|fragment| pass(&mut router, direction, fragment, Time::ZERO).unwrap())
            .collect();
        let whole = reassembled(&passed);
        assert!(checksum::is_valid(&whole).unwrap(), "the checksum in the first covers all of it");
        let ends = (flow(&whole).source.to_string(), flow(&whole).destination.to_string());
        match direction {
            Direction::Outbound => assert!(ends.0.starts_with(EXTERNAL) && ends.1 == SERVER),
            Direction::Inbound => assert_eq!(ends, (SERVER.to_owned(), CLIENT.to_owned())),
        }
        assert_eq!(router.counters().fragments_held, 0);
    }
}

#[test]
fn fragments_before_the_first_are_held_and_released_with_it() {
    for direction in [Direction::Outbound, Direction::Inbound] {
        let mut router = router(nat());
        let datagram = datagram(&mut router, direction);
        let mut parts = fragments(&datagram, 1480, 77);
        for part in &mut parts[1..] {
            let before = part.clone();
            assert_eq!(router.process_packet(direction, part, Time::ZERO), PacketAction::Hold);
            assert_eq!(*part, before);
        }
        assert_eq!(released(&mut router), []);
        let first = pass(&mut router, direction, &parts[0], Time::ZERO).unwrap();
        let later = released(&mut router);
        assert_eq!(later.len(), parts.len() - 1);
        assert!(later.iter().all(|released| released.direction == direction));
        let all: Vec<_> = [first].into_iter().chain(later.into_iter().map(|released| released.packet)).collect();
        assert!(checksum::is_valid(&reassembled(&all)).unwrap());
        let counters = router.counters();
        assert_eq!((counters.fragments_held, counters.fragments_released), (2, 2));
    }
}

#[test]
fn a_fragmented_ping_and_a_hairpinned_datagram_pass() {
    let mut router = router(nat());
    let mut ping = echo(CLIENT, "192.0.2.9:0", true);
    ping.extend([1; 2000]);
    let length = (ping.len() as u16).to_be_bytes();
    ping[2..4].copy_from_slice(&length);
    checksum::set(&mut ping).unwrap();
    let passed: Vec<_> =
        fragments(&ping, 1480, 5).iter().map(|part| out(&mut router, part, Time::ZERO).unwrap()).collect();
    assert!(checksum::is_valid(&reassembled(&passed)).unwrap());

    let external = external_of(&mut router, "10.0.0.2:2000", Time::ZERO).to_string();
    let parts = fragments(&udp(CLIENT, &external, &PAYLOAD), 1480, 6);
    let mut last = parts[2].clone();
    assert_eq!(router.process_packet(Direction::Outbound, &mut last, Time::ZERO), PacketAction::Hold);
    for part in &parts[..2] {
        let mut part = part.clone();
        assert_eq!(router.process_packet(Direction::Outbound, &mut part, Time::ZERO), PacketAction::Hairpin);
        assert_eq!(part[16..20], [10, 0, 0, 2]);
    }
    let released = released(&mut router);
    assert_eq!((released.len(), released[0].direction), (1, Direction::Inbound));
    assert_eq!(released[0].packet[16..20], [10, 0, 0, 2]);
}

#[test]
fn fragments_whose_first_one_does_not_come_are_dropped() {
    let mut router = router(nat());
    let parts = fragments(&udp(CLIENT, SERVER, &PAYLOAD), 1480, 77);
    router.process_packet(Direction::Outbound, &mut parts[1].clone(), seconds(0));
    out(&mut router, &parts[0], seconds(10)).unwrap();
    assert_eq!(released(&mut router), []);
    assert_eq!(router.counters().dropped(DropCause::Fragment), 1);
    assert!(out(&mut router, &parts[2], seconds(19)).is_some());
    assert_eq!(
        router.process_packet(Direction::Outbound, &mut parts[2].clone(), seconds(20)),
        PacketAction::Hold,
        "the association ends"
    );
}

#[test]
fn a_flood_of_fragments_displaces_only_fragments() {
    let limits = NatLimits { max_fragmented_datagrams: 8, max_held_fragments: 4, ..NatLimits::default() };
    let mut router = router(NatConfig { limits, ..nat() });
    let external = external_of(&mut router, CLIENT, Time::ZERO).to_string();
    for identification in 0..1000 {
        let parts = fragments(&udp("192.0.2.66:1", &external, &PAYLOAD), 1480, identification);
        assert_eq!(router.process_packet(Direction::Inbound, &mut parts[1].clone(), Time::ZERO), PacketAction::Hold);
    }
    assert_eq!(router.counters().dropped(DropCause::Fragment), 1000 - 4);
    for part in fragments(&udp(SERVER, &external, &PAYLOAD), 1480, 7) {
        assert!(back(&mut router, &part, Time::ZERO).is_some(), "in order");
    }
    for identification in 0..1000 {
        let parts = fragments(&udp("192.0.2.66:1", &external, &PAYLOAD), 1480, identification);
        back(&mut router, &parts[0], Time::ZERO).unwrap();
    }
    assert!(back(&mut router, &udp(SERVER, &external, b"x"), Time::ZERO).is_some(), "unfragmented");
}

#[test]
fn released_fragments_that_nobody_takes_do_not_accumulate() {
    let limits = NatLimits { max_held_fragments: 4, ..NatLimits::default() };
    let mut router = router(NatConfig { limits, ..nat() });
    for identification in 0..50 {
        let parts = fragments(&udp(CLIENT, SERVER, &PAYLOAD), 1480, identification);
        router.process_packet(Direction::Outbound, &mut parts[1].clone(), Time::ZERO);
        router.process_packet(Direction::Outbound, &mut parts[2].clone(), Time::ZERO);
        router.process_packet(Direction::Outbound, &mut parts[0].clone(), Time::ZERO);
    }
    assert_eq!(released(&mut router).len(), 4);
}

/// A first fragment too short for the ports could hide them (RFC 3128).
#[test]
fn a_first_fragment_without_its_transport_header_is_dropped() {
    let mut router = router(nat());
    let parts = fragments(&tcp(CLIENT, SERVER, "S", b"data"), 8, 1);
    assert_eq!(out(&mut router, &parts[0], Time::ZERO), None);
    assert_eq!(router.counters().dropped(DropCause::Unsupported), 1);
}
