//! What hosts send as one packet, and how much of it leaves at once.

use crate::world::*;
use kumade_multipath::{PathPolicy, TrafficClass};
use kumade_units::{Rate, Span, Time};

/// The most packets that left by the path at one time since then.
fn longest_burst(world: &World, from: Time) -> u32 {
    let since = world.departures.iter().filter(|(_, time, _)| *time >= from);
    since.map(|(.., packets)| *packets).max().unwrap_or(0)
}

fn bulk(spec: PathSpec, packets_at_once: u16) -> World {
    let mut world = World::new(PathPolicy::Weighted, &[spec], 1);
    world.packets_at_once = packets_at_once;
    world.bulk();
    world
}

#[test]
fn as_much_leaves_at_once_as_the_path_carries_in_half_a_millisecond() {
    for (mbit, expected) in [(10.0, 1..=1), (100.0, 3..=5), (1000.0, 35..=44)] {
        let mut world = bulk(path(mbit, 5.0), 44);
        world.run_until(at(2.0));
        let longest = longest_burst(&world, at(0.5));
        assert!(expected.contains(&longest), "{mbit} Mbit/s: {longest}");
        assert!(world.rate(None, at(1.0), at(2.0)) > 0.95e6 * mbit, "{mbit} Mbit/s");
        assert!(world.arrived.is_sorted_by(|one, next| one.number < next.number), "in order, each once");
    }
}

/// What waited when the path became slower left as it had been made before.
#[test]
fn what_waits_when_a_path_becomes_slower_leaves_as_the_path_carries_it_then() {
    let mut world = bulk(path(1000.0, 5.0), 44);
    world.run_until(at(1.0));
    assert!(longest_burst(&world, at(0.5)) > 20);
    world.set_rate(0, 10.0);
    let (now, before) = (world.now, world.status(0).sent_packets);
    world.bond().suggest_rate(id(0), Rate::from_f64(10e6), now);
    world.run_until(at(1.5));
    assert!(world.status(0).sent_packets > before + 100);
    assert_eq!(longest_burst(&world, now + Span::from_nanos(1)), 1);
}

/// Where a buffer holds little, bursts become as short as the queue at which the path is aimed.
#[test]
fn what_leaves_at_once_fits_a_small_buffer() {
    let spec = PathSpec { buffer: 25_000, ..path(300.0, 5.0) };
    let mut world = bulk(spec, 44);
    world.run_until(at(20.0));
    let status = world.status(0);
    let lost = status.lost_packets as f64 / status.sent_packets as f64;
    let share = world.rate(None, at(10.0), at(20.0)) / 300e6;
    assert!(share > 0.95 && lost < 0.02, "{share}, lost {lost}");
}

/// Packets of a steady flow wait no longer beside flows that send much at once than beside those that send packet by packet, but for one burst.
#[test]
fn small_packets_do_not_wait_for_what_others_send_at_once() {
    for starting in [1, 10, 50] {
        let delays = [1, 44].map(|packets_at_once| {
            let mut world = World::new(PathPolicy::Weighted, &[path(100.0, 5.0)], 1);
            world.packets_at_once = packets_at_once;
            let source = Source::Paced { size: 200, interval: Span::from_millis(5) };
            let steady = world.add(source, TrafficClass::Ordered, Time::ZERO, Time::MAX);
            (0..starting).for_each(|_| {
                world.add(Source::Bulk, TrafficClass::Ordered, at(1.0), Time::MAX);
            });
            world.run_until(at(2.0));
            world.delay(steady, 1.0, at(1.0))
        });
        println!("{starting} flows: {delays:?}");
        assert!(delays[1] <= delays[0] + Span::from_millis(1), "{starting} flows: {delays:?}");
    }
}

/// Each segment is counted, wherever a packet is that stands for several.
#[test]
fn what_waits_is_counted_by_segments() {
    let mut world = bulk(path(10.0, 5.0), 44);
    world.run_until(at(1.0));
    let sent = world.departures.iter().map(|(.., packets)| u64::from(*packets)).sum::<u64>();
    let dropped = world.bond().dropped_packets();
    let waiting = world.bond().queued_packets() as u64;
    assert!((40..=84).contains(&waiting), "{waiting}");
    assert_eq!((sent + dropped + waiting) % 44, 0, "{sent} + {dropped} + {waiting}");
    let now = world.now;
    world.bond().set_enabled(id(0), false, now);
    assert_eq!(world.bond().queued_packets() as u64, waiting);
}

/// A flow that is bound to one path when its next packets are to leave by another has these wait until the first ones have left; where that path
/// fails, they follow those by another one.
#[test]
fn large_packets_that_are_held_are_counted_by_segments_and_leave_in_order() {
    for packets_at_once in [1, 5, 44] {
        let mut world = World::new(PathPolicy::EarliestArrival, &[path(5.0, 5.0), path(5.0, 5.0)], 1);
        world.packets_at_once = packets_at_once;
        world.add(Source::Bulk, TrafficClass::Ordered, at(0.5), Time::MAX);
        world.run_until(at(0.5001));
        let count = |world: &mut World| {
            let sent = world.departures.iter().map(|(.., packets)| *packets as usize).sum::<usize>();
            (sent, world.bond().dropped_packets(), world.bond().queued_packets())
        };
        let (sent, dropped, waiting) = count(&mut world);
        let bound = world.departures[0].0;
        // The other path is free, and takes nothing.
        assert!(world.departures.iter().all(|(path, ..)| *path == bound), "{packets_at_once} at once");
        assert!(waiting >= 35 && dropped == 0, "{packets_at_once} at once: {dropped} dropped, {waiting} wait");
        assert_eq!((sent + waiting) % usize::from(packets_at_once), 0, "{sent} + {waiting}");
        let now = world.now;
        world.bond().set_enabled(bound, false, now);
        assert_eq!(count(&mut world), (sent, dropped, waiting));
        world.run_until(at(2.0));
        let numbers: Vec<_> = world.arrived.iter().map(|packet| packet.number).collect();
        // CoDel drops some later.
        assert!(numbers.len() > 500 && numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert!(numbers.iter().zip(0..40).all(|(number, place)| *number == place), "{numbers:?}");
    }
}
