//! What each choice makes of the paths, and of flows of several kinds.

use crate::world::*;
use kumade_multipath::{PathPolicy, ShareUnit, TrafficClass};
use kumade_units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

fn ratio(shares: &[u32], unit: ShareUnit) -> PathPolicy {
    PathPolicy::Ratio { shares: shares.to_vec(), unit }
}

#[test]
fn every_path_is_used_in_full_by_whoever_may_use_it() {
    let pairs =
        [((8.0, 0.5), (8.0, 0.5)), ((8.0, 0.5), (8.0, 25.0)), ((8.0, 10.0), (1.5, 50.0)), ((300.0, 5.0), (80.0, 5.0))];
    for (one, other) in pairs {
        for choice in [PathPolicy::Weighted, PathPolicy::EarliestArrival] {
            let mut world = World::new(choice.clone(), &[path(one.0, one.1), path(other.0, other.1)], 3);
            world.bulk();
            world.run_until(at(8.0));
            let share = world.rate(None, at(3.0), at(8.0)) / (one.0 + other.0) / 1e4;
            assert!(share > 98.5, "{one:?} {other:?} {choice:?}: {share} %");
        }
    }
}

#[test]
fn a_ratio_is_kept_to_the_packet_and_bound_by_the_slower_path() {
    let mut world = World::new(ratio(&[3, 1], ShareUnit::Packets), &[path(8.0, 1.0), path(8.0, 1.0)], 3);
    world.bulk();
    world.run_until(at(8.0));
    let sent = [0, 1].map(|path| world.path_rate(path, at(3.0), at(8.0)));
    assert!((sent[0] / sent[1] - 3.0).abs() < 0.01, "{sent:?}");
    assert!(sent[0] > 7.9e6);
}

#[test]
fn a_sparse_flow_takes_the_shorter_path_and_hardly_waits_beside_bulk() {
    for (one, other) in [
        ((8.0, 0.5), (8.0, 25.0)),
        ((8.0, 100.0), (8.0, 50.0)),
        ((100.0, 10.0), (100.0, 35.0)),
        ((20.0, 5.0), (20.0, 5.0)),
    ] {
        let mut world = World::new(PathPolicy::EarliestArrival, &[path(one.0, one.1), path(other.0, other.1)], 3);
        world.bulk();
        world.bulk();
        let interval = Span::from_micros(19_870);
        let voice = world.add(Source::Paced { size: 200, interval }, TrafficClass::Ordered, Time::ZERO, Time::MAX);
        world.run_until(at(15.0));
        let own = one.1.min(other.1) + 268.0 * 8.0 / 1e3 / if one.1 < other.1 { one.0 } else { other.0 };
        let late = world.delay(voice, 0.99, at(3.0)).as_secs_f64() * 1e3 - own;
        assert!(late < 5.0, "{one:?} {other:?}: {late} ms");
    }
}

#[test]
fn a_short_transfer_ends_as_soon_as_by_the_shorter_path_alone_and_a_long_one_sooner() {
    let paths = [path(8.0, 1.0), path(8.0, 60.0)];
    let last = |paths: &[PathSpec], bytes| {
        let mut world = World::new(PathPolicy::EarliestArrival, paths, 3);
        world.add(Source::Burst { bytes }, TrafficClass::Ordered, at(2.0), Time::MAX);
        world.run_until(at(10.0));
        world.arrived.iter().map(|arrived| arrived.time).max().unwrap() - at(2.0)
    };
    for bytes in [5_000, 20_000, 40_000] {
        assert_eq!(last(&paths, bytes), last(&paths[..1], bytes), "{bytes} bytes");
    }
    for bytes in [400_000, 2_000_000] {
        let (both, one) = (last(&paths, bytes), last(&paths[..1], bytes));
        assert!(both < one, "{bytes} bytes: {both} against {one}");
    }
}

#[test]
fn flows_are_pinned_and_unordered_ones_too() {
    let paths = [path(20.0, 5.0), path(20.0, 5.0)];
    for (choice, class) in
        [(PathPolicy::Pinned, TrafficClass::Ordered), (PathPolicy::Weighted, TrafficClass::Unordered)]
    {
        let mut world = World::new(choice, &paths, 3);
        let interval = Span::from_millis(50);
        for _ in 0..40 {
            world.add(Source::Paced { size: 200, interval }, class, at(1.0), Time::MAX);
        }
        world.run_until(at(5.0));
        let mut used: BTreeMap<usize, BTreeSet<u8>> = BTreeMap::new();
        for arrived in &world.arrived {
            used.entry(arrived.flow).or_default().insert(arrived.path.number());
        }
        assert!(used.values().all(|paths| paths.len() == 1), "{used:?}");
        let first = used.values().filter(|paths| paths.contains(&0)).count();
        assert!((10..=30).contains(&first), "{first} of 40 on one of two equal paths");
        let before = world.arrived.len();
        world.cut(0, true);
        world.run_until(at(7.0));
        let late = world.arrived[before..].iter().filter(|arrived| arrived.time > at(5.5)).map(|arrived| arrived.flow);
        assert_eq!(late.collect::<BTreeSet<_>>().len(), 40, "all go on by the other path");
    }
}

#[test]
fn redundant_copies_survive_the_loss_of_either_path() {
    let lossy = PathSpec { loss: 0.03, ..path(20.0, 5.0) };
    let mut world = World::new(PathPolicy::Redundant, &[lossy, PathSpec { delay: Span::from_millis(30), ..lossy }], 3);
    let interval = Span::from_millis(10);
    world.add(Source::Paced { size: 200, interval }, TrafficClass::Ordered, at(1.0), at(11.0));
    world.run_until(at(12.0));
    let numbers: BTreeSet<u64> = world.arrived.iter().map(|arrived| arrived.number).collect();
    assert!(numbers.len() > 980, "{} of 1000", numbers.len());
}
