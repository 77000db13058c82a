//! Nodes whose peers and paths change while they run, under a virtual clock.

use super::world::{World, model};
use kumade_multipath::{PathPolicy, PathSet, ShareUnit};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn at(seconds: i64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// By how much fewer packets were delivered than offered since; some may have been under way before.
fn missing(world: &World, before: (u32, usize)) -> i64 {
    i64::from(world.offered[0] - before.0) - (world.received[1].len() - before.1) as i64
}

fn counts(world: &World) -> (u32, usize) {
    (world.offered[0], world.received[1].len())
}

#[test]
fn a_path_that_is_added_is_used_and_one_that_is_removed_is_not_missed() {
    for shards in [1, 3] {
        let paths = vec![model(8, 5), model(8, 15)];
        let mut world = World::with_shards(21, PathPolicy::Weighted, paths, [shards; 2]);
        world.flows = 12;
        world.run(0, 12, at(3));
        let handshakes = world.nodes[0].remote_statuses()[0].handshakes;
        world.add_path(model(8, 10));
        // The two ends are not reconfigured at the same time.
        for own in 0..2 {
            world.reconfigure(own, &PathPolicy::Weighted, 3, &[], &[]);
            let before = counts(&world);
            world.run(0, 12, at(5 + 2 * own as i64));
            assert!(missing(&world, before) < 60, "{shards} shards, end {own}: {}", missing(&world, before));
        }
        let before = world.received[1].len();
        world.run(0, 20, at(14));
        world.run(0, 20, at(19));
        let goodput = (world.received[1].len() - before) as f64 * 1200.0 * 8.0 / 12e6;
        assert!(goodput > 18.0, "{shards} shards: {goodput} Mbit/s over three paths");
        for own in [1, 0] {
            world.reconfigure(own, &PathPolicy::Weighted, 2, &[], &[]);
            assert_eq!(world.nodes[own].remote_statuses()[0].paths.len(), 2);
            world.run(0, 12, world.now + Span::from_secs(2));
        }
        // And back again, with numbers that go on.
        (0..2).for_each(|own| world.reconfigure(own, &PathPolicy::Weighted, 3, &[], &[]));
        world.run(0, 12, world.now + Span::from_secs(3));
        let before = world.received[1].len();
        world.run(0, 20, world.now + Span::from_secs(5));
        assert!(world.goodput(1, before, Span::from_secs(5)) > 18.0, "{shards} shards: the path is used again");
        let status = &world.nodes[0].remote_statuses()[0];
        assert_eq!((status.handshakes, status.losses), (handshakes, 0));
        let numbers: BTreeSet<_> = world.received[1].iter().collect();
        assert_eq!(numbers.len(), world.received[1].len(), "{shards} shards: each came once");
    }
}

#[test]
fn weights_take_effect_while_packets_pass_and_lose_none() {
    let ratio = |shares: &[u32]| PathPolicy::Ratio { shares: shares.to_vec(), unit: ShareUnit::Packets };
    let mut world = World::new(22, ratio(&[1, 1]), vec![model(50, 5), model(50, 15)]);
    world.run(0, 8, at(3));
    let before = counts(&world);
    let sent = |world: &World| -> Vec<u64> {
        world.nodes[0].remote_statuses()[0].paths.iter().map(|path| path.status.sent_packets).collect()
    };
    let sent_before = sent(&world);
    world.reconfigure(0, &ratio(&[1, 4]), 2, &[], &[]);
    world.run(0, 8, at(8));
    let counts: Vec<_> = sent(&world).iter().zip(sent_before).map(|(after, before)| after - before).collect();
    let ratio = counts[1] as f64 / counts[0] as f64;
    assert!((3.0..4.5).contains(&ratio), "{counts:?}");
    assert!(missing(&world, before) < 20, "{}", missing(&world, before));
    assert!(world.received[1].is_sorted());
}

#[test]
fn a_path_with_other_settings_begins_anew_and_the_others_carry_on() {
    let mut world = World::new(23, PathPolicy::Weighted, vec![model(8, 5), model(8, 15)]);
    world.run(0, 6, at(3));
    let before = counts(&world);
    world.reconfigure(0, &PathPolicy::Weighted, 2, &["10.7.0.0/16"], &[1]);
    world.run(0, 6, at(6));
    let status = &world.nodes[0].remote_statuses()[0];
    let since = status.paths[1].status.state_since;
    assert!(since > at(3) && status.paths[0].status.state_since < at(3), "{since:?}");
    assert_eq!((status.is_connected, status.losses, status.paths[1].failures), (true, 0, 0), "that is no failure");
    // What was under way on the path is not waited for.
    assert!(missing(&world, before) < 60, "{}", missing(&world, before));
}

#[test]
fn a_peer_of_which_all_paths_begin_anew_is_not_lost_unless_it_does_not_answer() {
    let mut world = World::new(25, PathPolicy::Weighted, vec![model(8, 5), model(8, 15)]);
    world.run(0, 6, at(3));
    world.reconfigure(0, &PathPolicy::Weighted, 2, &[], &[0, 1]);
    world.run(0, 6, at(6));
    let status = &world.nodes[0].remote_statuses()[0];
    assert_eq!((status.is_connected, status.losses, status.paths[0].failures), (true, 0, 0));
    world.paths.iter_mut().for_each(|path| path.is_cut = true);
    world.reconfigure(0, &PathPolicy::Weighted, 2, &[], &[0, 1]);
    world.run(0, 6, at(10));
    let status = &world.nodes[0].remote_statuses()[0];
    assert_eq!((status.is_connected, status.losses), (false, 1));
}

#[test]
fn settings_that_cannot_be_change_nothing() {
    let ratio = PathPolicy::Ratio { shares: vec![1], unit: ShareUnit::Packets };
    let mut world = World::new(24, PathPolicy::Weighted, vec![model(8, 5), model(8, 15)]);
    world.run(0, 6, at(3));
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.reconfigure(0, &ratio, 2, &[], &[])));
    assert!(refused.is_err());
    let before = counts(&world);
    world.run(0, 6, at(6));
    assert!(missing(&world, before) < 20, "{}", missing(&world, before));
}

/// A peer that is removed and added again on one end has the same life there, and nothing of what was kept of it.
#[test]
fn a_peer_that_is_forgotten_and_known_again_has_its_headers_kept_anew() {
    let mut world = World::new(26, PathPolicy::Weighted, vec![model(8, 5), model(8, 15)]);
    (world.forgets_peer, world.flows) = (true, 4);
    world.run(0, 6, at(3));
    let stranger = world.stranger(1, "10.9.0.0/16");
    let now = world.now;
    world.nodes[1].reconfigure(vec![stranger], PathSet::default(), now).unwrap();
    world.run(0, 6, at(3) + Span::from_millis(200));
    world.reconfigure(1, &PathPolicy::Weighted, 2, &[], &[]);
    world.run(0, 6, at(33));
    // What comes out altered fails; what was compressed by what is not there any more, until the far end has heard of that, is lost.
    let (_, undecompressed) = world.header_totals();
    assert!(undecompressed < 60, "{undecompressed}");
    let (saved, received) = (world.header_totals().0, world.received[1].len());
    world.run(0, 6, at(35));
    assert_eq!(world.header_totals().1, undecompressed);
    assert!(world.header_totals().0 - saved > 22 * (world.received[1].len() - received) as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn packets_arrive_once_and_go_on_whatever_is_reconfigured(
        seed: u64,
        shards in [1usize..4, 1usize..4],
        steps in prop::collection::vec((0usize..2, 1usize..5, 0u8..4, 0u8..16, 0i64..900), 1..10),
    ) {
        let mut world = World::with_shards(seed, PathPolicy::EarliestArrival, vec![model(20, 3); 4], shards);
        world.flows = 12;
        world.run(0, 4, at(2));
        for (own, paths, choice, changed, millis) in steps {
            let shares = vec![1; paths];
            let choice = match choice {
                0 => PathPolicy::Weighted,
                1 => PathPolicy::EarliestArrival,
                2 => PathPolicy::Redundant,
                _ => PathPolicy::Ratio { shares, unit: ShareUnit::Packets },
            };
            // One path at least carries on.
            let changed: Vec<_> = (1..4).filter(|path| changed >> path & 1 == 1).collect();
            world.reconfigure(own, &choice, paths, &[], &changed);
            world.run(0, 4, world.now + Span::from_millis(millis));
        }
        let before = world.received[1].len();
        world.run(0, 4, world.now + Span::from_secs(2));
        let goodput = world.goodput(1, before, Span::from_secs(2));
        prop_assert!(goodput > 3.8, "{} Mbit/s", goodput);
        let numbers: BTreeSet<_> = world.received[1].iter().collect();
        prop_assert_eq!(numbers.len(), world.received[1].len());
        let statuses = [0, 1].map(|own| world.nodes[own].remote_statuses().remove(0));
        prop_assert!(statuses.iter().all(|status| status.losses == 0 && status.restarts == 0));
    }
}
