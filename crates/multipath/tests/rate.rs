//! The pace of one path where the path changes: its rate, its delay, its cross traffic, its buffer.

use crate::world::*;
use kumade_link::{CrossKind, SizeMix};
use kumade_multipath::PathPolicy;
use kumade_units::{Rate, Span};

fn bulk(spec: PathSpec) -> World {
    let mut world = World::new(PathPolicy::Weighted, &[spec], 1);
    world.bulk();
    world
}

/// In percent of a rate.
fn share(world: &World, from: f64, to: f64, mbit: f64) -> f64 {
    world.rate(None, at(from), at(to)) / mbit / 1e4
}

#[test]
fn a_path_that_becomes_slower_and_faster_is_followed() {
    for (mbit, millis) in [(2.0, 10.0), (8.0, 0.5), (8.0, 50.0), (50.0, 10.0), (200.0, 80.0)] {
        let mut world = bulk(path(mbit, millis));
        world.run_until(at(10.0));
        world.set_rate(0, mbit / 2.0);
        world.run_until(at(20.0));
        world.set_rate(0, mbit);
        world.run_until(at(30.0));
        assert!(
            share(&world, 12.0, 20.0, mbit / 2.0) > 98.0,
            "{mbit} Mbit/s: {}",
            share(&world, 12.0, 20.0, mbit / 2.0)
        );
        assert!(world.delay(0, 0.99, at(15.0)) < world.delay(0, 1.0, at(9.0)), "no queue is left behind");
        assert!(share(&world, 25.0, 30.0, mbit) > 98.0, "{mbit} Mbit/s: {}", share(&world, 23.0, 30.0, mbit));
    }
}

#[test]
fn cross_traffic_gets_what_it_sends_and_what_it_leaves_is_used() {
    for (mbit, millis) in [(8.0, 0.5), (8.0, 50.0), (50.0, 10.0), (100.0, 35.0), (200.0, 80.0)] {
        let mut world = bulk(path(mbit, millis));
        world.run_until(at(10.0));
        world.cross(0, CrossKind::Poisson { rate: Rate::from_f64(mbit * 0.4e6), sizes: SizeMix::imix() });
        world.run_until(at(20.0));
        world.stop_cross(0);
        world.run_until(at(30.0));
        let with = share(&world, 12.0, 20.0, mbit * 0.6);
        assert!((88.0..103.0).contains(&with), "{mbit} Mbit/s, {millis} ms: {with}");
        assert!(share(&world, 22.0, 30.0, mbit) > 98.0, "{mbit} Mbit/s: {}", share(&world, 22.0, 30.0, mbit));
    }
}

#[test]
fn a_buffer_of_four_packets_suffices() {
    for (mbit, millis) in [(2.0, 10.0), (8.0, 0.5), (8.0, 50.0), (50.0, 10.0), (100.0, 35.0)] {
        for packets_at_once in [1, 30] {
            let mut world = bulk(PathSpec { buffer: 6_000, ..path(mbit, millis) });
            world.packets_at_once = packets_at_once;
            world.run_until(at(30.0));
            let (share, status) = (share(&world, 10.0, 30.0, mbit), world.status(0));
            let lost = status.lost_packets as f64 / status.sent_packets as f64;
            assert!(share > 95.0 && lost < 0.02, "{mbit} Mbit/s, {packets_at_once} at once: {share} %, lost {lost}");
        }
    }
}

#[test]
fn a_longer_path_and_jitter_do_not_pass_for_a_queue_for_long() {
    for (mbit, millis) in [(2.0, 10.0), (8.0, 50.0), (50.0, 10.0), (100.0, 35.0)] {
        let mut world = bulk(PathSpec { jitter: Span::from_millis(2), ..path(mbit, millis) });
        world.run_until(at(10.0));
        world.set_delay(0, Span::from_secs_f64(millis / 1e3 + 0.03));
        world.run_until(at(30.0));
        assert!(share(&world, 3.0, 10.0, mbit) > 97.0, "{mbit} Mbit/s: {}", share(&world, 3.0, 10.0, mbit));
        assert!(share(&world, 15.0, 30.0, mbit) > 80.0, "{mbit} Mbit/s: {}", share(&world, 15.0, 30.0, mbit));
    }
}

/// Each drain of the queue that too high a pace makes looks like one more variation of the delay.
#[test]
fn a_rate_believed_too_high_is_corrected_though_delays_vary() {
    for seed in 1..=8 {
        let mut world = bulk(path(8.0, 25.0));
        world.delay_deliveries(0.1, Span::from_millis(40), seed);
        world.run_until(at(6.0));
        world.delay_deliveries(0.02, Span::from_millis(3), seed);
        let now = world.now;
        world.bond().suggest_rate(id(0), Rate::from_f64(9.5e6), now);
        world.run_until(at(8.0));
        let believed = world.status(0).rate;
        assert!(believed < Rate::from_f64(8.25e6), "seed {seed}: {believed}");
    }
}

/// Of what it could have carried in its first two seconds, a path of which nothing was known carries nine tenths.
#[test]
fn an_unknown_path_is_found_at_once() {
    for (mbit, millis) in [(50.0, 2.0), (200.0, 2.0), (1000.0, 0.5)] {
        let mut world = bulk(PathSpec { told: None, ..path(mbit, millis) });
        world.run_until(at(3.0));
        let share = share(&world, 0.0, 2.0, mbit);
        assert!(share > 90.0, "{mbit} Mbit/s, {millis} ms: {share} %");
    }
}

/// The same where the delay varies by as much as the queue at which the path is aimed, or some packets are lost, or the buffer holds little.
#[test]
fn an_unknown_path_is_found_within_seconds_where_delays_vary_packets_are_lost_or_buffers_are_small() {
    let unknown = |mbit, millis| PathSpec { told: None, ..path(mbit, millis) };
    let quarter = |spec: PathSpec| (spec.mbit * 1e6 / 8.0 * spec.delay.as_secs_f64() * 2.0 / 4.0) as u64 + 15_000;
    for (mbit, millis) in [(50.0, 2.0), (50.0, 10.0), (100.0, 25.0)] {
        let spec = unknown(mbit, millis);
        let kinds = [
            PathSpec { jitter: Span::from_millis(2), ..spec },
            PathSpec { loss: 0.001, ..spec },
            PathSpec { buffer: quarter(spec), ..spec },
        ];
        for spec in kinds {
            let mut world = bulk(spec);
            world.run_until(at(10.0));
            let (first, later) = (share(&world, 0.0, 2.0, mbit), share(&world, 5.0, 10.0, mbit));
            assert!(first > 40.0 && later > 99.0, "{spec:?}: {first} %, {later} %");
        }
    }
}
