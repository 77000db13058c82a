//! Each discipline in front of a link: the shares that flows get, and that the link's guarantees hold with all of them.

use crate::every_discipline;
use kumade_link::queue::{
    ActiveDroppingConfig, AfdConfig, CakeConfig, ChokeConfig, CoDelConfig, Discipline, DropPreference, Dscp,
    DualPi2Config, Ecn, FairCoDelConfig, FairShareConfig, FlowHistory, FqCoDelConfig, HeavyFlows, PieConfig,
    QueueConfig, QueueLimit, RedConfig, TailDropConfig,
};
use kumade_link::{CrossConfig, CrossKind, CrossTraffic, Delivery, Label, Link, LinkConfig, Loss, Recording, SizeMix};
use kumade_units::{Rate, Span, Time};
use proptest::prelude::*;

const RATE: Rate = Rate::from_mbit(10);
/// The flow that sends six times as much as each of the four others.
const GREEDY: u64 = 9;

fn wire() -> LinkConfig {
    LinkConfig { rate: Some(RATE), queue_bytes: 0, delay: Span::from_millis(5), seed: 1, ..LinkConfig::default() }
}

fn link(discipline: Discipline) -> Link<u64> {
    let queue = QueueConfig { limit: QueueLimit::Bytes(125_000), discipline };
    Link::with_queue(wire().validate().unwrap(), &queue.validate().unwrap())
}

fn red() -> RedConfig {
    RedConfig::new(12_500, 37_500, RATE.time_for(1000))
}

fn preferring(heavy: HeavyFlows, other: f64) -> Discipline {
    let preference = DropPreference { heavy: 1.0, other };
    Discipline::FairCoDel(FairCoDelConfig { codel: CoDelConfig::default(), heavy, preference })
}

/// Every discipline of the table.
fn disciplines() -> Vec<Discipline> {
    every_discipline::disciplines(RATE)
}

fn millis(millis: f64) -> Time {
    Time::from_nanos((millis * 1e6) as i64)
}

/// The part of the link that the greedy flow gets in the second half of a minute in which twice the rate is offered:
/// 12 Mbit/s by the greedy flow and 2 by each of four others. No flow reacts. The fair part is 0.2.
fn greedy_part(discipline: Discipline) -> f64 {
    let mut link = link(discipline);
    let mut bytes = [0.0; 10];
    // One packet of 1000 bytes each 0.4 ms; in turns of ten by these flows, with unequal neighbours.
    let turns = [GREEDY, 1, GREEDY, 2, GREEDY, GREEDY, 3, GREEDY, 4, GREEDY];
    for packet in 0..150_000u64 {
        let now = millis(packet as f64 * 0.4);
        let flow = turns[(packet * 7 + packet / 10) as usize % 10];
        let _ = link.offer_labelled(
            flow,
            Label { size: 1000, flow, host: flow, ecn: Ecn::NotEct, ..Label::default() },
            now,
        );
        while let Some(delivery) = link.pop_due(now) {
            if packet >= 75_000 {
                bytes[delivery.packet as usize] += f64::from(delivery.label.size);
            }
        }
    }
    bytes[GREEDY as usize] / bytes.iter().sum::<f64>()
}

#[test]
fn what_a_greedy_flow_gets_depends_on_the_discipline() {
    let within = |discipline: Discipline, low: f64, high: f64| {
        let part = greedy_part(discipline.clone());
        assert!((low..high).contains(&part), "{part:.3} is not within {low}..{high}: {discipline:?}");
        part
    };
    // Those that do not look at flows leave it what it sends: 0.6.
    within(TailDropConfig.into(), 0.55, 0.65);
    within(Discipline::CoDel(CoDelConfig::default()), 0.55, 0.65);
    within(Discipline::Red(red()), 0.58, 0.62);
    within(Discipline::Pie(PieConfig::default()), 0.55, 0.65);
    within(Discipline::DualPi2(DualPi2Config::default()), 0.55, 0.65);
    // To meet oneself is likelier for who sends more.
    within(Discipline::Choke(ChokeConfig { red: red() }), 0.2, 0.4);
    // The preference acts on drops by RED's chance, yet not on those that its limit forces.
    let heavy = HeavyFlows::Known(vec![GREEDY]);
    let preference = DropPreference { heavy: 1.0, other: 0.1 };
    let active = ActiveDroppingConfig { red: red(), heavy: heavy.clone(), preference };
    within(Discipline::ActiveDropping(active), 0.2, 0.35);
    // The papers' rule: fairer the stronger the preference, however the flow becomes known.
    within(preferring(heavy.clone(), 1.0), 0.55, 0.65);
    let busiest = HeavyFlows::Busiest(FlowHistory::default());
    let (weak, strong) = (greedy_part(preferring(busiest.clone(), 0.5)), greedy_part(preferring(busiest, 0.0)));
    assert!(strong < weak && weak < 0.6, "{strong} {weak}");
    // These know the share.
    within(Discipline::Afd(AfdConfig::new(25_000)), 0.18, 0.26);
    within(Discipline::FqCoDel(FqCoDelConfig::default()), 0.19, 0.21);
    within(Discipline::FairShare(FairShareConfig::default()), 0.19, 0.21);
    within(Discipline::Cake(CakeConfig::default()), 0.19, 0.21);
}

#[test]
fn computed_cross_traffic_is_a_flow_of_its_own() {
    let mut link = link(Discipline::FqCoDel(FqCoDelConfig::default()));
    for seed in 0..2 {
        let kind = CrossKind::Poisson { rate: Rate::from_mbit(8), sizes: SizeMix::fixed(1000) };
        link.add_cross_traffic(CrossTraffic::new(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed }).unwrap());
    }
    for packet in 0..3000 {
        link.offer(packet, 1000, millis(packet as f64 * 3.2)).unwrap();
    }
    link.advance(millis(20_000.0));
    // 2.5 Mbit/s are less than a third of the rate, and lose nothing; both sources are shortened to the rest.
    assert_eq!(link.ledger().packet_counters().forwarded, link.ledger().packet_counters().offered);
    assert!(link.ledger().cross_counters().aqm_dropped.packets > 0);
}

#[test]
fn what_is_marked_is_delivered_as_such_and_counted() {
    let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
    let mut link = link(Discipline::CoDel(codel));
    link.ledger_mut().record(Recording::All);
    let label = Label { size: 1000, flow: 1, host: 1, ecn: Ecn::Ect0, ..Label::default() };
    for packet in 0..1000 {
        link.offer_labelled(packet, label, millis(packet as f64 * 0.75)).unwrap();
    }
    link.advance(millis(2000.0));
    let came: Vec<_> = std::iter::from_fn(|| link.pop_due(Time::MAX)).collect();
    let marked = came.iter().filter(|delivery| delivery.is_marked).count() as u64;
    let counters = link.ledger().packet_counters();
    assert_eq!((came.len(), counters.aqm_dropped.packets, counters.marked.packets), (1000, 0, marked));
    assert!((10..100).contains(&marked), "{marked}");
    assert!(link.ledger().entries().all(|entry| entry.flow == 1));
}

#[test]
fn a_queue_that_cannot_be_is_refused_with_the_reason() {
    let codel = CoDelConfig { interval: Span::ZERO, ..CoDelConfig::default() };
    let queue = QueueConfig { limit: QueueLimit::Packets(10), discipline: Discipline::CoDel(codel) };
    let text = queue.validate().unwrap_err().to_string();
    assert!(text.contains("CoDel queue: interval is 0"), "{text}");
}

/// Gaps between packets in nanoseconds, with flow and size.
fn arrivals() -> impl Strategy<Value = Vec<(Time, Label)>> {
    let label = (prop_oneof![2 => Just(GREEDY), 3 => 0u64..4], 40u32..1500, any::<bool>());
    let label = label.prop_map(|(flow, size, capable)| Label {
        size,
        flow,
        host: flow % 3,
        destination_host: flow as u32 % 2,
        dscp: Dscp::new(flow as u8 * 8 % 64).unwrap(),
        ecn: if capable { Ecn::Ect0 } else { Ecn::NotEct },
    });
    prop::collection::vec((0i64..1_500_000, label), 1..200).prop_map(|gaps| {
        let mut now = 0;
        gaps.into_iter()
            .map(|(gap, label)| {
                now += gap;
                (Time::from_nanos(now), label)
            })
            .collect()
    })
}

fn busy(discipline: &Discipline) -> Link<u64> {
    let queue = QueueConfig { limit: QueueLimit::Bytes(20_000), discipline: discipline.clone() };
    let config = LinkConfig { loss: Loss::Independent(0.05), jitter: Span::from_micros(100).into(), ..wire() };
    let mut link = Link::with_queue(config.validate().unwrap(), &queue.validate().unwrap());
    let kind = CrossKind::Poisson { rate: Rate::from_mbit(6), sizes: SizeMix::imix() };
    link.add_cross_traffic(CrossTraffic::new(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 3 }).unwrap());
    link
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_outcome_does_not_depend_on_how_often_the_link_is_advanced(
        arrivals in arrivals(), step in 10_000i64..3_000_000
    ) {
        for discipline in disciplines() {
            let (mut once, mut often) = (busy(&discipline), busy(&discipline));
            let mut came: Vec<Delivery<u64>> = Vec::new();
            let mut next = Time::ZERO;
            for (packet, (arrival, label)) in arrivals.iter().enumerate() {
                while next < *arrival {
                    often.advance(next);
                    came.extend(std::iter::from_fn(|| often.pop_due(next)));
                    next += Span::from_nanos(step);
                }
                let fates = [&mut once, &mut often].map(|link| link.offer_labelled(packet as u64, *label, *arrival));
                prop_assert_eq!(fates[0], fates[1]);
            }
            let end = arrivals.last().map_or(Time::ZERO, |(arrival, _)| *arrival) + Span::from_millis(50);
            once.advance(end);
            often.advance(end);
            came.extend(std::iter::from_fn(|| often.pop_due(Time::MAX)));
            prop_assert_eq!(std::iter::from_fn(|| once.pop_due(Time::MAX)).collect::<Vec<_>>(), came);
            prop_assert_eq!(once.ledger().cross_counters(), often.ledger().cross_counters());
        }
    }

    #[test]
    fn every_byte_is_accounted_for_and_no_packet_overtakes_one_of_its_flow(arrivals in arrivals()) {
        for discipline in disciplines() {
            let mut link = busy(&discipline);
            for (packet, (arrival, label)) in arrivals.iter().enumerate() {
                let _ = link.offer_labelled(packet as u64, *label, *arrival);
            }
            let accounted = [link.ledger().packet_counters(), link.ledger().cross_counters()].map(|counters| {
                let parts = [counters.forwarded, counters.queue_full, counters.aqm_dropped, counters.lost];
                (counters.offered.bytes, parts.iter().map(|count| count.bytes).sum::<u64>())
            });
            let (offered, decided) = (accounted[0].0 + accounted[1].0, accounted[0].1 + accounted[1].1);
            prop_assert_eq!(offered, decided + link.queued_bytes(), "{:?}", &discipline);
            link.stop_cross_traffic();
            link.advance(link.now().unwrap() + Span::from_secs(1));
            prop_assert_eq!((link.queued_bytes(), link.next_event()), (0, link.next_due()));
            let came: Vec<_> = std::iter::from_fn(|| link.pop_due(Time::MAX)).map(|delivery| delivery.packet).collect();
            for flow in 0..=GREEDY {
                let own = came.iter().filter(|packet| arrivals[**packet as usize].1.flow == flow);
                prop_assert!(own.is_sorted(), "{:?}", &discipline);
            }
        }
    }

    #[test]
    fn a_driver_that_sleeps_until_next_event_is_never_late(arrivals in arrivals()) {
        for discipline in disciplines() {
            let mut link = busy(&discipline);
            let mut arrivals = arrivals.iter().peekable();
            loop {
                let next_arrival = arrivals.peek().map(|(time, _)| *time);
                let Some(now) = link.next_event().into_iter().chain(next_arrival).min() else { break };
                link.advance(now);
                while let Some(delivery) = link.pop_due(now) {
                    prop_assert_eq!(delivery.due, now, "{:?}", &discipline);
                }
                while let Some((_, label)) = arrivals.next_if(|(time, _)| *time == now) {
                    let _ = link.offer_labelled(0, *label, now);
                }
            }
        }
    }
}
