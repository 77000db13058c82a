//! At which queueing delay the queue of the narrow link marks packets with CE: short trains that fill it, of packets with one ECN codepoint each.
//!
//! A train begins with packets that find no queue, the least of whose delays the others are counted from. Its other packets are sent several
//! times as fast as the link serves, so that each waits longer than the one before. A codepoint of which some came with CE is sent once more.

use super::fisher::{LossCount, loss_p_value};
use super::marking_threshold::{DelaySample, MarkingThreshold, find_threshold};
use crate::report::{CodepointMarkingReport, MarkingThresholdReport, QueueMarkingKind, QueueMarkingReport};
use kumade_packet::Ecn;
use kumade_probe_train::{DsFieldPacket, DsFieldRecord, DsFieldTrain, Segment, Train};
use kumade_units::{Rate, Span, Time};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// The queueing delay that a train is to reach: beyond the thresholds of L4S (RFC 9332: 1 ms), and the targets of CoDel and PIE (5 and 15 ms), …
const TARGET_DELAY: Span = Span::from_millis(40);
/// … unless that takes more packets than this: 380 kB of full ones, which reach 23 ms at 100 Mbit/s.
const MAX_PACKETS: i64 = 256;
/// So many at least, to see a threshold by.
const MIN_PACKETS: i64 = 32;
/// They are sent so many times as fast as the link serves them, at which the queue grows by three quarters of what is sent.
const OVERLOAD: i64 = 4;
/// On slow links, packets are shorter, so that each adds no more delay than this, …
const MAX_TRANSMISSION: Span = Span::from_micros(250);
/// … but no shorter than this, in bytes.
const MIN_PACKET_BYTES: u32 = 200;
const MAX_PACKET_BYTES: u32 = 1500;
/// Packets that are to find no queue, …
const LEAD_PACKETS: u32 = 8;
/// … so far apart at least, and as long as the link takes for as many as this.
const MIN_LEAD_INTERVAL: Span = Span::from_millis(1);
const LEAD_TRANSMISSIONS: i64 = 4;
/// Trains of a codepoint.
const MAX_TRAINS: u32 = 2;
/// What stamps may be off, …
const STAMP_ERROR: Span = Span::from_micros(50);
/// … and how much faster one clock may run than the other, between two adjustments.
const MAX_CLOCK_DRIFT: f64 = 100e-6;
/// Longer queueing delays are those of classic queues: the shortest target in use is CoDel's (RFC 8289), L4S's is a fifth of it.
const MAX_SHALLOW_DELAY: Span = Span::from_millis(5);
/// A queue that does not come to this says nothing: packets of no queue differ as much.
const MIN_QUEUE: Span = Span::from_millis(1);
/// ECT(0) is not marked where it is by less than this part of what ECT(1) is at the same delays, …
const MAX_UNMARKED_PART: f64 = 0.2;
/// … and chance would have that so in one of so many cases at most.
const MAX_CHANCE: f64 = 1e-4;

const CODEPOINTS: [Ecn; 3] = [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct];

/// A packet of a train that arrived.
#[derive(Debug, Clone, Copy)]
struct ArrivedPacket {
    sent: Time,
    /// By two clocks.
    delay: Span,
    ecn: Ecn,
}

/// What became of the packets of one codepoint.
#[derive(Debug, Clone, Default)]
struct CodepointTally {
    trains: u32,
    sent: u32,
    /// Of each train.
    arrived: Vec<Vec<ArrivedPacket>>,
}

/// The trains of a direction.
#[derive(Debug, Clone)]
pub(crate) struct MarkingProbe {
    plan: TrainPlan,
    /// In the order in which they are sent.
    order: Vec<Ecn>,
    /// As [`CODEPOINTS`].
    tallies: [CodepointTally; 3],
    pending: Option<Ecn>,
}

/// What all trains have in common.
#[derive(Debug, Clone, Copy)]
struct TrainPlan {
    packet_bytes: u32,
    packets: i64,
    /// The time that the link takes for a packet.
    transmission: Span,
}

impl TrainPlan {
    fn new(rate: Rate, max_packet: u32) -> Self {
        let largest = max_packet.clamp(MIN_PACKET_BYTES, MAX_PACKET_BYTES);
        let per_packet = (rate.as_f64() * MAX_TRANSMISSION.as_secs_f64() / 8.0) as u32;
        let packet_bytes = per_packet.clamp(MIN_PACKET_BYTES, largest);
        let transmission = rate.time_for(u64::from(packet_bytes)).max(Span::from_nanos(1));
        let growth = (transmission - transmission / OVERLOAD).max(Span::from_nanos(1));
        let packets = (TARGET_DELAY.as_nanos() / growth.as_nanos()).clamp(MIN_PACKETS, MAX_PACKETS);
        TrainPlan { packet_bytes, packets, transmission }
    }

    fn train(&self, ecn: Ecn) -> DsFieldTrain {
        let segment = |count, interval| Segment { count, interval, first_size: self.packet_bytes, size_step: 0 };
        let lead = (self.transmission * LEAD_TRANSMISSIONS).max(MIN_LEAD_INTERVAL);
        let segments = vec![segment(LEAD_PACKETS, lead), segment(self.packets as u32, self.transmission / OVERLOAD)];
        let train = Train { segments };
        DsFieldTrain { ds_fields: vec![ecn as u8; train.packet_count() as usize], train }
    }
}

impl MarkingProbe {
    /// Of a direction whose narrow link serves packets at this rate, or leaves it, with packets of so many bytes at most, and codepoints that
    /// arrive as they were sent.
    pub(crate) fn new(rate: Rate, max_packet: u32, is_kept: impl Fn(Ecn) -> bool, seed: u64) -> Self {
        let mut order: Vec<Ecn> = CODEPOINTS.into_iter().filter(|ecn| is_kept(*ecn)).collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        let plan = TrainPlan::new(rate, max_packet);
        MarkingProbe { plan, order, tallies: Default::default(), pending: None }
    }

    /// The next train; none once all have been sent that help.
    pub(crate) fn next_train(&mut self) -> Option<DsFieldTrain> {
        let next = (0..MAX_TRAINS).flat_map(|round| self.order.iter().map(move |ecn| (round, *ecn)));
        let (_, ecn) = next.into_iter().find(|(round, ecn)| self.is_wanted(*round, *ecn))?;
        self.pending = Some(ecn);
        let tally = &mut self.tallies[place(ecn)];
        tally.trains += 1;
        Some(self.plan.train(ecn))
    }

    fn is_wanted(&self, round: u32, ecn: Ecn) -> bool {
        let tally = &self.tallies[place(ecn)];
        tally.trains == round && (round == 0 || tally.marked() > 0)
    }

    /// The time after which the queue of the last train has drained.
    pub(crate) fn drain_time(&self) -> Span {
        self.plan.transmission * self.plan.packets
    }

    /// Takes what became of the train that was requested last.
    pub(crate) fn record_train(&mut self, record: &DsFieldRecord) {
        let Some(ecn) = self.pending.take() else { return };
        let tally = &mut self.tallies[place(ecn)];
        tally.sent += record.packets.iter().filter(|packet| packet.sent.is_some()).count() as u32;
        tally.arrived.push(record.packets.iter().filter_map(ArrivedPacket::from_packet).collect());
    }

    /// What it comes to; none where no train has arrived.
    pub(crate) fn report(&self) -> Option<QueueMarkingReport> {
        let arrived = || self.tallies.iter().flat_map(|tally| tally.arrived.iter().flatten());
        let least = arrived().map(|packet| packet.delay).min()?;
        let (first, last) = (arrived().map(|packet| packet.sent).min()?, arrived().map(|packet| packet.sent).max()?);
        // Queues differ in whether a packet's own transmission counts.
        let error =
            STAMP_ERROR + self.plan.transmission + Span::from_secs_f64((last - first).as_secs_f64() * MAX_CLOCK_DRIFT);
        let views = [0, 1, 2].map(|place| CodepointView::new(&self.tallies[place], least, error));
        let looked_at = CODEPOINTS.iter().zip(&views).filter(|(ecn, _)| self.order.contains(*ecn));
        let codepoints = looked_at.map(|(ecn, view)| view.report(*ecn)).collect();
        Some(QueueMarkingReport { kind: classify_marking(&views[0], &views[1]), codepoints })
    }
}

fn place(ecn: Ecn) -> usize {
    CODEPOINTS.iter().position(|other| *other == ecn).unwrap_or(0)
}

impl ArrivedPacket {
    fn from_packet(packet: &DsFieldPacket) -> Option<Self> {
        let arrival = packet.arrival?;
        let sent = packet.sent?;
        Some(ArrivedPacket { sent, delay: arrival.received? - sent, ecn: Ecn::from_bits(arrival.ds_field? & 0b11) })
    }
}

impl CodepointTally {
    fn marked(&self) -> u32 {
        self.arrived.iter().flatten().filter(|packet| packet.ecn == Ecn::Ce).count() as u32
    }
}

/// What the packets of a codepoint say.
#[derive(Debug)]
struct CodepointView {
    sent: u32,
    samples: Vec<DelaySample>,
    marked: u32,
    threshold: Option<MarkingThreshold>,
}

impl CodepointView {
    /// Delays are counted from `least`, up to an error.
    fn new(tally: &CodepointTally, least: Span, error: Span) -> Self {
        let sample =
            |packet: &ArrivedPacket| DelaySample { delay: packet.delay - least, is_marked: packet.ecn == Ecn::Ce };
        let trains: Vec<Vec<DelaySample>> =
            tally.arrived.iter().map(|train| train.iter().map(sample).collect()).collect();
        let samples = trains.concat();
        // What holds packets up beside the queue is the same for many packets of a train, and seldom for those of two.
        let each = trains.iter().filter_map(|train| find_threshold(train));
        let threshold = find_threshold(&samples).map(|all| {
            each.fold(all, |hull, train| MarkingThreshold {
                low: hull.low.min(train.low),
                high: hull.high.max(train.high),
                is_gradual: hull.is_gradual,
            })
        });
        let threshold = threshold.map(|found| MarkingThreshold {
            low: (found.low - error).max(Span::ZERO),
            high: found.high + error,
            ..found
        });
        CodepointView { sent: tally.sent, samples, marked: tally.marked(), threshold }
    }

    /// The queueing delay that some packets met: one alone may have been held up elsewhere.
    fn reached(&self) -> Option<Span> {
        let mut delays: Vec<Span> = self.samples.iter().map(|sample| sample.delay).collect();
        delays.sort_unstable();
        delays.iter().rev().nth(2).copied()
    }

    /// Packets that waited longer than this, and those of them that were marked, in place of lost.
    fn count_above(&self, delay: Span) -> LossCount {
        let above = self.samples.iter().filter(|sample| sample.delay >= delay);
        let [mut sent, mut lost] = [0; 2];
        for sample in above {
            sent += 1;
            lost += u32::from(sample.is_marked);
        }
        LossCount { sent, lost }
    }

    /// Whether hardly any is marked where those of another codepoint are.
    fn is_unmarked_beside(&self, other: &Self, from: Span) -> bool {
        let [own, others] = [self, other].map(|view| view.count_above(from));
        let part = |count: LossCount| f64::from(count.lost) / f64::from(count.sent.max(1));
        part(own) <= part(others) * MAX_UNMARKED_PART && loss_p_value(others, own) <= MAX_CHANCE
    }

    fn report(&self, ecn: Ecn) -> CodepointMarkingReport {
        let threshold = self.threshold.map(|found| {
            let LossCount { sent: packets_above, lost: marked_above } = self.count_above(found.high);
            MarkingThresholdReport {
                low_seconds: found.low.as_secs_f64(),
                high_seconds: found.high.as_secs_f64(),
                is_gradual: found.is_gradual,
                packets_above,
                marked_above,
            }
        });
        CodepointMarkingReport {
            mark: ecn.to_string(),
            sent: self.sent,
            arrived: self.samples.len() as u32,
            marked: self.marked,
            max_queueing_delay_seconds: self.reached().map(Span::as_secs_f64),
            marked_from: threshold,
        }
    }
}

/// What kind of queue that is, by the packets of ECT(1) and ECT(0).
fn classify_marking(l4s: &CodepointView, classic: &CodepointView) -> QueueMarkingKind {
    let is_shallow = |found: MarkingThreshold| found.high <= MAX_SHALLOW_DELAY;
    let is_deep = |found: MarkingThreshold| found.low > MAX_SHALLOW_DELAY;
    match (l4s.threshold, classic.threshold) {
        (Some(one), None) if is_shallow(one) && classic.is_unmarked_beside(l4s, one.high) => QueueMarkingKind::L4s,
        (Some(one), Some(zero)) if is_shallow(one) && zero.low > one.high => QueueMarkingKind::L4s,
        (Some(one), Some(zero)) if is_shallow(one) && is_shallow(zero) => QueueMarkingKind::Shallow,
        (Some(one), Some(zero)) if is_deep(one) && is_deep(zero) => QueueMarkingKind::Classic,
        (None, Some(zero)) if is_deep(zero) => QueueMarkingKind::Classic,
        (None, None) if l4s.marked == 0 && classic.marked == 0 => {
            let reached = [l4s, classic].into_iter().filter_map(CodepointView::reached).min();
            match reached {
                Some(reached) if reached >= MIN_QUEUE => QueueMarkingKind::NoneSeen,
                _ => QueueMarkingKind::NoQueue,
            }
        }
        _ => QueueMarkingKind::NotSure,
    }
}
