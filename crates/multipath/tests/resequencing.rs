//! A resequencer beside a plain model of it, on random paths: with other delays each, losses, deaths, copies, and
//! numbers that wrap.

use crate::model::{Model, Packet};
use kumade_multipath::message::{DataHeader, NUMBER_BITS};
use kumade_multipath::{ArrivedData, DelayRange, PathId, Predecessor, Resequencer, ResequencerConfig, Sequencer};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What a path is like.
#[derive(Debug, Clone)]
struct PathPlan {
    delay_millis: i64,
    /// Further delays of its datagrams, in turn.
    jitter_micros: Vec<i64>,
    /// Which of its datagrams are lost, in turn.
    lost: Vec<bool>,
    /// Whether it is known to the timer how long it takes.
    delay_known: bool,
    /// In this time (ms), all is lost; this much later both ends are told.
    death: Option<(i64, i64, i64)>,
}

#[derive(Debug, Clone)]
struct Plan {
    paths: Vec<PathPlan>,
    /// Bucket, paths (as bits; of none, a probe over the first), microseconds until the next.
    packets: Vec<(u16, u8, i64)>,
    keeps_order: bool,
    /// Numbers count from here.
    first_number: u32,
}

/// Something happens at the receiver.
#[derive(Debug, Clone)]
enum Event {
    Packet(ArrivedData<Vec<Predecessor>>, Packet),
    Probe(PathId, u64),
    Down(PathId),
}

/// What was sent and what became of it.
struct Course {
    events: Vec<(Time, Event)>,
    sent: BTreeMap<(u16, u64), Vec<(PathId, u64)>>,
    /// Of which packets at least one copy arrives.
    arrives: BTreeSet<(u16, u64)>,
}

const BUCKETS: [u16; 3] = [0, 1, 1023];

fn path(index: usize) -> PathId {
    PathId::new(index as u8).unwrap()
}

fn millis(millis: i64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

impl PathPlan {
    fn delay(&self) -> Option<DelayRange> {
        let least = Span::from_millis(self.delay_millis);
        let longest = self.jitter_micros.iter().copied().max().unwrap_or(0);
        self.delay_known.then(|| DelayRange { min: least, max: least + Span::from_micros(longest / 2) })
    }

    fn is_dead(&self, now: Time) -> bool {
        self.death.is_some_and(|(from, until, _)| (millis(from)..millis(until)).contains(&now))
    }
}

/// Sends all packets of a plan.
fn course(plan: &Plan) -> Course {
    let mut sequencer = Sequencer::new();
    let mut numbers = BTreeMap::new();
    let mut counters = vec![0u64; plan.paths.len()];
    let mut last_arrival = vec![Time::ZERO; plan.paths.len()];
    let mut course = Course { events: Vec::new(), sent: BTreeMap::new(), arrives: BTreeSet::new() };
    let mut settled = [0; PathId::MAX_PATHS];
    let mut now = Time::ZERO;
    for (bucket, paths, gap) in &plan.packets {
        let before = now;
        now += Span::from_micros(*gap);
        for (index, of) in plan.paths.iter().enumerate() {
            if of.death.is_some_and(|(from, _, told)| (before..now).contains(&millis(from + told))) {
                sequencer.path_down(path(index));
                settled[index] = counters[index];
            }
        }
        let probe = paths.trailing_zeros() as usize >= plan.paths.len();
        let over = (0..plan.paths.len()).filter(|index| if probe { *index == 0 } else { paths & 1 << index != 0 });
        let copies: Vec<_> = over.map(|index| (path(index), counters[index])).collect();
        let number = numbers.entry(*bucket).or_insert(0u64);
        let assignment = (!probe).then(|| sequencer.assign(*bucket, copies.iter().copied()));
        if !probe {
            course.sent.insert((*bucket, *number), copies.clone());
        }
        for (over, counter) in copies {
            counters[over.index()] += 1;
            let of = &plan.paths[over.index()];
            if of.lost[counter as usize % of.lost.len()] || of.is_dead(now) {
                continue;
            }
            let jitter = of.jitter_micros[counter as usize % of.jitter_micros.len()];
            let mut arrival = now + Span::from_millis(of.delay_millis) + Span::from_micros(jitter);
            if plan.keeps_order {
                arrival = arrival.max(last_arrival[over.index()]);
            }
            last_arrival[over.index()] = arrival;
            let event = match &assignment {
                None => Event::Probe(over, counter),
                Some(assignment) => {
                    course.arrives.insert((*bucket, *number));
                    let header = DataHeader {
                        bucket: *bucket,
                        number: plan.first_number.wrapping_add(assignment.number),
                        ..DataHeader::default()
                    };
                    let predecessors = assignment.predecessors(over).collect();
                    let packet = Packet { bucket: *bucket, number: *number, path: over, settled };
                    Event::Packet(ArrivedData { path: over, counter, header, predecessors, bytes: 1000 }, packet)
                }
            };
            course.events.push((arrival, event));
        }
        if !probe {
            *number += 1;
        }
    }
    for (index, of) in plan.paths.iter().enumerate() {
        course.events.extend(of.death.map(|(from, _, told)| (millis(from + told), Event::Down(path(index)))));
    }
    course.events.sort_by_key(|(time, _)| *time);
    course
}

type Payload = (u16, u64);

/// A resequencer whose buckets have come to the plan's first number.
fn resequencer(plan: &Plan, config: ResequencerConfig) -> Resequencer<Payload> {
    let mut resequencer = Resequencer::new(config);
    for bucket in BUCKETS.into_iter().filter(|_| plan.first_number > 0) {
        for number in (30_000..plan.first_number).step_by(30_000).chain([plan.first_number - 1]) {
            let header = DataHeader { bucket, number, ..DataHeader::default() };
            let arrival = ArrivedData { path: path(15), counter: 0, header, predecessors: [], bytes: 0 };
            resequencer.receive(arrival, (bucket, u64::MAX), Time::ZERO, &mut Vec::new());
        }
    }
    for (index, of) in plan.paths.iter().enumerate() {
        resequencer.set_delay(path(index), of.delay());
    }
    resequencer
}

/// Lets a plan's events happen, and the timer expire between them. `after` sees what each of them delivered.
fn run(
    course: &Course,
    resequencer: &mut Resequencer<Payload>,
    mut after: impl FnMut(Time, Option<&Event>, &mut Resequencer<Payload>, Vec<Payload>),
) {
    for (time, event) in &course.events {
        while let Some(deadline) = resequencer.deadline().filter(|deadline| deadline < time) {
            expire(deadline, resequencer, &mut after);
        }
        let mut out = Vec::new();
        match event {
            Event::Packet(arrival, packet) => {
                resequencer.receive(arrival.clone(), (packet.bucket, packet.number), *time, &mut out);
            }
            Event::Probe(path, counter) => resequencer.datagram_passed(*path, *counter, *time, &mut out),
            Event::Down(path) => resequencer.path_down(*path, *time, &mut out),
        }
        after(*time, Some(event), resequencer, out);
    }
    while let Some(deadline) = resequencer.deadline() {
        expire(deadline, resequencer, &mut after);
    }
}

fn expire(
    deadline: Time,
    resequencer: &mut Resequencer<Payload>,
    after: &mut impl FnMut(Time, Option<&Event>, &mut Resequencer<Payload>, Vec<Payload>),
) {
    let mut out = Vec::new();
    resequencer.expire(deadline, &mut out);
    after(deadline, None, resequencer, out);
}

fn plans(copies: bool, keeps_order: bool) -> impl Strategy<Value = Plan> {
    let death = prop::option::weighted(0.3, (0i64..60, 0i64..60, 0i64..50));
    let path = (
        prop_oneof![Just(0i64), 0i64..60],
        prop::collection::vec(prop_oneof![Just(0i64), 0i64..20_000], 1..5),
        prop::collection::vec(prop::bool::weighted(0.1), 1..20),
        prop::bool::weighted(0.8),
        death.prop_map(|death| death.map(|(from, lasts, told)| (from, from + lasts, told))),
    )
        .prop_map(|(delay_millis, jitter_micros, lost, delay_known, death)| PathPlan {
            delay_millis,
            jitter_micros,
            lost,
            delay_known,
            death,
        });
    let over = if copies { (0u8..16).boxed() } else { prop::sample::select(vec![0u8, 1, 2, 4, 8]).boxed() };
    let packet = (prop::sample::select(BUCKETS.to_vec()), over, prop_oneof![0i64..100, 0i64..3000]);
    let first = prop_oneof![Just(0), (1u32 << NUMBER_BITS) - 20..1 << NUMBER_BITS];
    (prop::collection::vec(path, 1..5), prop::collection::vec(packet, 1..150), first)
        .prop_map(move |(paths, packets, first_number)| Plan { paths, packets, keeps_order, first_number })
}

/// What a packet has to be told of besides: nothing is delivered twice, nothing that did not arrive, nothing waits for
/// longer than it may, nothing is kept.
fn check_invariants(plan: &Plan, config: ResequencerConfig) -> (Course, Vec<Payload>, Resequencer<Payload>) {
    let course = course(plan);
    let mut resequencer = resequencer(plan, config);
    let mut delivered = Vec::new();
    run(&course, &mut resequencer, |_, _, resequencer, out| {
        delivered.extend(out);
        let (packets, bytes) = resequencer.waiting_totals();
        assert!(packets <= config.max_packets && bytes <= config.max_bytes);
    });
    let set: BTreeSet<_> = delivered.iter().copied().collect();
    assert_eq!(set.len(), delivered.len(), "nothing is delivered twice");
    assert_eq!(set, course.arrives, "all that arrives is delivered");
    assert!(resequencer.statistics().waits.max_wait <= config.max_wait);
    assert_eq!(resequencer.waiting_totals(), (0, 0));
    (course, delivered, resequencer)
}

fn out_of_order(delivered: &[Payload]) -> usize {
    let mut highest = BTreeMap::new();
    let mut is_late = |(bucket, number): &Payload| {
        let highest = highest.entry(*bucket).or_insert(*number);
        *highest = *number.max(highest);
        number < highest
    };
    delivered.iter().filter(|packet| is_late(packet)).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn it_delivers_at_each_moment_what_the_model_does(plan in prop::bool::ANY.prop_flat_map(|order| plans(false, order))) {
        let config = ResequencerConfig::default();
        let course = course(&plan);
        let mut resequencer = resequencer(&plan, config);
        let mut model = Model::new(config);
        for ((bucket, number), copies) in &course.sent {
            model.sent(*bucket, *number, copies);
        }
        for (index, of) in plan.paths.iter().enumerate() {
            model.set_delay(path(index), of.delay());
        }
        run(&course, &mut resequencer, |time, event, resequencer, mut out| {
            match event {
                Some(Event::Packet(arrival, packet)) => model.receive(packet, arrival.counter, time),
                Some(Event::Probe(path, counter)) => model.passed(*path, *counter, time),
                Some(Event::Down(path)) => model.path_down(*path),
                None => model.expire(time),
            }
            // One bucket's order is none of another's business.
            out.sort_by_key(|(bucket, _)| *bucket);
            model.out.sort_by_key(|(bucket, _)| *bucket);
            assert_eq!(out, std::mem::take(&mut model.out), "at {time:?}: {event:?}");
            // It may look again too early, where a path has come back.
            let (deadline, latest) = (resequencer.deadline(), model.deadline());
            assert!(deadline <= latest && deadline.is_some() == latest.is_some(), "{deadline:?}, {latest:?} at {time:?}");
        });
    }

    #[test]
    fn over_paths_that_keep_order_nothing_is_out_of_order_whatever_is_lost(mut plan in plans(true, true)) {
        for of in &mut plan.paths {
            // The timer knows all delays with some room, and nobody says that a path is down.
            of.jitter_micros.truncate(1);
            of.jitter_micros[0] %= 9000;
            of.delay_known = true;
            of.death = None;
        }
        let (course, delivered, resequencer) = check_invariants(&plan, ResequencerConfig::default());
        prop_assert_eq!(out_of_order(&delivered), 0);
        prop_assert_eq!(resequencer.statistics().late, 0);
        if plan.paths.iter().all(|of| !of.lost.contains(&true)) {
            prop_assert_eq!(delivered.len(), course.sent.len());
            prop_assert_eq!(resequencer.statistics().expired, 0);
        }
    }

    #[test]
    fn whatever_paths_do_what_arrives_is_delivered_once_and_in_bounded_time(
        plan in prop::bool::ANY.prop_flat_map(|order| plans(true, order)),
        max_packets in prop_oneof![1usize..5, 5usize..200],
        max_bytes in 2000u64..100_000,
    ) {
        check_invariants(&plan, ResequencerConfig { max_packets, max_bytes, ..ResequencerConfig::default() });
    }
}
