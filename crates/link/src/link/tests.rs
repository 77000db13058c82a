use super::*;
use crate::{Counters, CrossConfig, CrossKind, Loss, Recording, SizeMix};
use kumade_units::{Rate, Span};
use proptest::prelude::*;

const NANO: Span = Span::from_nanos(1);

fn wire(rate: Option<Rate>, queue_bytes: u64) -> LinkConfig {
    LinkConfig { rate, queue_bytes, seed: 1, ..LinkConfig::default() }
}

fn link(config: LinkConfig) -> Link<usize> {
    Link::new(config.validate().unwrap())
}

fn time_at_nanos(nanos: i64) -> Time {
    Time::from_nanos(nanos)
}

fn drain(link: &mut Link<usize>) -> Vec<Delivery<usize>> {
    link.advance(time_at_nanos(i64::MAX / 2));
    std::iter::from_fn(|| link.pop_due(Time::MAX)).collect()
}

fn cross(kind: CrossKind, start: Time) -> CrossTraffic {
    CrossTraffic::new(CrossConfig { kind, start, phase: 0.0, seed: 3 }).unwrap()
}

fn total(counters: &Counters) -> (u64, u64) {
    let parts = [counters.forwarded, counters.queue_full, counters.lost];
    (parts.iter().map(|count| count.packets).sum(), parts.iter().map(|count| count.bytes).sum())
}

#[test]
fn a_busy_link_forwards_at_its_rate_to_the_nanosecond() {
    let rate = Rate::from_bits_per_second(7_777_777);
    let mut link = link(wire(Some(rate), u64::MAX));
    for packet in 0..100_000 {
        link.offer(packet, 999, Time::ZERO).unwrap();
    }
    let last = drain(&mut link).pop().unwrap();
    assert_eq!(last.due - Time::ZERO, rate.time_for(100_000 * 999));
}

#[test]
fn what_finds_no_room_is_dropped_at_the_tail() {
    let mut link = link(wire(Some(Rate::from_mbit(12)), 3000));
    let fates: Vec<_> = (0..5).map(|packet| link.offer(packet, 1500, time_at_nanos(0))).collect();
    assert_eq!(fates, [Ok(()), Ok(()), Ok(()), Err(DropCause::QueueFull), Err(DropCause::QueueFull)]);
    // The first has left at 1 ms; the second enters service and leaves room for one more.
    assert_eq!(link.offer(5, 1500, time_at_nanos(999_999)), Err(DropCause::QueueFull));
    assert_eq!(link.offer(6, 1500, time_at_nanos(1_000_000)), Ok(()));
    let came: Vec<_> = drain(&mut link).into_iter().map(|delivery| delivery.packet).collect();
    assert_eq!(came, [0, 1, 2, 6]);
}

#[test]
fn an_idle_link_needs_no_queue_and_an_unlimited_one_no_time() {
    let mut idle = link(wire(Some(Rate::from_mbit(12)), 0));
    assert_eq!(idle.offer(0, 1500, time_at_nanos(0)), Ok(()));
    assert_eq!(idle.offer(1, 1500, time_at_nanos(10)), Err(DropCause::QueueFull));
    assert_eq!(idle.offer(2, 1500, time_at_nanos(1_000_000)), Ok(()));
    let mut unlimited = link(wire(None, 0));
    assert_eq!(unlimited.offer(0, 1500, time_at_nanos(5)), Ok(()));
    assert_eq!(unlimited.offer(1, 1500, time_at_nanos(5)), Ok(()));
    assert_eq!(unlimited.next_due(), Some(time_at_nanos(5)));
}

#[test]
fn parts_of_a_nanosecond_count() {
    // One byte takes 8/3 ns: departures at 2.67, 5.33 and 8 ns, and the second arrives at the first's whole 2 ns.
    let rate = Some(Rate::from_mbit(3000));
    let mut busy = link(wire(rate, 10));
    for (packet, arrival) in [(0, 0), (1, 2), (2, 5)] {
        busy.offer(packet, 1, time_at_nanos(arrival)).unwrap();
    }
    let dues: Vec<_> = drain(&mut busy).iter().map(|delivery| delivery.due.as_nanos()).collect();
    assert_eq!(dues, [3, 6, 8]);
    let mut without_queue = link(wire(rate, 0));
    without_queue.offer(0, 1, time_at_nanos(0)).unwrap();
    assert_eq!(
        without_queue.offer(1, 1, time_at_nanos(2)),
        Err(DropCause::QueueFull),
        "the first leaves 0.67 ns later"
    );
    assert_eq!(without_queue.offer(1, 1, time_at_nanos(3)), Ok(()));
}

#[test]
fn a_packet_stamped_before_the_links_time_arrives_at_that_time() {
    let mut link = link(wire(None, 0));
    link.advance(time_at_nanos(100));
    link.offer(0, 40, time_at_nanos(30)).unwrap();
    link.advance(time_at_nanos(50));
    assert_eq!(link.now(), Some(time_at_nanos(100)));
    assert_eq!(link.pop_due(time_at_nanos(100)).unwrap().arrival, time_at_nanos(100));
}

#[test]
fn loss_takes_its_share_after_service_and_repeats_by_seed() {
    let run = |seed| {
        let config = LinkConfig { loss: Loss::Independent(0.1), seed, ..wire(Some(Rate::from_mbit(100)), u64::MAX) };
        let mut link = link(config);
        (0..50_000).for_each(|packet| link.offer(packet, 1000, time_at_nanos(0)).unwrap());
        let came = drain(&mut link);
        let lost = link.ledger().packet_counters().lost.packets;
        assert_eq!(came.len() as u64 + lost, 50_000);
        let end = came.last().unwrap().due;
        assert!(
            end > time_at_nanos(3_990_000_000) && end <= time_at_nanos(4_000_000_000),
            "lost packets used the rate too: {end:?}"
        );
        (lost, came)
    };
    let (lost, came) = run(1);
    assert!((4_800..5_200).contains(&lost), "{lost}");
    assert_eq!(run(1).1, came);
    assert_ne!(run(2).1, came);
}

#[test]
fn jitter_spreads_over_its_range_and_never_reorders() {
    let (delay, jitter) = (Span::from_millis(10), Span::from_millis(4));
    let mut sparse = link(LinkConfig { delay, jitter: jitter.into(), ..wire(None, 0) });
    for packet in 0..2000i64 {
        sparse.offer(packet as usize, 100, time_at_nanos(packet * 5_000_000)).unwrap();
    }
    let extra: Vec<_> = drain(&mut sparse).iter().map(|delivery| delivery.due - delivery.arrival - delay).collect();
    assert!(extra.iter().all(|extra| (Span::ZERO..=jitter).contains(extra)));
    let mean = extra.iter().map(|extra| extra.as_secs_f64()).sum::<f64>() / 2000.0;
    assert!((mean - 0.002).abs() < 0.0001, "{mean}");

    let mut dense = link(LinkConfig { delay, jitter: jitter.into(), ..wire(None, 0) });
    (0..2000).for_each(|packet| dense.offer(packet, 100, time_at_nanos(packet as i64 * 1000)).unwrap());
    let came = drain(&mut dense);
    assert!(came.is_sorted_by_key(|delivery| (delivery.due, delivery.packet)));
}

#[test]
fn cross_traffic_takes_its_part_of_the_rate() {
    // 60 of 100 Mbit/s are taken: packets offered at 80 come out at 40 and the rest is dropped.
    let mut link = link(wire(Some(Rate::from_mbit(100)), 20_000));
    link.add_cross_traffic(cross(CrossKind::Constant { rate: Rate::from_mbit(60), size: 1500 }, time_at_nanos(0)));
    link.ledger_mut().record(Recording::Cross);
    for packet in 0..100_000i64 {
        let _ = link.offer(packet as usize, 1000, time_at_nanos(packet * 100_000));
    }
    let end = time_at_nanos(10_000_000_000);
    link.advance(end);
    let cross_offered = Rate::from_bytes_over(
        link.ledger().cross_bytes_between(time_at_nanos(0), end).unwrap(),
        end - time_at_nanos(0),
    );
    let cross_passed = Rate::from_bytes_over(link.ledger().cross_counters().forwarded.bytes, end - time_at_nanos(0));
    let passed = Rate::from_bytes_over(link.ledger().packet_counters().forwarded.bytes, end - time_at_nanos(0));
    assert_eq!(cross_offered, Rate::from_mbit(60));
    assert!((cross_passed.as_f64() + passed.as_f64() - 100e6).abs() < 0.05e6, "{cross_passed} + {passed}");
    assert!(std::iter::from_fn(|| link.pop_due(Time::MAX)).is_sorted_by_key(|delivery| delivery.packet));
}

#[test]
fn the_ledger_knows_what_it_recorded_and_says_what_it_did_not() {
    let mut link = link(wire(Some(Rate::from_mbit(100)), 10_000));
    link.add_cross_traffic(cross(CrossKind::Constant { rate: Rate::from_mbit(8), size: 1000 }, time_at_nanos(0)));
    link.advance(time_at_nanos(9_500_000));
    assert_eq!(link.ledger().cross_bytes_between(time_at_nanos(0), time_at_nanos(9_000_000)), None, "not recorded");
    link.ledger_mut().record(Recording::All);
    link.advance(time_at_nanos(20_000_000));
    let bytes =
        |from, to, link: &Link<usize>| link.ledger().cross_bytes_between(time_at_nanos(from), time_at_nanos(to));
    assert_eq!(bytes(9_500_000, 10_000_000, &link), None, "one nanosecond too early");
    assert_eq!(bytes(9_500_001, 10_000_000, &link), Some(0));
    assert_eq!(bytes(9_500_001, 10_000_001, &link), Some(1000));
    assert_eq!(bytes(10_000_000, 20_000_000, &link), Some(10_000));
    assert_eq!(bytes(10_000_000, 20_000_001, &link), Some(11_000));
    assert_eq!(bytes(10_000_000, 20_000_002, &link), None, "not happened yet");
    assert_eq!(link.ledger().entries().len(), 11);
    link.ledger_mut().forget_before(time_at_nanos(15_000_000));
    assert_eq!(bytes(14_000_000, 20_000_000, &link), None, "forgotten");
    assert_eq!(bytes(15_000_000, 20_000_000, &link), Some(5000));
    assert_eq!(link.ledger().entries().len(), 6);
}

#[test]
fn lateness_is_counted_by_run() {
    let mut link = link(wire(None, 0));
    for micros in [-5, 10, 299, 301] {
        link.ledger_mut().record_delivery(Span::from_micros(micros));
    }
    let first = link.ledger_mut().take_lateness();
    assert_eq!((first.count, first.late, first.max, first.sum), (4, 1, Span::from_micros(301), Span::from_micros(610)));
    assert_eq!(link.ledger().lateness().count, 0);
}

/// What FIFO, rate and limit say, from the definitions: exact departures as fractions over `rate`, and how much waits
/// at an arrival summed anew each time.
fn reference(arrivals: &[(i64, u32)], rate: u64, limit: u64) -> Vec<Option<i64>> {
    let mut free = 0u128;
    let mut begun: Vec<(u128, u32)> = Vec::new();
    let mut departures = Vec::new();
    for (arrival, size) in arrivals {
        let arrival = *arrival as u128 * u128::from(rate);
        let waiting: u64 = begun.iter().filter(|(start, _)| *start > arrival).map(|(_, size)| u64::from(*size)).sum();
        let start = free.max(arrival);
        if start > arrival && waiting + u64::from(*size) > limit {
            departures.push(None);
            continue;
        }
        begun.push((start, *size));
        free = start + u128::from(*size) * 8_000_000_000;
        departures.push(Some(free.div_ceil(u128::from(rate)) as i64));
    }
    departures
}

fn arrivals() -> impl Strategy<Value = Vec<(i64, u32)>> {
    prop::collection::vec((0i64..300_000, 20u32..2000), 1..120).prop_map(|gaps| {
        let mut time = 0;
        gaps.into_iter()
            .map(|(gap, size)| {
                time += gap;
                (time - gap, size)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn departures_and_drops_are_those_of_the_definitions(
        arrivals in arrivals(), rate in 1_000_000u64..1_000_000_000, limit in 0u64..20_000
    ) {
        let mut link = link(wire(Some(Rate::from_bits_per_second(rate)), limit));
        let expected = reference(&arrivals, rate, limit);
        for (index, (arrival, size)) in arrivals.iter().enumerate() {
            prop_assert_eq!(link.offer(index, *size, time_at_nanos(*arrival)).is_ok(), expected[index].is_some());
        }
        let came: Vec<_> = drain(&mut link).iter().map(|delivery| (delivery.packet, delivery.due.as_nanos())).collect();
        let expected: Vec<_> = expected.iter().enumerate().filter_map(|(i, due)| due.map(|due| (i, due))).collect();
        prop_assert_eq!(came, expected);
    }

    #[test]
    fn the_outcome_does_not_depend_on_how_often_the_link_is_advanced(
        arrivals in arrivals(), steps in prop::collection::vec(0i64..40_000_000, 0..50), jitter in 0i64..1_000_000
    ) {
        let config = LinkConfig { jitter: Span::from_nanos(jitter).into(), loss: Loss::Independent(0.2), ..wire(Some(Rate::from_mbit(50)), 9000) };
        let (mut once, mut often) = (link(config.clone()), link(config));
        for link in [&mut once, &mut often] {
            let sizes = SizeMix::imix();
            link.add_cross_traffic(cross(CrossKind::Poisson { rate: Rate::from_mbit(30), sizes }, time_at_nanos(0)));
        }
        let mut steps = steps;
        steps.sort_unstable();
        let (mut steps, mut came) = (steps.into_iter().peekable(), Vec::new());
        for (index, (arrival, size)) in arrivals.iter().enumerate() {
            while let Some(step) = steps.next_if(|step| step <= arrival) {
                often.advance(time_at_nanos(step));
                came.extend(std::iter::from_fn(|| often.pop_due(time_at_nanos(step))));
            }
            let _ = often.offer(index, *size, time_at_nanos(*arrival));
            let _ = once.offer(index, *size, time_at_nanos(*arrival));
        }
        let end = time_at_nanos(arrivals.last().unwrap().0 + 10_000_000);
        for link in [&mut once, &mut often] {
            link.advance(end);
        }
        came.extend(std::iter::from_fn(|| often.pop_due(Time::MAX)));
        prop_assert_eq!(std::iter::from_fn(|| once.pop_due(Time::MAX)).collect::<Vec<_>>(), came);
        prop_assert_eq!(once.ledger().cross_counters(), often.ledger().cross_counters());
    }

    #[test]
    fn nothing_is_early_nothing_overtakes_and_every_byte_is_accounted_for(
        arrivals in arrivals(), loss in 0.0..=1.0, delay in 0i64..1_000_000, jitter in 0i64..1_000_000
    ) {
        let (rate, delay) = (Rate::from_mbit(40), Span::from_nanos(delay));
        let config = LinkConfig { delay, jitter: Span::from_nanos(jitter).into(), loss: Loss::Independent(loss), ..wire(Some(rate), 8000) };
        let mut link = link(config);
        link.add_cross_traffic(cross(CrossKind::Constant { rate: Rate::from_mbit(20), size: 700 }, time_at_nanos(1000)));
        link.ledger_mut().record(Recording::All);
        for (index, (arrival, size)) in arrivals.iter().enumerate() {
            let _ = link.offer(index, *size, time_at_nanos(*arrival));
        }
        let (packets, cross) = (*link.ledger().packet_counters(), *link.ledger().cross_counters());
        let offered = (packets.offered.packets + cross.offered.packets, packets.offered.bytes + cross.offered.bytes);
        let (first, second) = (total(&packets), total(&cross));
        prop_assert_eq!(offered.1, first.1 + second.1 + link.queued_bytes());
        prop_assert_eq!(link.ledger().entries().len() as u64, first.0 + second.0);
        prop_assert!(offered.0 >= first.0 + second.0);
        let now = link.now().unwrap();
        let own: u64 = cross_source_bytes(now);
        prop_assert_eq!(link.ledger().cross_bytes_between(time_at_nanos(0), now + NANO), Some(own));

        link.advance(now + Span::from_secs(1));
        let came: Vec<_> = std::iter::from_fn(|| link.pop_due(Time::MAX)).collect();
        prop_assert!(came.is_sorted_by_key(|delivery| delivery.packet) && came.is_sorted_by_key(|delivery| delivery.due));
        for delivery in came {
            prop_assert!(delivery.due >= delivery.arrival + rate.time_for(delivery.label.size.into()) + delay - NANO);
        }
    }

    #[test]
    fn a_driver_that_sleeps_until_next_event_is_never_late(
        arrivals in arrivals(), delay in 0i64..2_000_000, jitter in 0i64..100_000
    ) {
        let delay = Span::from_nanos(delay);
        let mut link = link(LinkConfig { delay, jitter: Span::from_nanos(jitter).into(), ..wire(Some(Rate::from_mbit(30)), 9000) });
        link.add_cross_traffic(cross(CrossKind::Constant { rate: Rate::from_mbit(15), size: 1500 }, time_at_nanos(0)));
        let mut arrivals = arrivals.into_iter().peekable();
        loop {
            let next_arrival = arrivals.peek().map(|(time, _)| time_at_nanos(*time));
            let Some(now) = link.next_event().into_iter().chain(next_arrival).min() else { break };
            link.advance(now);
            while let Some(delivery) = link.pop_due(now) {
                prop_assert_eq!(delivery.due, now);
            }
            while let Some((_, size)) = arrivals.next_if(|(time, _)| time_at_nanos(*time) == now) {
                let _ = link.offer(0, size, now);
            }
        }
        let counters = link.ledger().packet_counters();
        prop_assert_eq!(counters.offered.packets, counters.forwarded.packets + counters.queue_full.packets);
    }
}

fn cross_source_bytes(now: Time) -> u64 {
    let source = cross(CrossKind::Constant { rate: Rate::from_mbit(20), size: 700 }, time_at_nanos(1000));
    source.take_while(|arrival| arrival.time <= now).map(|arrival| u64::from(arrival.size)).sum()
}
