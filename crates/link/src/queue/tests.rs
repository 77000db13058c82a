//! What holds for every discipline.
use super::*;
use proptest::prelude::*;
use units::Span;

/// Every discipline, with settings that make it act within a few packets.
fn disciplines() -> Vec<Discipline> {
    let codel =
        CoDelConfig { target: Span::from_micros(50), interval: Span::from_micros(200), ..CoDelConfig::default() };
    let marking = CoDelConfig { ecn: true, law: ControlLaw::Newton, ..codel };
    let red = RedConfig { weight: 0.1, max_probability: 0.5, ..RedConfig::new(1500, 9000, Span::from_micros(20)) };
    let busiest = Heavy::Busiest(History { rec_int: 2, hist_len: 20, stat_int: 5 });
    let afd = AfdConfig { samples: 10, sample_bytes: 1000, update: Span::from_micros(30), ..AfdConfig::new(3000) };
    let (target, window) = (Span::from_micros(50), Span::from_micros(500));
    let share = FairShareConfig { target, window, flows: 8, ecn: false };
    let preference = Preference::default();
    vec![
        Discipline::TailDrop,
        Discipline::CoDel(codel),
        Discipline::CoDel(marking),
        Discipline::Red(red),
        Discipline::Red(RedConfig { ecn: true, gentle: false, ..red }),
        Discipline::ActiveDropping(ActiveDroppingConfig { red, heavy: busiest.clone(), preference }),
        Discipline::FairCoDel(FairCoDelConfig { codel, heavy: Heavy::Known(vec![7]), preference }),
        Discipline::FairCoDel(FairCoDelConfig { codel: marking, heavy: busiest, preference }),
        Discipline::Choke(red),
        Discipline::Afd(afd),
        Discipline::Afd(AfdConfig { ecn: true, ..afd }),
        Discipline::FqCoDel(FqCoDelConfig { codel, quantum: 300, flows: 3 }),
        Discipline::FairShare(share),
        Discipline::FairShare(FairShareConfig { ecn: true, ..share }),
        Discipline::FqCoDel(FqCoDelConfig { codel: marking, ..FqCoDelConfig::default() }),
    ]
}

/// A packet arrives, and perhaps one is served.
#[derive(Debug, Clone)]
struct Step {
    gap: i64,
    flow: u64,
    size: u32,
    ecn: Ecn,
    serves: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable0), Just(Ecn::Capable1), Just(Ecn::Marked)];
    // One flow sends more than the others.
    let flow = prop_oneof![2 => Just(7u64), 3 => 0u64..5];
    let step = (0i64..60_000, flow, 40u32..1500, ecn, prop::bool::weighted(0.6));
    let step = step.prop_map(|(gap, flow, size, ecn, serves)| Step { gap, flow, size, ecn, serves });
    prop::collection::vec(step, 1..400)
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![(0u64..40_000).prop_map(Limit::Bytes), (0u64..40).prop_map(Limit::Packets)]
}

/// All that came out and was dropped, in order.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    out: Vec<Queued<usize>>,
    dropped: Vec<Dropped<usize>>,
    /// Whether each packet was taken on arrival.
    taken: Vec<bool>,
    /// What waited after each step.
    waiting: Vec<(usize, u64)>,
}

fn run(config: &QueueConfig, seed: u64, steps: &[Step]) -> Trace {
    let mut queue = Queue::new(config, seed).unwrap();
    let (mut trace, mut now) = (Trace::default(), Time::ZERO);
    for (content, step) in steps.iter().enumerate() {
        now += Span::from_nanos(step.gap);
        let packet = Queued { ecn: step.ecn, ..Queued::new(content, step.size, step.flow, now) };
        trace.taken.push(queue.enqueue(packet, &mut trace.dropped).is_ok());
        if step.serves {
            trace.out.extend(queue.dequeue(now, &mut trace.dropped));
        }
        trace.waiting.push((queue.packets(), queue.bytes()));
    }
    // A link that serves at last empties the queue, and it ends empty.
    for _ in 0..steps.len() {
        now += Span::from_micros(10);
        trace.out.extend(queue.dequeue(now, &mut trace.dropped));
        trace.waiting.push((queue.packets(), queue.bytes()));
    }
    trace
}

fn bytes<'a>(packets: impl Iterator<Item = &'a Queued<usize>>) -> u64 {
    packets.map(|packet| u64::from(packet.size)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_is_served_dropped_or_waits_once(steps in steps(), limit in limits(), seed: u64) {
        for discipline in disciplines() {
            let trace = run(&QueueConfig { limit, discipline: discipline.clone() }, seed, &steps);
            let dropped = trace.dropped.iter().map(|dropped| &dropped.packet);
            prop_assert_eq!(trace.waiting.last(), Some(&(0, 0)), "{:?}", &discipline);
            let mut seen: Vec<_> = trace.out.iter().chain(dropped.clone()).map(|packet| packet.content).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..steps.len()).collect::<Vec<_>>(), "{:?}", &discipline);
            let offered: u64 = steps.iter().map(|step| u64::from(step.size)).sum();
            prop_assert_eq!(bytes(trace.out.iter()) + bytes(dropped), offered, "{:?}", &discipline);
            for (content, _) in trace.taken.iter().enumerate().filter(|(_, taken)| !**taken) {
                prop_assert!(trace.dropped.iter().any(|dropped| dropped.packet.content == content));
            }
        }
    }

    #[test]
    fn what_waits_stays_within_the_limit(steps in steps(), limit in limits(), seed: u64) {
        for discipline in disciplines() {
            let trace = run(&QueueConfig { limit, discipline: discipline.clone() }, seed, &steps);
            prop_assert!(trace.waiting.iter().all(|(packets, bytes)| match limit {
                Limit::Bytes(limit) => *bytes <= limit,
                Limit::Packets(limit) => *packets as u64 <= limit,
            }), "{:?}", &discipline);
        }
    }

    #[test]
    fn no_packet_overtakes_another_of_its_flow(steps in steps(), limit in limits(), seed: u64) {
        for discipline in disciplines() {
            let trace = run(&QueueConfig { limit, discipline: discipline.clone() }, seed, &steps);
            for flow in 0..8 {
                let own = trace.out.iter().filter(|packet| packet.flow == flow);
                prop_assert!(own.is_sorted_by_key(|packet| packet.content), "{:?}", &discipline);
            }
        }
    }

    #[test]
    fn packets_stay_what_they_were_but_for_marks_that_they_allow(steps in steps(), limit in limits(), seed: u64) {
        for discipline in disciplines() {
            let trace = run(&QueueConfig { limit, discipline: discipline.clone() }, seed, &steps);
            for packet in &trace.out {
                let step = &steps[packet.content];
                prop_assert_eq!((packet.flow, packet.size, packet.ecn), (step.flow, step.size, step.ecn));
                prop_assert!(!packet.marked || packet.ecn != Ecn::NotCapable, "{:?}", &discipline);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(steps in steps(), limit in limits(), seed: u64) {
        for discipline in disciplines() {
            let config = QueueConfig { limit, discipline };
            prop_assert_eq!(run(&config, seed, &steps), run(&config, seed, &steps), "{:?}", &config.discipline);
        }
    }
}
