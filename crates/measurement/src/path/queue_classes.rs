//! Whether the narrow link has queues of its own for some DSCPs, or for ECT(1): packets of all of them wait beside best effort.
//!
//! Trains fill the queue of best effort, and keep it filled while packets with other codepoints are sent between its packets, in random order.
//! A packet of the same queue waits as long as its neighbours; one of another queue does not. All packets are of one flow, so that a queue for
//! each flow (RFC 8290) makes no difference. For what waits otherwise, a last train has as many packets with the codepoint as of best effort:
//! in which order both arrive shows what the link gives to either.

use super::overload::{OverloadPlan, QueueFillingProbe, one_way_delay};
use super::{dscp, ecn};
use crate::report::{ClassQueue, ClassQueueReport, QueueClassesReport, QueueCount, ServedPackets};
use kumade_packet::{DsField, Ecn};
use kumade_probe_train::statistics::median;
use kumade_probe_train::{DsFieldRecord, DsFieldTrain, Train};
use kumade_units::{Rate, Span, Time};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// Trains for the waiting times of all codepoints: 24 packets of each, …
const WAIT_TRAINS: u32 = 3;
/// … of which each has so many.
const PACKETS_PER_CLASS: u32 = 8;
/// Packets of best effort before each of them: most of what is sent, so that its queue stays filled where the others are served first.
const REFERENCES: usize = 2;
/// How much faster all of these are sent than the link serves them, as a fraction.
const LOAD: [i64; 2] = [11, 10];
/// Trains of one codepoint beside best effort, at most, …
const MAX_SHARE_TRAINS: usize = 8;
/// … with so many packets of either, …
const SHARE_PACKETS: u32 = 150;
/// … sent so many times as fast as the link serves them: each would fill it alone.
const SHARE_OVERLOAD: i64 = 3;
/// Where best effort waits for less, or for less packets than this, nothing is told by it.
const MIN_WAIT: Span = Span::from_millis(2);
const MIN_WAIT_PACKETS: i64 = 8;
/// A packet that waits no more and no less than its neighbours by this many packets' transmission, or this time, may be of the same queue.
const TOLERANCE_PACKETS: i64 = 4;
const MIN_TOLERANCE: Span = Span::from_micros(500);
/// Packets of a codepoint of which nothing is said where there are fewer.
const MIN_PAIRS: usize = 12;
/// It waits otherwise where chance has the signs of the differences so in this part of all cases at most (sign test): 26 codepoints are looked at
/// in either direction.
const MAX_SIGN_CHANCE: f64 = 1e-5;

/// A packet beside best effort.
#[derive(Debug, Clone, Copy)]
struct Pair {
    own: Span,
    /// What best effort waits at the same time.
    reference: Span,
}

/// What is known of a codepoint.
#[derive(Debug, Clone)]
struct ClassTally {
    octet: u8,
    sent: u32,
    arrived: u32,
    pairs: Vec<Pair>,
    served: Option<ServedPackets>,
}

/// The trains of a direction.
#[derive(Debug, Clone)]
pub(crate) struct QueueClassProbe {
    plan: OverloadPlan,
    classes: Vec<ClassTally>,
    trains: u32,
    /// Those whose share of the link is to be seen; none before all have been waited for.
    shares: Option<Vec<usize>>,
    /// The octets of the train that was requested last, and the place of its codepoint if it is to show a share.
    pending: Option<(Vec<u8>, Option<usize>)>,
    random: Pcg64Mcg,
}

impl QueueClassProbe {
    /// Of a direction whose narrow link serves packets at this rate, or leaves it, with packets of so many bytes at most.
    pub(crate) fn new(rate: Rate, max_packet: u32, seed: u64) -> Self {
        let dscps = dscp::looked_at().filter(|dscp| dscp.number() > 0).map(|dscp| DsField::new(dscp, Ecn::NotEct));
        let octets = dscps.chain([DsField::from(Ecn::Ect1)]).map(DsField::octet);
        let tally = |octet| ClassTally { octet, sent: 0, arrived: 0, pairs: Vec::new(), served: None };
        QueueClassProbe {
            plan: OverloadPlan::new(rate, max_packet),
            classes: octets.map(tally).collect(),
            trains: 0,
            shares: None,
            pending: None,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// More bytes are not sent.
    pub(crate) fn max_bytes(&self) -> u64 {
        let waits = self.wait_segments(self.mixed_packets()).packet_count() * WAIT_TRAINS;
        let shares = self.share_segments().packet_count() * MAX_SHARE_TRAINS as u32;
        self.plan.bytes(waits + shares)
    }

    fn mixed_packets(&self) -> u32 {
        self.classes.len() as u32 * PACKETS_PER_CLASS * (1 + REFERENCES as u32)
    }

    fn wait_segments(&self, mixed: u32) -> Train {
        let interval = self.plan.transmission * LOAD[1] / LOAD[0];
        Train { segments: vec![self.plan.lead(), self.plan.burst(), self.plan.segment(mixed, interval)] }
    }

    fn share_segments(&self) -> Train {
        let both = self.plan.segment(2 * SHARE_PACKETS, self.plan.transmission / SHARE_OVERLOAD);
        Train { segments: vec![self.plan.lead(), both] }
    }

    /// Packets of all codepoints in random order, each behind some of best effort.
    fn wait_fields(&mut self) -> Vec<u8> {
        let octets = self.classes.iter().map(|class| class.octet);
        let mut order: Vec<u8> = octets.flat_map(|octet| [octet; PACKETS_PER_CLASS as usize]).collect();
        order.shuffle(&mut self.random);
        let behind_references = |octet: u8| [0; REFERENCES].into_iter().chain([octet]);
        order.into_iter().flat_map(behind_references).collect()
    }

    fn share_fields(&mut self, octet: u8) -> Vec<u8> {
        let mut order = [[0; SHARE_PACKETS as usize], [octet; SHARE_PACKETS as usize]].concat();
        order.shuffle(&mut self.random);
        order
    }

    fn record_waits(&mut self, fields: &[u8], record: &DsFieldRecord) {
        let delays: Vec<Option<Span>> =
            record.packets.iter().map(|packet| one_way_delay(packet).map(|(_, delay)| delay)).collect();
        let Some(least) = delays.iter().flatten().min().copied() else { return };
        for (at, (octet, packet)) in fields.iter().zip(&record.packets).enumerate() {
            let Some(class) = self.classes.iter_mut().find(|class| class.octet == *octet) else { continue };
            class.sent += u32::from(packet.sent.is_some());
            class.arrived += u32::from(packet.arrival.is_some());
            let neighbour = |place: usize| Some((*delays.get(place)?)?).filter(|_| fields[place] == 0);
            let before = (1..=2 * REFERENCES).find_map(|back| neighbour(at.checked_sub(back)?));
            let behind = (1..=2 * REFERENCES).find_map(|ahead| neighbour(at + ahead));
            if let (Some(own), Some(before), Some(behind)) = (delays[at], before, behind) {
                let reference = (before - least) / 2 + (behind - least) / 2;
                class.pairs.push(Pair { own: own - least, reference });
            }
        }
    }

    /// Of what arrived before all packets of either kind had.
    fn record_share(&mut self, class: usize, fields: &[u8], record: &DsFieldRecord) {
        let octet = self.classes[class].octet;
        let lead = fields.len().saturating_sub(2 * SHARE_PACKETS as usize);
        let arrived = |wanted: u8| -> Vec<Time> {
            let packets = fields.iter().zip(&record.packets).skip(lead).filter(|(field, _)| **field == wanted);
            packets.filter_map(|(_, packet)| packet.arrival?.received).collect()
        };
        let (own, best_effort) = (arrived(octet), arrived(0));
        let Some(end) = own.iter().max().min(best_effort.iter().max()).copied() else { return };
        let count = |times: &[Time]| times.iter().filter(|at| **at <= end).count() as u32;
        self.classes[class].served =
            Some(ServedPackets { packets: count(&own), best_effort_packets: count(&best_effort) });
    }

    /// The codepoints that have another queue, as far as their waiting times tell, the last one first.
    fn others(&self) -> Vec<usize> {
        let is_other =
            |class: &ClassTally| matches!(self.classify(class), ClassQueue::WaitsLess | ClassQueue::WaitsLonger);
        let mut places: Vec<usize> = (0..self.classes.len()).filter(|place| is_other(&self.classes[*place])).collect();
        places.truncate(MAX_SHARE_TRAINS);
        places.reverse();
        places
    }

    fn usable_pairs<'c>(&self, class: &'c ClassTally) -> impl Iterator<Item = &'c Pair> {
        let least = MIN_WAIT.max(self.plan.transmission * MIN_WAIT_PACKETS);
        class.pairs.iter().filter(move |pair| pair.reference >= least)
    }

    fn classify(&self, class: &ClassTally) -> ClassQueue {
        let tolerance = MIN_TOLERANCE.max(self.plan.transmission * TOLERANCE_PACKETS);
        let differences: Vec<Span> = self.usable_pairs(class).map(|pair| pair.own - pair.reference).collect();
        let all = differences.len();
        let shorter = differences.iter().filter(|difference| **difference < -tolerance).count();
        let longer = differences.iter().filter(|difference| **difference > tolerance).count();
        match () {
            () if all < MIN_PAIRS => ClassQueue::NotSure,
            () if sign_p_value(shorter, all) <= MAX_SIGN_CHANCE => ClassQueue::WaitsLess,
            () if sign_p_value(longer, all) <= MAX_SIGN_CHANCE => ClassQueue::WaitsLonger,
            () if 2 * (shorter + longer) <= all => ClassQueue::AsBestEffort,
            () => ClassQueue::NotSure,
        }
    }

    /// What it comes to; none where no train has arrived.
    pub(crate) fn report(&self) -> Option<QueueClassesReport> {
        let classes: Vec<_> = self.classes.iter().map(|class| self.report_class(class)).collect();
        if classes.iter().all(|class| class.arrived == 0) {
            return None;
        }
        let has = |wanted: ClassQueue| classes.iter().any(|class| class.queue == wanted);
        let queues = match () {
            () if has(ClassQueue::WaitsLess) || has(ClassQueue::WaitsLonger) => QueueCount::Several,
            () if has(ClassQueue::NotSure) => QueueCount::NotSure,
            () => QueueCount::One,
        };
        Some(QueueClassesReport { queues, classes })
    }

    fn report_class(&self, class: &ClassTally) -> ClassQueueReport {
        let field = DsField::from_octet(class.octet);
        let mark = match field.ecn() {
            Ecn::NotEct => dscp::name(field.dscp().number()),
            codepoint => ecn::name(codepoint as u8),
        };
        let wait = |of: fn(&Pair) -> Span| {
            median(&self.usable_pairs(class).map(|pair| of(pair).as_secs_f64()).collect::<Vec<_>>())
        };
        ClassQueueReport {
            mark,
            sent: class.sent,
            arrived: class.arrived,
            queue: self.classify(class),
            queueing_delay_seconds: wait(|pair| pair.own),
            best_effort_queueing_delay_seconds: wait(|pair| pair.reference),
            served: class.served,
        }
    }
}

impl QueueFillingProbe for QueueClassProbe {
    fn next_train(&mut self) -> Option<(Span, DsFieldTrain)> {
        let (mut fields, train, class) = if self.trains < WAIT_TRAINS {
            self.trains += 1;
            (self.wait_fields(), self.wait_segments(self.mixed_packets()), None)
        } else {
            let mut others = self.shares.take().unwrap_or_else(|| self.others());
            let class = others.pop();
            self.shares = Some(others);
            (self.share_fields(self.classes[class?].octet), self.share_segments(), class)
        };
        // What goes before is best effort.
        let packets = train.packet_count();
        let mut ds_fields = vec![0; packets as usize - fields.len()];
        ds_fields.append(&mut fields);
        let wait = self.plan.service_time(packets);
        self.pending = Some((ds_fields.clone(), class));
        Some((wait, DsFieldTrain { train, ds_fields }))
    }

    fn record_train(&mut self, record: &DsFieldRecord) {
        match self.pending.take() {
            Some((fields, None)) => self.record_waits(&fields, record),
            Some((fields, Some(class))) => self.record_share(class, &fields, record),
            None => {}
        }
    }
}

/// The probability that so many or more of all differences have a sign that each has with one half.
fn sign_p_value(of_sign: usize, all: usize) -> f64 {
    let log_half = -(all as f64) * std::f64::consts::LN_2;
    let log_choose = |part: usize| (1..=part).map(|step| ((all - part + step) as f64 / step as f64).ln()).sum::<f64>();
    (of_sign..=all).map(|part| (log_choose(part) + log_half).exp()).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::DsFieldArrival;
    use rand::RngExt;
    use std::collections::VecDeque;

    const EF: u8 = 46 << 2;
    const LE: u8 = 1 << 2;

    /// What a link of 50 Mbit/s makes of a train that serves the queue of the lowest number first, with delays by chance of up to so much.
    fn served(train: &DsFieldTrain, queue: fn(u8) -> usize, jitter: Span, seed: u64) -> DsFieldRecord {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let packets: Vec<_> = train.train.packets().collect();
        let mut queues: [VecDeque<usize>; 3] = Default::default();
        let (mut next, mut now, mut arrivals) = (0, Time::ZERO, Vec::new());
        while arrivals.len() < packets.len() {
            while next < packets.len() && Time::ZERO + packets[next].offset <= now {
                queues[queue(train.ds_fields[next])].push_back(next);
                next += 1;
            }
            let Some(index) = queues.iter_mut().find_map(VecDeque::pop_front) else {
                now = Time::ZERO + packets[next].offset;
                continue;
            };
            now += Rate::from_mbit(50).time_for(packets[index].size.into());
            let late = Span::from_nanos(random.random_range(0..=jitter.as_nanos()));
            let ds_field = Some(train.ds_fields[index]);
            arrivals.push(DsFieldArrival { index: index as u32, received: Some(now + late), ds_field });
        }
        let sent = (0..).zip(&packets).map(|(index, packet)| (index, Time::ZERO + packet.offset));
        DsFieldRecord::new(packets.len(), sent, &arrivals)
    }

    fn report(queue: fn(u8) -> usize, jitter: Span, seed: u64) -> QueueClassesReport {
        let mut probe = QueueClassProbe::new(Rate::from_mbit(50), 1500, seed);
        let mut bytes = 0;
        while let Some((_, train)) = probe.next_train() {
            assert_eq!(train.check(), Ok(()));
            bytes += train.train.bytes();
            probe.record_train(&served(&train, queue, jitter, seed));
        }
        assert!(bytes <= probe.max_bytes() && bytes < 8_000_000, "{bytes}");
        probe.report().unwrap()
    }

    #[test]
    fn what_is_served_first_or_last_is_told_with_what_it_gets() {
        let queue = |octet| match octet {
            EF => 0,
            LE => 2,
            _ => 1,
        };
        for seed in 0..10 {
            let found = report(queue, Span::from_micros(50), seed);
            assert_eq!(found.queues, QueueCount::Several);
            for class in found.classes {
                let expected = match class.mark.as_str() {
                    "EF" => ClassQueue::WaitsLess,
                    "LE" => ClassQueue::WaitsLonger,
                    _ => ClassQueue::AsBestEffort,
                };
                assert_eq!(class.queue, expected, "{seed}: {class:?}");
                match (class.mark.as_str(), class.served) {
                    ("EF", Some(served)) => {
                        assert!(served.packets >= 140 && served.best_effort_packets <= 20, "{served:?}")
                    }
                    ("LE", Some(served)) => {
                        assert!(served.packets <= 20 && served.best_effort_packets >= 140, "{served:?}")
                    }
                    (_, served) => assert_eq!(served, None),
                }
            }
        }
    }

    #[test]
    fn delays_by_chance_are_no_queues() {
        for jitter in [0, 50, 1000, 20_000] {
            for seed in 0..20 {
                let found = report(|_| 1, Span::from_micros(jitter), seed);
                assert_ne!(found.queues, QueueCount::Several, "{jitter} {seed}: {found:?}");
            }
        }
        assert_eq!(report(|_| 1, Span::from_micros(50), 1).queues, QueueCount::One);
    }

    #[test]
    fn signs_have_the_probabilities_of_a_coin() {
        assert!((sign_p_value(3, 3) - 0.125).abs() < 1e-12);
        assert!((sign_p_value(0, 9) - 1.0).abs() < 1e-12);
        assert!(sign_p_value(24, 24) < 1e-7 && sign_p_value(18, 24) > MAX_SIGN_CHANCE);
    }
}
