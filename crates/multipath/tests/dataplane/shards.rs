//! Nodes of several shards under a virtual clock.

use super::world::{PathModel, World, model};
use kumade_multipath::PathPolicy;
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::BTreeSet;

const FLOWS: u32 = 12;

fn at(seconds: i64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// Whether the packets of each flow came in their order.
fn is_ordered(received: &[u32]) -> bool {
    (0..FLOWS).all(|flow| received.iter().filter(|number| *number % FLOWS == flow).is_sorted())
}

/// Shards that reach the other node, by node.
fn in_use(world: &World) -> [u32; 2] {
    [0, 1].map(|own| {
        let nodes = std::iter::once(&world.nodes[own]).chain(&world.others[own]);
        nodes.map(|node| node.remote_statuses()[0].reaching_shards).sum()
    })
}

fn world(shards: [usize; 2]) -> World {
    let mut world = World::with_shards(11, PathPolicy::Weighted, vec![model(8, 5), model(8, 25)], shards);
    world.flows = FLOWS;
    world
}

#[test]
fn all_shards_carry_their_flows_in_order_and_together_what_the_paths_carry() {
    for shards in [2, 3, 8] {
        let mut world = world([shards; 2]);
        world.run(0, 20, at(3));
        assert_eq!(in_use(&world), [shards as u32; 2]);
        let (before, delivered) = (world.received[1].len(), |world: &World, shard: usize| {
            world.others[1][shard - 1].statistics().delivered_packets
        });
        let counts: Vec<_> = (1..shards).map(|shard| delivered(&world, shard)).collect();
        world.run(0, 20, at(13));
        let goodput = world.goodput(1, before, Span::from_secs(10));
        assert!(world.header_totals().0 > 22 * (world.received[1].len() - before) as u64, "{shards} shards");
        // Of 16 Mbit/s, encapsulation leaves 1200 of 1304 bytes.
        assert!(goodput > 0.96 * 16.0 * 1200.0 / 1304.0, "{shards} shards: {goodput} Mbit/s");
        assert!(is_ordered(&world.received[1][before..]), "{shards} shards");
        let part = (world.received[1].len() - before) as u64 / shards as u64;
        for (shard, count) in (1..shards).zip(counts) {
            let carried = delivered(&world, shard) - count;
            assert!(carried > part / 2, "shard {shard} of {shards}: {carried} packets");
        }
    }
}

#[test]
fn keys_change_for_all_shards_without_a_trace() {
    let mut world = world([3; 2]);
    world.run(0, 1, at(400));
    world.run(0, 0, at(401));
    let lost = world.offered[0] - world.received[1].len() as u32;
    // The first ones wait for the session in a queue that drops what waits too long, and change their shard then.
    assert!(lost < 40, "{lost} of {}", world.offered[0]);
    let refused = |node: &kumade_multipath::dataplane::NodeStatistics| node.refused_datagrams;
    let all = world.nodes.iter().chain(world.others.iter().flatten());
    assert_eq!(all.map(|node| refused(&node.statistics())).sum::<u64>(), 0);
}

#[test]
fn the_first_shard_carries_what_surplus_ones_have() {
    for shards in [[3, 1], [1, 3], [3, 2]] {
        let mut world = world(shards);
        world.run(0, 10, at(3));
        let expected = shards[0].min(shards[1]) as u32;
        assert_eq!(in_use(&world), [expected; 2]);
        let before = world.received[1].len();
        world.run(0, 10, at(8));
        let goodput = world.goodput(1, before, Span::from_secs(5));
        assert!(goodput > 9.9, "{shards:?}: {goodput} Mbit/s");
    }
}

#[test]
fn a_peer_that_restarts_with_another_number_is_served_again() {
    for own in 0..2 {
        let mut world = world([2; 2]);
        for (round, shards) in (0..).zip([2, 1, 3, 2]) {
            let end = at(40 * round + 5);
            world.run(0, 4, end);
            world.restart_with(own, shards);
            world.run(0, 4, end + Span::from_secs(30));
            let before = world.received[1].len();
            world.run(0, 4, end + Span::from_secs(33));
            let goodput = world.goodput(1, before, Span::from_secs(3));
            assert!(goodput > 3.9, "node {own} restarted with {shards}: {goodput}");
            let (saved, _) = world.header_totals();
            assert!(saved > 20 * (world.received[1].len() - before) as u64, "{saved} bytes");
            let least = (2).min(shards) as u32;
            assert_eq!(in_use(&world), [least; 2], "node {own} restarted with {shards}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn packets_arrive_once_and_unaltered_whatever_paths_and_peers_do(
        seed: u64,
        paths in prop::collection::vec((1u64..50, 0i64..80, 0u32..200), 1..4),
        shards in [1usize..4, 1usize..4],
        events in prop::collection::vec((0usize..4, any::<bool>(), 0usize..8), 0..6),
    ) {
        let model = |(mbit, delay, loss)| PathModel { loss: if loss < 20 { 0 } else { loss }, ..model(mbit, delay) };
        let paths: Vec<_> = paths.into_iter().map(model).collect();
        let mut world = World::with_shards(seed, PathPolicy::EarliestArrival, paths, shards);
        world.flows = FLOWS;
        for (path, is_cut, restarted) in events {
            world.run(0, 5, world.now + Span::from_millis(700));
            let path = path % world.paths.len();
            world.paths[path].is_cut = is_cut;
            if restarted < 2 {
                world.restart(restarted);
            }
        }
        world.run(0, 5, world.now + Span::from_secs(1));
        let numbers: BTreeSet<_> = world.received[1].iter().collect();
        prop_assert_eq!(numbers.len(), world.received[1].len());
    }
}
