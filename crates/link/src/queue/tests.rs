//! What holds for every discipline of the table.
use super::*;
use kumade_units::{Span, Time};
use proptest::prelude::*;

/// Every discipline, with settings under which it acts within a few packets.
fn disciplines() -> impl Iterator<Item = Discipline> {
    let trials = DISCIPLINES.iter().flat_map(|info| info.test_settings);
    trials.map(|text| text.parse::<DisciplineSettings>().unwrap().discipline(None))
}

#[test]
fn each_discipline_is_in_the_table_with_trials_of_all_its_parameters() {
    for info in DISCIPLINES {
        let trials: Vec<DisciplineSettings> = info.test_settings.iter().map(|text| text.parse().unwrap()).collect();
        assert!(!trials.is_empty() && trials.iter().all(|trial| trial.name() == info.name), "{info:?}");
        for parameter in info.parameters() {
            let set = trials.iter().any(|trial| trial.given_parameters().any(|(name, _)| name == parameter.name));
            assert!(set, "no trial of {} sets {}", info.name, parameter.name);
        }
        assert_eq!(info.defaults().info().name, info.name);
        assert_eq!(info.defaults().check(), Ok(()));
    }
}

#[test]
fn what_is_said_to_be_the_default_is() {
    for info in DISCIPLINES {
        let defaults = DisciplineSettings::new(info.name).unwrap();
        for parameter in info.parameters() {
            let mut set = defaults.clone();
            // Other defaults depend on the link, and say so.
            match parameter.default.as_deref().filter(|text| !text.contains("the link's rate")) {
                Some(text) => set.set(parameter.name, text).unwrap(),
                None => continue,
            }
            assert_eq!(set.discipline(None), defaults.discipline(None), "{} {parameter:?}", info.name);
        }
    }
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
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    // One flow sends more than the others.
    let flow = prop_oneof![2 => Just(7u64), 3 => 0u64..5];
    let step = (0i64..60_000, flow, 40u32..1500, ecn, prop::bool::weighted(0.6));
    let step = step.prop_map(|(gap, flow, size, ecn, serves)| Step { gap, flow, size, ecn, serves });
    prop::collection::vec(step, 1..400)
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![(0u64..40_000).prop_map(QueueLimit::Bytes), (0u64..40).prop_map(QueueLimit::Packets)]
}

/// All that came out and was dropped, in order.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    out: Vec<QueuedPacket<usize>>,
    dropped: Vec<DroppedPacket<usize>>,
    /// Whether each packet was taken on arrival.
    taken: Vec<bool>,
    /// What waited after each step.
    waiting: Vec<(usize, u64)>,
}

fn run(config: &QueueConfig, seed: u64, steps: &[Step]) -> Trace {
    let mut queue = Queue::new(&config.clone().validate().unwrap(), seed);
    let (mut trace, mut now) = (Trace::default(), Time::ZERO);
    for (content, step) in steps.iter().enumerate() {
        now += Span::from_nanos(step.gap);
        let packet = QueuedPacket { ecn: step.ecn, ..QueuedPacket::new(content, step.size, step.flow, now) };
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

fn bytes<'a>(packets: impl Iterator<Item = &'a QueuedPacket<usize>>) -> u64 {
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
                QueueLimit::Bytes(limit) => *bytes <= limit,
                QueueLimit::Packets(limit) => *packets as u64 <= limit,
            }), "{:?}", &discipline);
        }
    }

    #[test]
    fn no_packet_overtakes_another_of_its_flow(steps in steps(), limit in limits(), seed: u64) {
        for discipline in disciplines() {
            let trace = run(&QueueConfig { limit, discipline: discipline.clone() }, seed, &steps);
            // Two queues by ECN field keep the order of what is in one of them: a sender has packets of one kind.
            let splits = matches!(discipline, Discipline::DualPi2(_));
            let kind = |ecn: Ecn| splits && matches!(ecn, Ecn::Ect1 | Ecn::Ce);
            for (flow, is_l4s) in (0..8).flat_map(|flow| [(flow, false), (flow, true)]) {
                let own = trace.out.iter().filter(|packet| packet.flow == flow && kind(packet.ecn) == is_l4s);
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
                prop_assert!(!packet.marked || packet.ecn != Ecn::NotEct, "{:?}", &discipline);
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
