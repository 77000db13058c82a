//! NAT sessions of two gateways, whatever happens to their messages and to themselves.

use crate::nat_checks;
use crate::nat_world::{Faults, World, flow};
use crate::replay::replay;
use kumade_multipath::nat_session::{NatConfig, NatPeer, RefusalReason, SessionPhase};
use kumade_units::Span;
use proptest::prelude::*;

const IDLE: Span = Span::from_secs(20);
const CONFIG: NatConfig = NatConfig { idle_timeout: IDLE, max_sessions: 20 };
/// All is forgotten after that: idleness, repeated ends, the far end's patience.
const ALL_OVER: Span = Span::from_secs(200);

fn world(faults: Faults) -> World {
    let mut world = World::new(CONFIG, faults, 1);
    world.run(Span::from_secs(1));
    world
}

#[test]
fn the_corpus_is_replayed() {
    replay("nat_sessions", nat_checks::messages);
}

fn phases(world: &World, gateway: usize) -> Vec<SessionPhase> {
    world.gateways[gateway].peer.sessions().map(|session| session.phase).collect()
}

/// The paper's Fig. 3.
#[test]
fn a_session_begins_with_the_first_packet_and_ends_after_the_idle_time() {
    let mut world = world(Faults::default());
    let started = world.now;
    while world.now - started < Span::from_secs(30) {
        world.packet(0, flow(0, 0));
        world.run(Span::from_secs(1));
    }
    let [sender, receiver] = &world.gateways;
    assert!(sender.rules.divided.contains_key(&flow(0, 0)));
    assert_eq!(receiver.rules.restored.values().copied().collect::<Vec<_>>(), [flow(0, 0)]);
    let status = sender.peer.sessions().next().unwrap();
    assert_eq!((status.phase, status.packets, status.bytes), (SessionPhase::Active, 29, 2900));
    let last = world.now - Span::from_secs(1);
    assert_eq!(status.deadline, Some(last + IDLE));
    world.run(IDLE - Span::from_millis(1100));
    assert_eq!(phases(&world, 0), [SessionPhase::Active]);
    world.run(Span::from_millis(200));
    assert_eq!((phases(&world, 0), phases(&world, 1)), (vec![], vec![]));
    assert!(world.gateways.iter().all(|gateway| gateway.rules.divided.is_empty()));
    assert!(world.gateways.iter().all(|gateway| gateway.rules.restored.is_empty()));
    let statistics = world.gateways[0].peer.statistics();
    assert_eq!((statistics.begun, statistics.accepted, statistics.idle), (1, 1, 1));
    assert_eq!((world.packets_without_rule, statistics.retransmissions), (0, 0));
}

/// What has passed is read now and then, so that the last packet may not be known when the idle time is over.
#[test]
fn a_session_ends_as_idle_only_once_it_is_known_that_nothing_has_passed() {
    for (packets, phase) in [(0, SessionPhase::Ending), (1, SessionPhase::Active)] {
        let mut world = World::new(NatConfig { idle_timeout: Span::from_secs(3), ..CONFIG }, Faults::default(), 1);
        world.run(Span::from_secs(1));
        world.packet(0, flow(0, 0));
        world.run(Span::from_millis(100));
        let peer = &mut world.gateways[0].peer;
        let idle_at = peer.next_idle_check().unwrap();
        peer.advance(idle_at);
        let phase_of = |peer: &NatPeer| peer.sessions().next().map(|session| session.phase);
        assert_eq!(phase_of(peer), Some(SessionPhase::Active));
        peer.flow_used(&flow(0, 0), packets, packets * 100, idle_at);
        peer.counters_read(idle_at);
        assert_eq!(phase_of(peer), Some(phase));
        assert_eq!(peer.next_idle_check(), (packets > 0).then_some(idle_at + Span::from_secs(3)));
    }
}

#[test]
fn a_lost_confirmation_is_asked_for_again_with_growing_pauses_and_then_given_up() {
    let mut world = world(Faults::default());
    world.packet(0, flow(0, 0));
    world.faults.cut = true;
    world.run(Span::from_millis(100));
    assert_eq!(phases(&world, 0), [SessionPhase::Asking]);
    // The confirmation was lost, the request was not.
    assert_eq!(world.gateways[1].rules.restored.len(), 1);
    world.faults.cut = false;
    world.run(Span::from_millis(500));
    assert_eq!(phases(&world, 0), [SessionPhase::Active]);
    assert_eq!(world.gateways[0].peer.statistics().retransmissions, 1);
    assert_eq!(world.gateways[1].peer.statistics().granted, 1);
}

#[test]
fn a_far_end_that_no_longer_answers_loses_all_sessions_and_gets_them_again() {
    let mut world = world(Faults::default());
    for _ in 0..5 {
        world.packet(0, flow(0, 0));
        world.run(Span::from_secs(1));
    }
    world.faults.cut = true;
    world.run(Span::from_secs(6));
    assert!(world.gateways[0].rules.divided.is_empty() && !world.gateways[0].peer.is_reachable());
    assert!(world.gateways[0].reconnects > 0);
    world.packet(0, flow(0, 0));
    assert_eq!(phases(&world, 0), []);
    world.faults.cut = false;
    world.run(Span::from_secs(2));
    world.packet(0, flow(0, 0));
    world.run(Span::from_secs(1));
    world.packet(0, flow(0, 0));
    assert_eq!((world.gateways[0].rules.divided.len(), world.packets_without_rule), (1, 0));
}

#[test]
fn a_restarted_gateway_is_noticed_and_asked_again_at_once() {
    for restarted in 0..2 {
        let mut world = world(Faults::default());
        for number in 0..10 {
            world.packet(0, flow(0, number));
        }
        world.run(Span::from_secs(1));
        world.restart(restarted);
        world.run(Span::from_millis(100));
        let [sender, receiver] = &world.gateways;
        if restarted == 1 {
            assert_eq!((sender.rules.divided.len(), receiver.rules.restored.len()), (10, 10));
            assert_eq!(sender.peer.statistics().asked_again, 10);
        } else {
            // What it had asked for is gone with it.
            assert_eq!((sender.rules.divided.len(), receiver.rules.restored.len()), (0, 0));
        }
        assert_eq!(world.gateways[1 - restarted].peer.statistics().restarts, 1);
    }
}

#[test]
fn refused_flows_are_left_alone_for_a_while() {
    let mut world = world(Faults::default());
    world.gateways[1].rules.refuses = true;
    world.packet(0, flow(0, 0));
    world.run(Span::from_secs(1));
    assert_eq!(phases(&world, 0), [SessionPhase::Refused(Some(RefusalReason::Failed))]);
    world.packet(0, flow(0, 0));
    world.run(Span::from_secs(1));
    assert_eq!(world.gateways[1].peer.statistics().denied, 1);
    world.run(Span::from_secs(30));
    world.gateways[1].rules.refuses = false;
    // The sending gateway's own system refuses.
    world.gateways[0].rules.refuses = true;
    world.packet(0, flow(0, 0));
    world.run(Span::from_secs(1));
    assert_eq!(phases(&world, 0), [SessionPhase::Refused(None)]);
    assert_eq!(world.gateways[1].rules.restored.len(), 0);
}

#[test]
fn flows_that_would_look_alike_get_other_aliases_or_none() {
    let mut world = world(Faults::default());
    let mut alike = [flow(0, 0); 3];
    for (host, flow) in (2..).zip(&mut alike) {
        flow.source.set_ip(format!("10.0.0.{host}").parse().unwrap());
        world.packet(0, *flow);
    }
    world.run(Span::from_secs(1));
    alike.iter().for_each(|flow| world.packet(0, *flow));
    assert_eq!((world.gateways[0].rules.divided.len(), world.packets_without_rule), (2, 0));
    assert_eq!(world.gateways[0].peer.statistics().no_alias, 1);
}

#[test]
fn a_gateway_that_says_goodbye_is_left_at_once() {
    for leaving in 0..2 {
        let mut world = world(Faults::default());
        world.packet(0, flow(0, 0));
        world.run(Span::from_secs(1));
        world.gateways[leaving].peer.close();
        world.act(leaving);
        world.run(Span::from_millis(20));
        let left = &world.gateways[1 - leaving].rules;
        assert!(left.divided.is_empty() && left.restored.is_empty());
    }
}

#[test]
fn ten_thousand_sessions_begin_within_seconds_and_stay_known() {
    let config = NatConfig { idle_timeout: Span::from_secs(60), max_sessions: 10_000 };
    let mut world = World::new(config, Faults { max_delay_millis: 20, ..Faults::default() }, 1);
    world.run(Span::from_secs(1));
    for number in 0..11_000 {
        world.packet(0, flow(0, number));
    }
    world.run(Span::from_secs(5));
    assert_eq!((world.gateways[0].rules.divided.len(), world.gateways[1].rules.restored.len()), (10_000, 10_000));
    assert_eq!(world.gateways[0].peer.statistics().full, 1000);
    for _ in 0..15 {
        (0..10_000).for_each(|number| world.packet(0, flow(0, number)));
        world.run(Span::from_secs(20));
    }
    assert_eq!((world.gateways[1].peer.statistics().lapsed, world.packets_without_rule), (0, 0));
    world.run(Span::from_secs(65));
    assert!(world.gateways.iter().all(|gateway| gateway.peer.session_counts() == (0, 0)));
}

#[derive(Debug, Clone)]
enum Event {
    Packet(usize, u16),
    Wait(i64),
    Restart(usize),
    Cut(bool),
    Refuse(usize, bool),
    Bye(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let side = 0usize..2;
    prop_oneof![
        12 => (side.clone(), 0u16..30).prop_map(|(side, number)| Event::Packet(side, number)),
        8 => prop_oneof![3 => 0i64..300, 1 => 0i64..30_000].prop_map(Event::Wait),
        1 => side.clone().prop_map(Event::Restart),
        1 => any::<bool>().prop_map(Event::Cut),
        1 => (side.clone(), any::<bool>()).prop_map(|(side, refuses)| Event::Refuse(side, refuses)),
        1 => side.prop_map(Event::Bye),
    ]
}

fn play(world: &mut World, events: &[Event]) {
    for event in events {
        match *event {
            Event::Packet(side, number) => world.packet(side, flow(side, number)),
            Event::Wait(millis) => world.run(Span::from_millis(millis)),
            Event::Restart(side) => world.restart(side),
            Event::Cut(cut) => world.faults.cut = cut,
            Event::Refuse(side, refuses) => world.gateways[side].rules.refuses = refuses,
            Event::Bye(side) => {
                world.gateways[side].peer.close();
                world.act(side);
                world.restart(side);
            }
        }
    }
    world.faults = Faults { max_delay_millis: 20, ..Faults::default() };
    world.gateways.iter_mut().for_each(|gateway| gateway.rules.refuses = false);
}

/// A message that is near enough to a right one to get far, as [`nat_checks::messages`] reads it.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let id = (0u8..4).prop_map(|id| vec![0, 0, 0, id]);
    let tail = prop::collection::vec(prop_oneof![4 => 0u8..3, 1 => any::<u8>()], 0..20);
    let rule = (0u8..4, 0u8..3, 0u8..3).prop_map(|(port, one, other)| {
        let arriving = [one, other].map(|alias| [192, 0, 2, alias, 10, 2, 0, 2]);
        let count = if one < other { 2 } else { 1 };
        let flow = [4, 17, 0, port, 0, 9, 10, 1, 0, 2, 10, 2, 0, 2, count];
        [&flow[..], &arriving.as_flattened()[..8 * usize::from(count)]].concat()
    });
    let body = prop_oneof![3 => Just(Vec::new()), 3 => rule, 1 => tail].prop_flat_map(move |rest| {
        prop_oneof![4 => id.clone(), 1 => Just(Vec::new())].prop_map(move |id| [id, rest.clone()].concat())
    });
    (any::<u8>(), prop_oneof![4 => 0u8..3, 1 => any::<u8>()], body)
        .prop_map(|(head, gap, body)| [&[head, gap, body.len() as u8][..], &body].concat())
}

proptest! {
    #[test]
    fn whatever_happens_both_ends_agree_again_and_nothing_stays(
        events in prop::collection::vec(event(), 0..80),
        loss in 0.0..0.5f64,
        duplication in 0.0..0.5f64,
        max_delay_millis in prop_oneof![3 => 0i64..50, 1 => 0i64..3000],
        seed in any::<u64>(),
    ) {
        let mut world = World::new(CONFIG, Faults { loss, duplication, max_delay_millis, cut: false }, seed);
        play(&mut world, &events);
        // Flows that go on have their sessions, at both ends.
        let flows: Vec<_> = (0..2).flat_map(|side| (100..105).map(move |number| (side, flow(side, number)))).collect();
        world.run(ALL_OVER);
        prop_assert!(world.gateways.iter().all(|gateway| gateway.peer.session_counts() == (0, 0)));
        for _ in 0..10 {
            flows.iter().for_each(|(side, flow)| world.packet(*side, *flow));
            world.run(Span::from_secs(1));
        }
        world.packets_without_rule = 0;
        flows.iter().for_each(|(side, flow)| world.packet(*side, *flow));
        prop_assert_eq!(world.packets_without_rule, 0);
        for (side, flow) in flows {
            let gateway = &world.gateways[side];
            prop_assert!(gateway.rules.divided.contains_key(&flow), "{:?}", gateway.peer);
        }
        // And when they end, nothing is left.
        world.run(ALL_OVER);
        for gateway in &world.gateways {
            prop_assert_eq!(gateway.peer.session_counts(), (0, 0));
            prop_assert!(gateway.rules.divided.is_empty() && gateway.rules.restored.is_empty());
        }
    }

    #[test]
    fn any_messages_of_a_known_peer_are_taken_in_bounded_memory(records in prop::collection::vec(record(), 0..100)) {
        nat_checks::messages(&records.concat());
    }

    #[test]
    fn without_restarts_no_divided_packet_finds_no_rule(
        packets in prop::collection::vec((0usize..2, 0u16..10, 0i64..5000), 0..200),
        duplication in 0.0..0.5f64,
        loss in 0.0..0.3f64,
        max_delay_millis in 0i64..200,
        seed in any::<u64>(),
    ) {
        let mut world = World::new(CONFIG, Faults { loss, duplication, max_delay_millis, cut: false }, seed);
        for (side, number, wait) in packets {
            world.packet(side, flow(side, number));
            world.run(Span::from_millis(wait));
        }
        prop_assert_eq!(world.packets_without_rule, 0);
    }
}
