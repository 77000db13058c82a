//! Settings that change on a running link take effect at that nanosecond, and nothing is lost over it.

use kumade_link::queue::{DISCIPLINES, DisciplineSettings, QueueConfig, QueueLimit};
use kumade_link::{
    Delivery, Label, LedgerEntry, Link, LinkConfig, Medium, PacketOutcome, RateSchedule, Recording, Wireless,
};
use kumade_units::{Rate, Span, Time};
use proptest::prelude::*;

fn at(nanos: i64) -> Time {
    Time::from_nanos(nanos)
}

fn wire(rate: Rate) -> LinkConfig {
    LinkConfig { rate: Some(rate), queue_bytes: u64::MAX, ..LinkConfig::default() }
}

fn drain(link: &mut Link<usize>) -> Vec<Delivery<usize>> {
    link.advance(at(i64::MAX / 2));
    std::iter::from_fn(|| link.pop_due(Time::MAX)).collect()
}

/// Bits times 10⁹ that can be served until `time`.
fn work(steps: &[(i64, u64)], time: i64) -> i128 {
    let ends = steps.iter().skip(1).map(|step| step.0).chain([i64::MAX]);
    let spans = steps.iter().zip(ends).map(|((from, rate), to)| (time.min(to) - from).max(0) as i128 * *rate as i128);
    spans.sum()
}

/// Departures from the definition: in the measure of work done, a packet begins when it has arrived and the one before
/// has left; it leaves at the first nanosecond by which its work is done.
fn exact_departures(steps: &[(i64, u64)], arrivals: &[(i64, u32)]) -> Vec<i64> {
    let mut free = 0;
    let leave = |(arrival, size): &(i64, u32)| {
        free = work(steps, *arrival).max(free) + i128::from(*size) * 8_000_000_000;
        let (mut before, mut after) = (*arrival - 1, i64::MAX / 2);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if work(steps, middle) >= free { after = middle } else { before = middle }
        }
        after
    };
    arrivals.iter().map(leave).collect()
}

fn steps(lowest: u64) -> impl Strategy<Value = Vec<(i64, u64)>> {
    let step = (1i64..3_000_000, lowest..300_000_000);
    (prop::collection::vec(step, 0..12), 1_000_000u64..300_000_000).prop_map(|(steps, last)| {
        let mut time = 0;
        let mut steps: Vec<_> = steps
            .into_iter()
            .map(|(span, rate)| {
                time += span;
                (time - span, rate)
            })
            .collect();
        steps.push((time, last));
        steps
    })
}

fn arrivals() -> impl Strategy<Value = Vec<(i64, u32)>> {
    prop::collection::vec((0i64..500_000, 20u32..3000), 1..80).prop_map(|gaps| {
        let mut time = 0;
        gaps.into_iter()
            .map(|(gap, size)| {
                time += gap;
                (time, size)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn departures_under_a_schedule_are_exact(steps in steps(0), arrivals in arrivals()) {
        let spans: Vec<_> =
            steps.iter().map(|(time, rate)| (Span::from_nanos(*time), Rate::from_bits_per_second(*rate))).collect();
        let medium = Some(Medium::Schedule(RateSchedule::new(&spans).unwrap()));
        let mut link = Link::new(LinkConfig { medium, ..wire(Rate::from_mbit(1)) }.validate().unwrap());
        for (packet, (arrival, size)) in arrivals.iter().enumerate() {
            link.offer(packet, *size, at(*arrival)).unwrap();
        }
        let came: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.due.as_nanos()).collect();
        prop_assert_eq!(came, exact_departures(&steps, &arrivals));
    }

    #[test]
    fn departures_under_changes_by_hand_are_exact(steps in steps(1), arrivals in arrivals()) {
        let mut link = Link::new(wire(Rate::from_bits_per_second(steps[0].1)).validate().unwrap());
        link.ledger_mut().record(Recording::All);
        let mut changes = steps[1..].iter().peekable();
        let mut came = Vec::new();
        for (packet, (arrival, size)) in arrivals.iter().enumerate() {
            while let Some((time, rate)) = changes.next_if(|(time, _)| time <= arrival) {
                link.reconfigure(wire(Rate::from_bits_per_second(*rate)).validate().unwrap(), at(*time));
                came.extend(std::iter::from_fn(|| link.pop_due(at(*time))));
            }
            link.offer(packet, *size, at(*arrival)).unwrap();
        }
        for (time, rate) in changes {
            link.reconfigure(wire(Rate::from_bits_per_second(*rate)).validate().unwrap(), at(*time));
        }
        came.extend(drain(&mut link));
        let came: Vec<_> = came.iter().map(|delivery| delivery.due.as_nanos()).collect();
        let noted: Vec<_> = link.ledger().entries().map(|entry| match entry {
            LedgerEntry { outcome: PacketOutcome::Departed(time), .. } => time.as_nanos(),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(&came, &exact_departures(&steps, &arrivals));
        prop_assert_eq!(&noted, &came);
    }

    #[test]
    fn a_repeating_schedule_is_its_steps_over_and_over(
        steps in steps(0), arrivals in arrivals(), rest in 1i64..2_000_000
    ) {
        let period = steps.last().unwrap().0 + rest;
        let spans: Vec<_> =
            steps.iter().map(|(time, rate)| (Span::from_nanos(*time), Rate::from_bits_per_second(*rate))).collect();
        let schedule = RateSchedule::repeating(&spans, Span::from_nanos(period)).unwrap();
        let mut link = Link::new(LinkConfig { medium: Some(Medium::Schedule(schedule)), ..wire(Rate::from_mbit(1)) }.validate().unwrap());
        for (packet, (arrival, size)) in arrivals.iter().enumerate() {
            link.offer(packet, *size, at(*arrival)).unwrap();
        }
        let came: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.due.as_nanos()).collect();
        let cycles = came.last().unwrap() / period + 2;
        let unrolled: Vec<_> =
            (0..cycles).flat_map(|cycle| steps.iter().map(move |(time, rate)| (time + cycle * period, *rate))).collect();
        prop_assume!(unrolled.len() < 5000);
        prop_assert_eq!(came, exact_departures(&unrolled, &arrivals));
    }
}

#[test]
fn what_is_left_of_a_packet_goes_at_the_new_rate() {
    // 1500 bytes take 12 ms at 1 Mbit/s; a quarter is sent when the rate becomes 3 Mbit/s.
    let mut link = Link::new(wire(Rate::from_mbit(1)).validate().unwrap());
    link.offer(0, 1500, at(0)).unwrap();
    link.reconfigure(wire(Rate::from_mbit(3)).validate().unwrap(), at(3_000_000));
    assert_eq!(link.next_due(), Some(at(6_000_000)));
    link.reconfigure(LinkConfig::default().validate().unwrap(), at(4_000_000));
    assert_eq!(link.pop_due(at(4_000_000)).unwrap().due, at(4_000_000), "without a rate it leaves at once");
}

#[test]
fn a_new_delay_is_that_of_packets_that_depart_later_and_overtakes_none() {
    let slow = LinkConfig { delay: Span::from_millis(50), ..wire(Rate::from_mbit(12)) };
    let mut link = Link::new(slow.clone().validate().unwrap());
    for packet in 0..3 {
        link.offer(packet, 1500, at(0)).unwrap();
    }
    // The first has departed at 1 ms, the second is in service.
    link.reconfigure(LinkConfig { delay: Span::from_millis(100), ..slow.clone() }.validate().unwrap(), at(1_500_000));
    link.advance(at(2_500_000));
    link.reconfigure(LinkConfig { delay: Span::from_millis(1), ..slow }.validate().unwrap(), at(2_500_000));
    link.offer(3, 1500, at(150_000_000)).unwrap();
    let due: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.due.as_nanos() / 1_000_000).collect();
    assert_eq!(due, [51, 102, 102, 152]);
}

#[test]
fn a_smaller_queue_keeps_the_oldest_that_fit() {
    let config = wire(Rate::from_mbit(12));
    let mut link = Link::new(config.clone().validate().unwrap());
    for packet in 0..10 {
        link.offer(packet, 1500, at(0)).unwrap();
    }
    link.reconfigure(LinkConfig { queue_bytes: 4500, ..config }.validate().unwrap(), at(0));
    assert_eq!(link.ledger().packet_counters().queue_full.packets, 6);
    let came: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.packet).collect();
    assert_eq!(came, [0, 1, 2, 3]);
}

#[test]
fn another_discipline_takes_over_what_waits_in_order() {
    for info in DISCIPLINES {
        // At this rate, ten packets are too few for a default to drop any of them.
        let discipline = DisciplineSettings::new(info.name).unwrap().discipline(Some(Rate::from_mbit(1000)));
        let mut link = Link::new(wire(Rate::from_mbit(12)).validate().unwrap());
        for packet in 0..10 {
            link.offer_labelled(
                packet,
                Label { size: 1500, flow: 1, host: 1, ecn: Default::default(), ..Label::default() },
                at(0),
            )
            .unwrap();
        }
        let queue = QueueConfig { limit: QueueLimit::Packets(1000), discipline };
        link.replace_queue(&queue.validate().unwrap(), at(500_000));
        link.reconfigure(wire(Rate::from_mbit(24)).validate().unwrap(), at(500_000));
        let came = drain(&mut link);
        assert_eq!(came.iter().map(|delivery| delivery.packet).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!(came[9].due, at(500_000 + 19 * 250_000));
        assert_eq!(came[9].arrival, at(0));
    }
}

#[test]
fn one_medium_follows_another_and_all_that_waits_gets_through() {
    let trace = Medium::Trace(kumade_link::Trace::parse("3\n7\n").unwrap());
    let bucket = Medium::TokenBucket(kumade_link::TokenBucket { rate: Rate::from_mbit(1), burst_bytes: 5000 });
    let media = [None, Some(trace), Some(Medium::Wireless(Wireless::default())), Some(bucket)];
    let rates = [Some(Rate::from_mbit(5)), None];
    for before in &media {
        for after in &media {
            for rate in rates {
                let config = |medium: &Option<Medium>, rate| LinkConfig {
                    medium: medium.clone(),
                    rate,
                    queue_bytes: u64::MAX,
                    ..LinkConfig::default()
                };
                let mut link = Link::new(config(before, Some(Rate::from_mbit(1))).validate().unwrap());
                for packet in 0..100 {
                    link.offer(packet, 1000, at(packet as i64 * 100_000)).unwrap();
                }
                link.reconfigure(config(after, rate).validate().unwrap(), at(10_000_000));
                let came = drain(&mut link);
                assert_eq!(came.len(), 100, "{before:?} {after:?}");
                assert!(came.is_sorted_by_key(|delivery| (delivery.due, delivery.packet)));
            }
        }
    }
}

#[test]
fn what_a_trace_has_begun_ends_by_it_whatever_follows() {
    let trace = Medium::Trace(kumade_link::Trace::parse("3\n50\n").unwrap());
    let mut link = Link::new(LinkConfig { medium: Some(trace), ..wire(Rate::from_mbit(1)) }.validate().unwrap());
    // It fills the opportunity at 3 ms and ends at that of 50 ms.
    link.offer(0, 3000, at(0)).unwrap();
    link.reconfigure(wire(Rate::from_mbit(1)).validate().unwrap(), at(10_000_000));
    link.reconfigure(wire(Rate::from_mbit(12)).validate().unwrap(), at(20_000_000));
    link.offer(1, 1500, at(20_000_000)).unwrap();
    let due: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.due.as_nanos() / 1_000_000).collect();
    assert_eq!(due, [50, 51]);
}
