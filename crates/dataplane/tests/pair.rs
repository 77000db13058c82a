//! Two nodes and the paths between them under a virtual clock.

mod world;

use multipath::PathChoice;
use proptest::prelude::*;
use std::collections::BTreeSet;
use units::{Span, Time};
use world::{PathModel, World, model};

fn is_ordered(numbers: &[u32]) -> bool {
    numbers.is_sorted()
}

#[test]
fn unequal_paths_carry_their_sum_in_order() {
    for choice in [PathChoice::Weighted, PathChoice::EarliestArrival] {
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
fn a_path_that_dies_stops_nothing_for_long_and_is_used_again() {
    let mut world = World::new(2, PathChoice::Weighted, vec![model(8, 10), model(8, 20)]);
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

#[test]
fn a_peer_that_restarts_is_served_again() {
    for own in 0..2 {
        let mut world = World::new(3, PathChoice::Weighted, vec![model(8, 10), model(8, 20)]);
        world.run(0, 4, Time::ZERO + Span::from_secs(3));
        world.restart(own);
        world.run(0, 4, Time::ZERO + Span::from_secs(30));
        let before = world.received[1].len();
        world.run(0, 4, Time::ZERO + Span::from_secs(32));
        assert!(world.goodput(1, before, Span::from_secs(2)) > 3.9, "node {own} restarted");
    }
}

#[test]
fn keys_change_without_a_trace() {
    let mut world = World::new(4, PathChoice::Weighted, vec![model(8, 1), model(8, 25)]);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn packets_arrive_once_and_unaltered_whatever_paths_do(
        seed: u64,
        paths in prop::collection::vec((1u64..50, 0i64..80, 0u32..200), 1..5),
        cuts in prop::collection::vec((0usize..5, any::<bool>()), 0..6),
        choice in prop::sample::select(vec![
            PathChoice::Weighted, PathChoice::EarliestArrival, PathChoice::Redundant, PathChoice::Pinned,
        ]),
    ) {
        let paths: Vec<_> = paths
            .into_iter()
            .map(|(mbit, delay, loss)| PathModel { loss: if loss < 20 { 0 } else { loss }, ..model(mbit, delay) })
            .collect();
        let mut world = World::new(seed, choice, paths);
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
