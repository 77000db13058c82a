//! Paths that go and come back.

use crate::world::*;
use kumade_multipath::{PathEvent, PathPolicy, TrafficClass};
use kumade_units::{Span, Time};

const CHOICES: [PathPolicy; 3] = [PathPolicy::Weighted, PathPolicy::EarliestArrival, PathPolicy::Redundant];

/// Three round trips of the longer path and 100 ms.
fn bound(paths: &[PathSpec]) -> Span {
    paths.iter().map(|path| path.delay * 6).max().unwrap_or_default() + Span::from_millis(100)
}

/// The longest time between two packets of a flow.
fn longest_gap(world: &World, flow: usize, from: Time, to: Time) -> Span {
    let of = |arrived: &&Arrived| arrived.flow == flow && arrived.time > from && arrived.time < to;
    let times: Vec<Time> = world.arrived.iter().filter(of).map(|arrived| arrived.time).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Span::MAX)
}

#[test]
fn what_a_dead_path_carried_goes_on_within_three_round_trips_and_it_returns() {
    let pairs = [
        ((8.0, 0.5), (8.0, 25.0)),
        ((100.0, 10.0), (100.0, 35.0)),
        ((8.0, 80.0), (2.0, 80.0)),
        ((20.0, 5.0), (20.0, 5.0)),
    ];
    for choice in CHOICES {
        for (one, other) in pairs {
            let paths = [path(one.0, one.1), path(other.0, other.1)];
            let mut world = World::new(choice.clone(), &paths, 3);
            let bulk = world.bulk();
            let interval = Span::from_millis(20);
            let voice =
                world.add(Source::Paced { size: 200, interval }, TrafficClass::Unordered, Time::ZERO, Time::MAX);
            world.run_until(at(5.0));
            world.cut(0, true);
            world.run_until(at(10.0));
            world.cut(0, false);
            world.run_until(at(13.0));
            for flow in [bulk, voice] {
                let gap = longest_gap(&world, flow, at(4.9), at(9.0));
                assert!(gap < bound(&paths) + interval, "{choice:?} {paths:?}: {gap}");
            }
            let down = world.events.iter().find(|(time, _)| *time > at(5.0)).unwrap();
            assert!(down.1 == PathEvent::Down(id(0)) && down.0 - at(5.0) < bound(&paths), "{down:?}");
            let up = world.events.iter().find(|(time, _)| *time > at(10.0)).unwrap();
            assert!(up.1 == PathEvent::Up(id(0)) && up.0 < at(11.0), "{up:?}");
            let share = world.rate(None, at(11.5), at(13.0)) / (one.0 + other.0) / 1e4;
            assert!(share > 95.0, "{choice:?} {paths:?}: {share} %");
        }
    }
}

#[test]
fn a_path_that_flaps_each_second_is_used_seldom_and_the_other_as_before() {
    for choice in CHOICES {
        let mut world = World::new(choice.clone(), &[path(8.0, 0.5), path(8.0, 25.0)], 3);
        world.bulk();
        world.run_until(at(5.0));
        for second in 0..60 {
            world.cut(0, second % 2 == 0);
            world.run_until(at(6.0 + f64::from(second)));
        }
        let downs = world.events.iter().filter(|(_, event)| *event == PathEvent::Down(id(0))).count();
        // At once, then after 1, 2, 4 s, and after that every 8 s, where it failed 30 times.
        assert!((5..=11).contains(&downs), "{choice:?}: {downs}");
        let other = world.path_rate(1, at(5.0), at(65.0)) / 8e4;
        assert!(other > 99.0, "{choice:?}: {other} %");
        assert!(world.longest_gap(at(5.0), at(65.0)) < Span::from_millis(50));
        world.cut(0, false);
        world.run_until(at(74.0));
        assert!(world.is_up(0), "{choice:?}: it returns when it is back");
    }
}

#[test]
fn a_path_that_is_up_for_seconds_at_a_time_returns_each_time_it_is_back() {
    let mut world = World::new(PathPolicy::EarliestArrival, &[path(8.0, 5.0), path(8.0, 25.0)], 3);
    world.bulk();
    for round in 0..10 {
        let start = 5.0 + 4.0 * f64::from(round);
        world.run_until(at(start));
        world.cut(0, true);
        world.run_until(at(start + 0.5));
        assert!(!world.is_up(0));
        world.cut(0, false);
        world.run_until(at(start + 1.5));
        assert!(world.is_up(0), "{round}");
    }
}

#[test]
fn a_path_is_not_held_down_while_it_is_the_only_one() {
    let mut world = World::new(PathPolicy::EarliestArrival, &[path(8.0, 5.0), path(8.0, 25.0)], 3);
    world.bulk();
    world.run_until(at(5.0));
    for second in 0..20 {
        world.cut(0, second % 2 == 0);
        world.run_until(at(6.0 + f64::from(second)));
    }
    world.cut(0, false);
    world.cut(1, true);
    world.run_until(at(26.0));
    assert!(world.is_up(0) && !world.is_up(1));
    assert!(world.status(0).rate.as_f64() > 7e6, "lost probes tell nothing of the rate");
    assert!(world.longest_gap(at(25.0), at(26.0)) < Span::from_millis(250));
}

#[test]
fn all_paths_may_be_gone_and_come_back_and_idle_ones_are_seen_to_go() {
    let mut world = World::new(PathPolicy::EarliestArrival, &[path(8.0, 5.0), path(20.0, 30.0)], 3);
    world.run_until(at(5.0));
    assert!(world.is_up(0) && world.is_up(1));
    assert!(world.probes < 20, "{} probes of idle paths", world.probes);
    (0..2).for_each(|path| world.cut(path, true));
    world.run_until(at(7.0));
    assert!(!world.is_up(0) && !world.is_up(1));
    world.bulk();
    world.run_until(at(9.0));
    assert!(world.arrived.is_empty());
    (0..2).for_each(|path| world.cut(path, false));
    world.run_until(at(13.0));
    assert!(world.rate(None, at(11.0), at(13.0)) > 27e6);
}

#[test]
fn one_packet_that_is_lost_does_not_end_a_path() {
    let lossy = PathSpec { loss: 0.02, ..path(20.0, 20.0) };
    let mut world = World::new(PathPolicy::Pinned, &[lossy], 3);
    let interval = Span::from_millis(300);
    world.add(Source::Paced { size: 200, interval }, TrafficClass::Ordered, Time::ZERO, Time::MAX);
    world.run_until(at(600.0));
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
}
