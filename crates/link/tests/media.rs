//! Traces as mahimahi plays them, a token bucket against its definition, and an aggregating wireless hop against the
//! formula of its throughput.

use kumade_link::{Delivery, DropCause, Link, LinkConfig, Medium, TokenBucket, Trace, Wireless};
use kumade_units::{Rate, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

const MILLISECOND: i64 = 1_000_000;

fn at(nanos: i64) -> Time {
    Time::from_nanos(nanos)
}

fn on(medium: Medium) -> Link<usize> {
    let config = LinkConfig { medium: Some(medium), queue_bytes: u64::MAX, ..LinkConfig::default() };
    Link::new(config.validate().unwrap())
}

fn play(trace: &str, arrivals: &[(i64, u32)], end: i64) -> Vec<(usize, i64)> {
    let mut link = on(Medium::Trace(Trace::parse(trace).unwrap()));
    for (packet, (arrival, size)) in arrivals.iter().enumerate() {
        link.offer(packet, *size, at(*arrival)).unwrap();
    }
    link.advance(at(end));
    let came = std::iter::from_fn(|| link.pop_due(at(end)));
    came.map(|delivery| (delivery.packet, delivery.due.as_nanos())).collect()
}

/// What `LinkQueue::rationalize` of mahimahi does, opportunity by opportunity: each burns up to 1504 bytes of what has
/// arrived before it; packets count 4 bytes more than their own.
fn mahimahi(trace: &[i64], arrivals: &[(i64, u32)], end: i64) -> Vec<(usize, i64)> {
    let mut waiting: VecDeque<(usize, i64, u32)> =
        arrivals.iter().enumerate().map(|(packet, (arrival, size))| (packet, *arrival, size + 4)).collect();
    let (mut came, mut in_transit) = (Vec::new(), None);
    let period = trace[trace.len() - 1];
    for (cycle, millis) in (0..).flat_map(|cycle| trace.iter().map(move |millis| (cycle, millis))) {
        let now = (cycle * period + millis) * MILLISECOND;
        if now > end {
            return came;
        }
        let mut left = 1504;
        while left > 0 {
            let next = in_transit.take().or_else(|| {
                let arrived = waiting.front().is_some_and(|(_, arrival, _)| *arrival < now);
                if arrived { waiting.pop_front() } else { None }
            });
            let Some((packet, arrival, size)) = next else { break };
            if size > left {
                in_transit = Some((packet, arrival, size - left));
                left = 0;
            } else {
                left -= size;
                came.push((packet, now));
            }
        }
    }
    unreachable!("the cycles have no end")
}

#[test]
fn one_line_a_millisecond_is_12_mbit() {
    let arrivals: Vec<_> = (0..100).map(|_| (0, 1500)).collect();
    let came = play("1\n", &arrivals, 1000 * MILLISECOND);
    assert_eq!(came, (0..100).map(|packet| (packet, (packet as i64 + 1) * MILLISECOND)).collect::<Vec<_>>());
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_several() {
    let share = play("2\n5\n", &[(0, 500), (0, 500), (0, 492), (0, 40)], 6 * MILLISECOND);
    assert_eq!(share, [(0, 2), (1, 2), (2, 2), (3, 5)].map(|(packet, due)| (packet, due * MILLISECOND)));
    let large = play("2\n5\n", &[(0, 3000), (0, 8)], 12 * MILLISECOND);
    // 3004 bytes fill one and leave 4 of the next; those do not suffice for 12.
    assert_eq!(large, [(0, 5), (1, 7)].map(|(packet, due)| (packet, due * MILLISECOND)));
}

#[test]
fn opportunities_come_from_the_origin_on() {
    let trace = Trace::parse("1\n4\n").unwrap().starting_at(at(123));
    let mut link = on(Medium::Trace(trace));
    link.offer(0, 1500, at(-5 * MILLISECOND)).unwrap();
    assert_eq!(link.next_event(), Some(at(MILLISECOND + 123)));
}

proptest! {
    #[test]
    fn a_trace_is_played_as_mahimahi_does(
        gaps in prop::collection::vec(prop_oneof![3 => Just(0i64), 2 => 1i64..6], 1..20), last in 1i64..5,
        arrivals in prop::collection::vec((prop_oneof![Just(0i64), 0..3 * MILLISECOND], 1u32..4000), 1..100)
    ) {
        let sum = |total: &mut i64, gap: i64| {
            *total += gap;
            Some(*total)
        };
        let trace: Vec<i64> = gaps.into_iter().chain([last]).scan(0, |total, gap| sum(total, gap)).collect();
        let arrivals: Vec<_> = arrivals.into_iter().scan(0, |total, (gap, size)| Some((sum(total, gap)?, size))).collect();
        let text: String = trace.iter().map(|millis| format!("{millis}\n")).collect();
        let end = 3000 * MILLISECOND;
        prop_assert_eq!(play(&text, &arrivals, end), mahimahi(&trace, &arrivals, end));
    }
}

/// Always as fast: the formula needs one rate.
fn steady(scheme: usize) -> Wireless {
    Wireless { slowest: scheme, fastest: scheme, ..Wireless::default() }
}

/// What a busy wireless hop delivers within ten seconds.
fn busy(wireless: Wireless, size: u32) -> Vec<Delivery<usize>> {
    let mut link = on(Medium::Wireless(wireless));
    for packet in 0..1_000_000 {
        link.offer(packet, size, at(0)).unwrap();
    }
    let end = at(10_000 * MILLISECOND);
    link.advance(end);
    std::iter::from_fn(|| link.pop_due(end)).collect()
}

#[test]
fn a_busy_wireless_hop_reaches_the_throughput_of_the_formula() {
    for (scheme, packets, size) in [(9, 64, 1500), (9, 8, 300), (5, 1, 1500)] {
        let wireless = Wireless { packets, ..steady(scheme) };
        let came = busy(wireless, size);
        let on_air = f64::from(packets * (size + 42)) * 8.0 / Wireless::physical_rate(scheme).as_f64();
        let cycle = 135e-6 + 7.5 * 9e-6 + on_air;
        let expected = f64::from(packets * size) * 8.0 / cycle;
        let reached = came.len() as f64 * f64::from(size) * 8.0 / 10.0;
        assert!((reached / expected - 1.0).abs() < 0.01, "{scheme} {packets} {size}: {reached} {expected}");
    }
}

#[test]
fn an_aggregate_is_delivered_together_and_keeps_to_its_airtime() {
    // At 65 Mbit/s 21 packets of 1542 bytes take 3.99 ms; a 22nd would exceed 4.
    let came = busy(steady(0), 1500);
    let whole = came.chunk_by(|a, b| a.due == b.due).collect::<Vec<_>>();
    assert!(whole.iter().all(|aggregate| aggregate.len() == 21), "{}", whole[0].len());
    assert!(came.iter().all(|delivery| delivery.due - delivery.service_start < Span::from_micros(4135)));
    assert!(came.is_sorted_by_key(|delivery| delivery.packet));
}

#[test]
fn the_rate_wanders_between_its_bounds() {
    let came = busy(Wireless { slowest: 0, fastest: 4, interval: Span::from_millis(20), ..Wireless::default() }, 1500);
    let sizes: Vec<_> = came.chunk_by(|a, b| a.due == b.due).map(|aggregate| aggregate.len()).collect();
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    // 4 ms at 65 Mbit/s, and 64 packets, which 260 Mbit/s and more carry in that time.
    assert_eq!((*least, *most), (21, 64));
}

#[test]
fn packets_that_come_while_the_medium_is_contended_for_join_the_first() {
    let mut link = on(Medium::Wireless(Wireless { overhead: Span::from_micros(100), ..steady(9) }));
    link.offer(0, 1500, at(0)).unwrap();
    let begin = link.next_event().unwrap();
    assert!(begin <= at(135_000), "15 slots at most");
    link.offer(1, 1500, begin).unwrap();
    link.advance(at(10 * MILLISECOND));
    let came: Vec<_> = std::iter::from_fn(|| link.pop_due(Time::MAX)).collect();
    assert_eq!(came[0].service_start, begin);
    assert!(came[1].due >= came[0].due);
}

/// Packets of these sizes at these instants through a bucket in front of a line of 1 Gbit/s.
fn shape(rate: Rate, burst_bytes: u64, arrivals: &[(i64, u32)]) -> Vec<i64> {
    let medium = Some(Medium::TokenBucket(TokenBucket { rate, burst_bytes }));
    let config =
        LinkConfig { medium, rate: Some(Rate::from_mbit(1000)), queue_bytes: u64::MAX, ..LinkConfig::default() };
    let mut link = Link::new(config.validate().unwrap());
    for (packet, (arrival, size)) in arrivals.iter().enumerate() {
        link.offer(packet, *size, at(*arrival)).unwrap();
    }
    link.advance(Time::MAX);
    std::iter::from_fn(|| link.pop_due(Time::MAX)).map(|delivery| delivery.due.as_nanos()).collect()
}

#[test]
fn a_bucket_lets_its_content_pass_at_the_lines_rate_and_the_rest_at_its_own() {
    let micros = |micros: i64| micros * 1000;
    // 6 packets of 1500 bytes are in a bucket of 10 kB; 500 bytes are missing for the seventh: 400 µs of 10 Mbit/s.
    let came = shape(Rate::from_mbit(10), 10_000, &[(0, 1500); 9]);
    let line = (1..=6).map(|packet| micros(12 * packet));
    assert_eq!(came, line.chain([micros(412), micros(1612), micros(2812)]).collect::<Vec<_>>());
    // Eight milliseconds fill it again, and no more than it holds.
    let arrivals = [[(0, 1500); 6], [(micros(20_000), 1500); 6]].concat();
    assert_eq!(shape(Rate::from_mbit(10), 10_000, &arrivals)[11], micros(20_072));
    // What is larger than the bucket waits until it is full, and owes the rest.
    assert_eq!(shape(Rate::from_mbit(8), 1000, &[(0, 1500); 3]), [micros(12), micros(1512), micros(3012)]);
}

proptest! {
    #[test]
    fn no_stretch_of_time_carries_more_than_the_bucket_and_its_rate(
        mbit in 1u64..100, burst_bytes in 1500u64..40_000,
        arrivals in prop::collection::vec((0..3 * MILLISECOND, 1u32..=1500), 2..100)
    ) {
        let mut arrivals = arrivals;
        arrivals.sort();
        let rate = Rate::from_mbit(mbit);
        let came = shape(rate, burst_bytes, &arrivals);
        let starts: Vec<_> = came.iter().zip(&arrivals).map(|(due, (_, size))| due - i64::from(size * 8)).collect();
        for first in 0..starts.len() {
            let mut bytes = 0;
            for last in first..starts.len() {
                bytes += u64::from(arrivals[last].1);
                let tokens = burst_bytes + rate.bytes_in(Span::from_nanos(starts[last] - starts[first])) + 1;
                prop_assert!(bytes <= tokens, "{bytes} bytes from packet {first} to {last}, tokens for {tokens}");
            }
        }
    }
}

#[test]
fn one_transmission_is_on_the_air_at_a_time() {
    // Sparse enough for the queue to be empty at many arrivals, dense enough for many to come during a transmission.
    let mut link = on(Medium::Wireless(Wireless::default()));
    for packet in 0..5000 {
        link.offer(packet, 1500, at(packet as i64 * 170_000)).unwrap();
    }
    link.advance(at(10_000 * MILLISECOND));
    let came: Vec<_> = std::iter::from_fn(|| link.pop_due(Time::MAX)).collect();
    assert_eq!(came.len(), 5000);
    let aggregates: Vec<_> = came.chunk_by(|a, b| a.due == b.due).collect();
    assert!(aggregates.len() > 1000);
    assert!(aggregates.windows(2).all(|two| two[0][0].due <= two[1][0].service_start));
}

/// RFC 2475, 2.3.3.4: a policer drops what does not conform, and delays nothing.
#[test]
fn a_policer_passes_its_burst_and_then_its_rate_and_delays_nothing() {
    let policer = Some(TokenBucket { rate: Rate::from_mbit(12), burst_bytes: 15_000 });
    let line = LinkConfig { policer, rate: Some(Rate::from_mbit(1200)), ..LinkConfig::default() };
    let mut link = Link::new(line.validate().unwrap());
    // A packet of 1500 bytes every 250 µs is 48 Mbit/s: a quarter conforms once the bucket is empty.
    let passed: Vec<usize> =
        (0..400).filter(|&packet| link.offer(packet, 1500, at(packet as i64 * 250_000)).is_ok()).collect();
    // Ten are in the bucket, which fills by a quarter of a packet with each.
    assert_eq!(passed[..14], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16]);
    assert_eq!(passed.len(), 10 + 399 / 4);
    let delivered = std::iter::from_fn(|| link.pop_due(Time::MAX));
    assert!({ delivered }.all(|delivery| delivery.due - delivery.arrival == Span::from_micros(10)));
    let counters = link.ledger().packet_counters();
    assert_eq!(counters.policed.packets, 400 - passed.len() as u64);
    // After a pause the bucket is full again, but a packet larger than it never passes.
    assert_eq!(link.offer(0, 15_001, at(10_000 * MILLISECOND)), Err(DropCause::Policed));
    assert_eq!(link.offer(0, 15_000, at(10_000 * MILLISECOND)), Ok(()));
}
