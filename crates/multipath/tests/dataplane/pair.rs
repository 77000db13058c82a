//! Two nodes and the paths between them under a virtual clock.

use super::world::{PathModel, World, model};
use kumade_multipath::dataplane::RemoteConfig;
use kumade_multipath::{PathPolicy, PathSet, PathState};
use kumade_noise_session::PresharedKey;
use kumade_packet::Ecn;
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn is_ordered(numbers: &[u32]) -> bool {
    numbers.is_sorted()
}

#[test]
fn unequal_paths_carry_their_sum_in_order() {
    for choice in [PathPolicy::Weighted, PathPolicy::EarliestArrival] {
        let mut world = World::new(1, choice.clone(), vec![model(8, 1), model(8, 25)]);
        world.run(0, 20, Time::ZERO + Span::from_secs(2));
        let before = world.received[1].len();
        world.run(0, 20, Time::ZERO + Span::from_secs(12));
        let goodput = world.goodput(1, before, Span::from_secs(10));
        // Of 16 Mbit/s, encapsulation leaves 1200 of 1304 bytes.
        assert!(goodput > 0.97 * 16.0 * 1200.0 / 1304.0, "{choice:?}: {goodput} Mbit/s");
        assert!(is_ordered(&world.received[1]), "{choice:?}: nothing was lost on the paths");
    }
}

#[test]
fn what_hosts_send_as_one_packet_arrives_as_the_packets_for_which_it_stands() {
    for choice in [PathPolicy::Weighted, PathPolicy::EarliestArrival, PathPolicy::Pinned] {
        let mut world = World::new(10, choice.clone(), vec![model(150, 1), model(100, 12)]);
        world.packets_at_once = 30;
        world.run(0, 80, Time::ZERO + Span::from_secs(4));
        let (before, large) = (world.offered[0], world.large_packets);
        world.run(0, 80, world.now + Span::from_secs(2));
        let (offered, large) = (world.offered[0] - before, world.large_packets - large);
        assert!(large * 4 < offered, "{choice:?}: {offered} packets as {large}");
        world.run(0, 0, world.now + Span::from_secs(1));
        let first = world.received[1].len() - (world.offered[0] - before) as usize;
        let numbers = &world.received[1][first..];
        assert!(numbers.iter().copied().eq(before..world.offered[0]), "{choice:?}: {numbers:?}");
    }
}

/// Others share packets one by one.
#[test]
fn packets_stand_for_several_only_where_these_may_take_one_path() {
    let ratio = PathPolicy::Ratio { shares: vec![1, 2], unit: Default::default() };
    for choice in [ratio, PathPolicy::Redundant] {
        let mut world = World::new(11, choice.clone(), vec![model(150, 1), model(150, 1)]);
        world.packets_at_once = 30;
        world.run(0, 80, Time::ZERO + Span::from_secs(2));
        assert_eq!(world.large_packets, 0, "{choice:?}");
    }
}

#[test]
fn a_path_that_dies_stops_nothing_for_long_and_is_used_again() {
    let mut world = World::new(2, PathPolicy::Weighted, vec![model(8, 10), model(8, 20)]);
    world.run(0, 12, Time::ZERO + Span::from_secs(3));
    world.paths[0].is_cut = true;
    world.run(0, 12, Time::ZERO + Span::from_secs(4));
    let before = world.received[1].len();
    world.run(0, 12, Time::ZERO + Span::from_secs(8));
    assert!(world.goodput(1, before, Span::from_secs(4)) > 7.0, "the other path's");
    world.paths[0].is_cut = false;
    world.run(0, 12, Time::ZERO + Span::from_secs(20));
    let before = world.received[1].len();
    world.run(0, 12, Time::ZERO + Span::from_secs(24));
    assert!(world.goodput(1, before, Span::from_secs(4)) > 11.5, "both paths'");
    assert!(is_ordered(&world.received[1]));
}

/// Each end had learned an address that the other one no longer has, and sent there as long as the path was down: for ever.
#[test]
fn a_path_returns_where_both_ends_have_moved_whether_they_have_moved_back_or_not() {
    for has_moved_back in [true, false] {
        let mut world = World::new(4, PathPolicy::Weighted, vec![model(8, 10), model(8, 20)]);
        world.run(0, 4, Time::ZERO + Span::from_secs(2));
        for own in 0..2 {
            world.moved.insert((own, 1));
            world.run(0, 4, world.now + Span::from_secs(2));
            let path = &world.nodes[1 - own].remote_statuses()[0].paths[1];
            assert_eq!(path.status.state, PathState::Up, "node {own} was followed");
        }
        world.paths[1].is_cut = true;
        world.run(0, 4, world.now + Span::from_secs(4));
        world.paths[1].is_cut = false;
        if has_moved_back {
            world.moved.clear();
        }
        world.run(0, 4, world.now + Span::from_secs(15));
        for own in 0..2 {
            let state = world.nodes[own].remote_statuses()[0].paths[1].status.state;
            assert_eq!(state, PathState::Up, "node {own}, has moved back: {has_moved_back}");
        }
    }
}

#[test]
fn a_peer_that_restarts_is_served_again() {
    for own in 0..2 {
        let mut world = World::new(3, PathPolicy::Weighted, vec![model(8, 10), model(8, 20)]);
        world.run(0, 4, Time::ZERO + Span::from_secs(3));
        world.restart(own);
        world.run(0, 4, Time::ZERO + Span::from_secs(30));
        let before = world.received[1].len();
        world.run(0, 4, Time::ZERO + Span::from_secs(32));
        assert!(world.goodput(1, before, Span::from_secs(2)) > 3.9, "node {own} restarted");
    }
}

#[test]
fn others_come_and_go_without_a_trace() {
    let mut world = World::new(8, PathPolicy::Weighted, vec![model(8, 10)]);
    let run = |world: &mut World| world.run(0, 4, world.now + Span::from_secs(1));
    run(&mut world);
    let before = world.received[1].len();
    let handshakes = world.nodes[1].remote_statuses()[0].handshakes;
    let (kept, other) = (world.remote(1), world.stranger(1, "10.0.7.0/24"));
    let networks = |more: &[&str]| {
        let networks = more.iter().map(|network| network.parse().unwrap());
        RemoteConfig { networks: kept.networks.iter().copied().chain(networks).collect(), ..kept.clone() }
    };
    let now = world.now;
    assert_eq!(
        world.nodes[1].reconfigure(vec![other.clone(), networks(&[])], PathSet::default(), now).unwrap(),
        [Some(1)]
    );
    run(&mut world);
    assert_eq!(world.nodes[1].remote_statuses()[1].key, kept.key);
    // A fault changes nothing.
    let new = world.stranger(1, "10.0.9.0/24");
    let (own, now) = (RemoteConfig { key: world.public_key(1), ..other.clone() }, world.now);
    for (remotes, said) in [
        (vec![networks(&["10.0.7.0/24"]), other.clone()], "the network 10.0.7.0/24"),
        (vec![own, networks(&[])], "own"),
        (vec![other.clone(), RemoteConfig { networks: Vec::new(), ..other.clone() }], &other.key.to_string()),
        (vec![RemoteConfig { routes: Vec::new(), ..new }], "0 routes for 1 paths"),
    ] {
        let refused = world.nodes[1].reconfigure(remotes, PathSet::default(), now).map_err(|error| error.to_string());
        assert!(refused.as_ref().is_err_and(|error| error.contains(said)), "{said}: {refused:?}");
    }
    run(&mut world);
    assert_eq!(world.nodes[1].remote_statuses().len(), 2);
    let now = world.now;
    assert_eq!(
        world.nodes[1].reconfigure(vec![networks(&["10.0.8.0/24"])], PathSet::default(), now).unwrap(),
        [None, Some(0)]
    );
    run(&mut world);
    world.run(0, 0, world.now + Span::from_secs(1));
    let status = world.nodes[1].remote_statuses()[0].clone();
    let since = &world.received[1][before..];
    assert!(since.iter().copied().eq(since[0]..world.offered[0]), "all in order");
    assert_eq!((status.handshakes, status.restarts, status.losses), (handshakes, 0, 0));
    // Who is gone is not heard, and is served again once it is a peer again.
    world.forgets_peer = true;
    let (before, now) = (world.received[1].len(), world.now);
    assert_eq!(world.nodes[1].reconfigure(vec![other], PathSet::default(), now).unwrap(), [None]);
    run(&mut world);
    assert_eq!(world.received[1].len(), before);
    let now = world.now;
    assert_eq!(world.nodes[1].reconfigure(vec![kept.clone()], PathSet::default(), now).unwrap(), [None]);
    world.run(0, 4, world.now + Span::from_secs(20));
    let before = world.received[1].len();
    run(&mut world);
    assert!(world.goodput(1, before, Span::from_secs(1)) > 3.9);
}

#[test]
fn another_second_key_makes_another_peer() {
    let mut world = World::new(9, PathPolicy::Weighted, vec![model(8, 10)]);
    world.run(0, 4, Time::ZERO + Span::from_secs(1));
    for own in 0..2 {
        let (remote, now) = (world.remote(own), world.now);
        let remote = RemoteConfig { psk: PresharedKey::from_bytes([5; 32]), ..remote };
        assert_eq!(world.nodes[own].reconfigure(vec![remote], PathSet::default(), now).unwrap(), [None]);
    }
    world.run(0, 4, world.now + Span::from_secs(20));
    let before = world.received[1].len();
    world.run(0, 4, world.now + Span::from_secs(1));
    assert!(world.goodput(1, before, Span::from_secs(1)) > 3.9);
}

#[test]
fn keys_change_without_a_trace() {
    let mut world = World::new(4, PathPolicy::Weighted, vec![model(8, 1), model(8, 25)]);
    world.run(0, 1, Time::ZERO + Span::from_secs(400));
    world.run(0, 0, Time::ZERO + Span::from_secs(401));
    let received = &world.received[1];
    assert!(is_ordered(received));
    // The first ones wait for the session in a queue that drops what waits too long.
    assert!(
        u32::try_from(received.len()).unwrap() > world.offered[0] - 20,
        "{} of {}",
        received.len(),
        world.offered[0]
    );
}

#[test]
fn what_a_queue_on_the_path_has_marked_is_marked_when_it_leaves_the_tunnel() {
    for (ecn, is_marked) in [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true)] {
        let mut world = World::new(5, PathPolicy::Weighted, vec![PathModel { marks: true, ..model(8, 10) }]);
        world.ecn = ecn;
        world.run(0, 4, Time::ZERO + Span::from_secs(2));
        let received = world.received[1].len();
        assert!(received > 700, "{ecn:?}: {received}");
        assert_eq!(world.marked[1], if is_marked { received } else { 0 }, "{ecn:?}");
    }
}

#[test]
fn the_queue_before_the_paths_marks_what_it_would_otherwise_drop() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut world = World::new(6, PathPolicy::Weighted, vec![model(8, 10)]);
        world.ecn = ecn;
        world.run(0, 4, Time::ZERO + Span::from_secs(2));
        let dropped = |world: &World| world.nodes[0].remote_statuses()[0].dropped_packets;
        let before = (world.marked[1], dropped(&world));
        world.run(0, 10, Time::ZERO + Span::from_secs(4));
        let since = (world.marked[1] - before.0, dropped(&world) - before.1);
        assert_eq!((since.0 > 0, since.1 > 0), (ecn == Ecn::Ect0, ecn == Ecn::NotEct), "{ecn:?}: {since:?}");
    }
}

#[test]
fn ten_thousand_flows_take_no_more_memory_than_their_packets_need_however_paths_come_and_go() {
    for choice in [PathPolicy::EarliestArrival, PathPolicy::Pinned] {
        let most = |flows: u32| {
            let mut delivered = 0;
            let allocated = allocation_counter::measure(|| {
                let mut world = World::new(7, choice.clone(), vec![model(100, 10), model(100, 30)]);
                world.flows = flows;
                for round in 0..8 {
                    world.paths[round % 2].is_cut = round % 4 < 2;
                    world.run(0, 120, world.now + Span::from_millis(250));
                    world.paths[round % 2].is_cut = false;
                }
                delivered = world.received[1].len();
            });
            assert!(delivered > 5_000, "{choice:?}: {delivered} packets of {flows} flows");
            allocated.bytes_max
        };
        let (some, many) = (most(100), most(10_000));
        // The queue may hold 4 MB, and what a packet takes besides.
        assert!(many < some + (16 << 20), "{choice:?}: {some} bytes for 100 flows, {many} for 10 000");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn packets_arrive_once_and_unaltered_whatever_paths_do(
        seed: u64,
        paths in prop::collection::vec((1u64..150, 0i64..80, 0u32..200), 1..5),
        cuts in prop::collection::vec((0usize..5, any::<bool>()), 0..6),
        choice in prop::sample::select(vec![
            PathPolicy::Weighted, PathPolicy::EarliestArrival, PathPolicy::Redundant, PathPolicy::Pinned,
        ]),
        at_once in prop::sample::select(vec![1, 20]),
    ) {
        let paths: Vec<_> = paths
            .into_iter()
            .map(|(mbit, delay, loss)| PathModel { loss: if loss < 20 { 0 } else { loss }, ..model(mbit, delay) })
            .collect();
        let mut world = World::new(seed, choice, paths);
        world.packets_at_once = at_once;
        world.run(0, 10, Time::ZERO + Span::from_secs(1));
        for (path, is_cut) in cuts {
            let path = path % world.paths.len();
            world.paths[path].is_cut = is_cut;
            world.run(0, 10, world.now + Span::from_millis(300));
            world.run(1, 10, world.now + Span::from_millis(300));
        }
        for numbers in &world.received {
            prop_assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "none twice");
        }
    }
}
