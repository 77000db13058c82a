//! What holds for every link, whatever it is made of and however it is changed while it runs.

use crate::every_discipline;
use kumade_link::queue::{QueueConfig, QueueLimit};
use kumade_link::{
    Cells, Counters, CrossConfig, CrossKind, CrossTraffic, Delivery, Framing, Jitter, JitterDistribution, JitterTable,
    Label, Link, LinkConfig, Loss, Medium, RateSchedule, Recording, Reordering, SizeMix, TokenBucket, Trace, Wireless,
};
use kumade_units::{Rate, Span, Time};
use proptest::prelude::*;

fn at(nanos: i64) -> Time {
    Time::from_nanos(nanos)
}

/// What happens to a link.
#[derive(Debug, Clone)]
enum Event {
    Packet(Label),
    Settings(Box<LinkConfig>),
    Queue(QueueConfig),
}

fn medium() -> impl Strategy<Value = Option<Medium>> {
    let schedule = (1i64..5_000_000, 1u64..60, 1i64..5_000_000).prop_map(|(change, rate, rest)| {
        let steps = [(Span::ZERO, Rate::ZERO), (Span::from_nanos(change), Rate::from_mbit(rate))];
        Medium::Schedule(RateSchedule::repeating(&steps, Span::from_nanos(change + rest)).unwrap())
    });
    let trace = Just(Medium::Trace(Trace::parse("0\n0\n1\n4\n4\n9\n").unwrap()));
    let wireless = (1u32..20, 0u32..16).prop_map(|(packets, backoff_slots)| {
        Medium::Wireless(Wireless { slowest: 0, packets, backoff_slots, ..Wireless::default() })
    });
    let bucket = (1u64..60, 1u64..10_000)
        .prop_map(|(mbit, burst_bytes)| Medium::TokenBucket(TokenBucket { rate: Rate::from_mbit(mbit), burst_bytes }));
    let some = prop_oneof![schedule, trace, wireless, bucket];
    prop_oneof![1 => Just(None), 2 => some.prop_map(Some)]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let amount = prop_oneof![Just(0i64), 0..1_000_000i64].prop_map(Span::from_nanos);
    let table = || JitterTable::parse("-20000 -1 0 1 1 32767").unwrap();
    let distribution = prop::sample::select(vec![
        JitterDistribution::OneSided,
        JitterDistribution::Uniform,
        JitterDistribution::Table(table()),
    ]);
    (amount, distribution, prop_oneof![Just(0.0), 0.0..1.0], any::<bool>()).prop_map(
        |(amount, distribution, correlation, reorders)| Jitter { amount, distribution, correlation, reorders },
    )
}

fn framing() -> impl Strategy<Value = Framing> {
    let fixed =
        (1u32..100, 0u32..10).prop_map(|(payload_bytes, header_bytes)| Cells::Fixed { payload_bytes, header_bytes });
    let cells = prop_oneof![Just(Cells::None), Just(Cells::Ptm), fixed];
    let some = (-64i32..100, 0u32..100, cells).prop_map(|(overhead_bytes, min_frame_bytes, cells)| Framing {
        overhead_bytes,
        min_frame_bytes,
        cells,
    });
    prop_oneof![1 => Just(Framing::default()), 1 => some]
}

fn settings() -> impl Strategy<Value = LinkConfig> {
    let rate = prop_oneof![Just(None), (1u64..60).prop_map(|rate| Some(Rate::from_mbit(rate)))];
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..0.4).prop_map(Loss::Independent),
        (0.0..0.4, 1.0..5.0).prop_map(|(mean, length)| Loss::bursts(mean, length).unwrap()),
        (0.0..0.5, 0.0..0.5, 0.0..0.5, 0.0..1.0, 0.0..0.5).prop_map(|(p13, p31, p32, p23, p14)| Loss::FourState {
            p13,
            p31,
            p32,
            p23,
            p14
        }),
    ];
    let reordering = (0.0..0.5, 1i64..4_000_000);
    let reordering =
        reordering.prop_map(|(probability, extra)| Reordering { probability, extra: Span::from_nanos(extra) });
    let in_flight = prop_oneof![3 => Just(1u64 << 30), 1 => 200_000u64..400_000];
    let delays = (0i64..3_000_000, jitter());
    let policer = (1u64..60, 1500u64..50_000)
        .prop_map(|(rate, burst_bytes)| TokenBucket { rate: Rate::from_mbit(rate), burst_bytes });
    let media = (medium(), prop::option::weighted(0.3, policer), framing());
    let events = (0.0..0.3, 0.0..1.0, 0.0..0.3, 0.0..1.0);
    let rest = (0u64..20_000, reordering, events, in_flight, any::<u64>());
    (rate, media, delays, loss, rest).prop_map(|(rate, (medium, policer, framing), (delay, jitter), loss, rest)| {
        let (queue_bytes, reordering, events, in_flight_bytes, seed) = rest;
        let (duplication, duplication_correlation, corruption, corruption_correlation) = events;
        let delay = Span::from_nanos(delay);
        let has_framing = !matches!(medium, Some(Medium::Trace(_) | Medium::Wireless(_)));
        // A fast medium fills more than the least memory within the longest delay.
        let in_flight_bytes = if medium.is_some() { 1 << 30 } else { in_flight_bytes };
        LinkConfig {
            rate,
            medium,
            framing: if has_framing { framing } else { Framing::default() },
            policer,
            queue_bytes,
            delay,
            jitter,
            loss,
            reordering,
            duplication,
            duplication_correlation,
            corruption,
            corruption_correlation,
            in_flight_bytes,
            seed,
        }
    })
}

fn queues() -> impl Strategy<Value = QueueConfig> {
    let discipline = prop::sample::select(every_discipline::disciplines(Rate::from_mbit(10)));
    let limit = prop_oneof![(0u64..20_000).prop_map(QueueLimit::Bytes), (0u64..30).prop_map(QueueLimit::Packets)];
    (limit, discipline).prop_map(|(limit, discipline)| QueueConfig { limit, discipline })
}

/// Events in order of time.
fn events() -> impl Strategy<Value = Vec<(i64, Event)>> {
    let packet = (20u32..3000, 0u64..4).prop_map(|(size, flow)| {
        Event::Packet(Label { size, flow, host: flow, ecn: Default::default(), ..Label::default() })
    });
    let event = prop_oneof![
        30 => packet,
        1 => settings().prop_map(|settings| Event::Settings(Box::new(settings))),
        1 => queues().prop_map(Event::Queue),
    ];
    prop::collection::vec((0i64..400_000, event), 1..150).prop_map(|events| {
        let mut time = 0;
        events
            .into_iter()
            .map(|(gap, event)| {
                time += gap;
                (time, event)
            })
            .collect()
    })
}

fn build(settings: &LinkConfig) -> Link<usize> {
    let mut link = Link::new(settings.clone().validate().unwrap());
    let kind = CrossKind::Poisson { rate: Rate::from_mbit(2), sizes: SizeMix::imix() };
    link.add_cross_traffic(CrossTraffic::new(CrossConfig { kind, start: at(0), phase: 0.0, seed: 3 }).unwrap());
    link.ledger_mut().record(Recording::All);
    link
}

fn apply(link: &mut Link<usize>, number: usize, time: i64, event: &Event) {
    match event {
        Event::Packet(label) => drop(link.offer_labelled(number, *label, at(time))),
        Event::Settings(settings) => link.reconfigure((**settings).clone().validate().unwrap(), at(time)),
        Event::Queue(queue) => link.replace_queue(&queue.clone().validate().unwrap(), at(time)),
    }
}

fn pop(link: &mut Link<usize>, now: Time) -> Vec<Delivery<usize>> {
    std::iter::from_fn(|| link.pop_due(now)).collect()
}

/// Lets everything on the link come out, however long that takes: a schedule may pass a bit in a second.
fn finish(link: &mut Link<usize>, from: i64) -> Vec<Delivery<usize>> {
    link.stop_cross_traffic();
    let mut time = at(from);
    // The next event is none where only cross traffic is left in the queue.
    while link.next_event().is_some_and(|next| next > time) || link.queued_bytes() > 0 {
        time += Span::from_secs(10);
        link.advance(time);
    }
    pop(link, Time::MAX)
}

fn forwarded_and_dropped(counters: &Counters) -> (u64, u64) {
    let Counters { forwarded, queue_full, aqm_dropped: managed, policed, lost, in_flight_full, .. } = counters;
    let parts = [forwarded, queue_full, managed, policed, lost, in_flight_full];
    (parts.iter().map(|count| count.packets).sum(), parts.iter().map(|count| count.bytes).sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_packet_is_delivered_or_in_the_ledger(settings in settings(), events in events()) {
        let mut link = build(&settings);
        for (number, (time, event)) in events.iter().enumerate() {
            apply(&mut link, number, *time, event);
            let (packets, cross) = (forwarded_and_dropped(link.ledger().packet_counters()), forwarded_and_dropped(link.ledger().cross_counters()));
            let offered = link.ledger().packet_counters().offered.bytes + link.ledger().cross_counters().offered.bytes;
            prop_assert_eq!(offered, packets.1 + cross.1 + link.queued_bytes());
        }
        let came = finish(&mut link, events.last().unwrap().0);
        let counters = *link.ledger().packet_counters();
        let offered = events.iter().filter(|(_, event)| matches!(event, Event::Packet(_))).count() as u64;
        prop_assert_eq!(counters.offered.packets, offered);
        prop_assert_eq!(forwarded_and_dropped(&counters), (counters.offered.packets, counters.offered.bytes));
        let copies = came.iter().filter(|delivery| delivery.is_duplicate).count() as u64;
        prop_assert_eq!(copies, counters.duplicated.packets);
        let inverted: Vec<_> = came.iter().filter(|delivery| delivery.inverted_bit.is_some()).collect();
        prop_assert_eq!(inverted.len() as u64, counters.corrupted.packets);
        prop_assert!(inverted.iter().all(|delivery| delivery.inverted_bit < Some(8 * delivery.label.size) && !delivery.is_duplicate));
        prop_assert_eq!(came.len() as u64, counters.forwarded.packets + copies);
        prop_assert_eq!(came.iter().map(|delivery| u64::from(delivery.label.size)).sum::<u64>(),
            counters.forwarded.bytes + counters.duplicated.bytes);
        let mut originals: Vec<_> = came.iter().filter(|delivery| !delivery.is_duplicate).map(|delivery| delivery.packet).collect();
        originals.sort_unstable();
        prop_assert!(originals.windows(2).all(|pair| pair[0] < pair[1]), "none twice but the copies");
        prop_assert_eq!(link.queued_bytes(), 0);
        prop_assert_eq!(link.next_event(), None);
    }

    #[test]
    fn deliveries_are_in_order_of_due_time_and_none_is_early(settings in settings(), events in events()) {
        let mut link = build(&settings);
        let mut shortest = settings.shortest_delay();
        for (number, (time, event)) in events.iter().enumerate() {
            apply(&mut link, number, *time, event);
            if let Event::Settings(settings) = event {
                shortest = shortest.min(settings.shortest_delay());
            }
        }
        let came = finish(&mut link, events.last().unwrap().0);
        prop_assert!(came.is_sorted_by_key(|delivery| delivery.due));
        for delivery in came {
            prop_assert!(delivery.arrival <= delivery.service_start);
            prop_assert!(delivery.service_start + shortest <= delivery.due);
        }
    }

    #[test]
    fn a_packet_is_not_due_before_the_earliest_due_time_at_its_arrival(settings in settings(), events in events()) {
        let mut link = build(&settings);
        let mut earliest = vec![Time::from_nanos(i64::MIN); events.len()];
        for (number, (time, event)) in events.iter().enumerate() {
            if let Event::Packet(_) = event {
                earliest[number] = link.earliest_due(at(*time));
                apply(&mut link, number, *time, event);
            }
        }
        for delivery in finish(&mut link, events.last().unwrap().0) {
            prop_assert!(earliest[delivery.packet] <= delivery.due);
        }
    }

    #[test]
    fn nothing_depends_on_how_often_a_link_is_advanced(
        settings in settings(), events in events(), steps in prop::collection::vec(0i64..60_000_000, 0..80)
    ) {
        let (mut once, mut often) = (build(&settings), build(&settings));
        let mut steps = steps;
        steps.sort_unstable();
        let (mut steps, mut came) = (steps.into_iter().peekable(), Vec::new());
        for (number, (time, event)) in events.iter().enumerate() {
            while let Some(step) = steps.next_if(|step| step <= time) {
                often.advance(at(step));
                came.extend(pop(&mut often, at(step)));
            }
            apply(&mut often, number, *time, event);
            came.extend(pop(&mut often, at(*time)));
            apply(&mut once, number, *time, event);
        }
        let end = events.last().unwrap().0;
        came.extend(finish(&mut often, end));
        let all = finish(&mut once, end);
        // What is on its way counts for its limit until it is taken.
        prop_assume!(once.ledger().packet_counters().in_flight_full.packets == 0);
        prop_assert_eq!(all, came);
        prop_assert_eq!(once.ledger().packet_counters(), often.ledger().packet_counters());
        prop_assert_eq!(once.ledger().cross_counters(), often.ledger().cross_counters());
        prop_assert!(once.ledger().entries().eq(often.ledger().entries()));
    }

    #[test]
    fn a_driver_that_sleeps_until_the_next_event_is_never_late(settings in settings(), events in events()) {
        let mut link = build(&settings);
        let mut events = events.into_iter().enumerate().peekable();
        let mut sleeps = 0;
        loop {
            let next_arrival = events.peek().map(|(_, (time, _))| at(*time));
            if next_arrival.is_none() {
                link.stop_cross_traffic();
            }
            let Some(now) = link.next_event().into_iter().chain(next_arrival).min() else { break };
            link.advance(now);
            let due = pop(&mut link, now);
            prop_assert!(due.iter().all(|delivery| delivery.due == now), "{:?} at {:?}", due, now);
            while let Some((number, (time, event))) = events.next_if(|(_, (time, _))| at(*time) == now) {
                apply(&mut link, number, time, &event);
                // A link without a rate any more lets all that waits out at once.
                prop_assert!(pop(&mut link, now).iter().all(|delivery| delivery.due == now));
            }
            sleeps += 1;
            prop_assert!(sleeps < 100_000, "it wakes for nothing at {:?}", now);
        }
        let counters = link.ledger().packet_counters();
        prop_assert_eq!(forwarded_and_dropped(counters).0, counters.offered.packets);
    }
}
