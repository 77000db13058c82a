//! At which queueing delay the queue of the narrow link marks packets with CE: short trains that fill it, of packets with one ECN codepoint each.
//!
//! A train begins with packets that find no queue, the least of whose delays the others are counted from. Its other packets are sent several
//! times as fast as the link serves, so that each waits longer than the one before. A codepoint of which some came with CE is sent once more.

use super::fisher::{LossCount, MAX_CHANCE, loss_p_value};
use super::marking_threshold::{DelaySample, MarkingThreshold, find_threshold};
use super::overload::{LEAD_PACKETS, OVERLOAD, OverloadPlan, QueueFillingProbe, one_way_delay};
use crate::report::{CodepointMarkingReport, MarkingThresholdReport, QueueMarkingKind, QueueMarkingReport};
use kumade_packet::Ecn;
use kumade_probe_train::{DsFieldPacket, DsFieldRecord, DsFieldTrain, Train};
use kumade_units::{Rate, Span, Time};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// Trains of a codepoint.
const MAX_TRAINS: u32 = 2;
/// What stamps may be off, …
const STAMP_ERROR: Span = Span::from_micros(50);
/// … and how much faster one clock may run than the other, between two adjustments.
const MAX_CLOCK_DRIFT: f64 = 100e-6;
/// Where the least delay is longer by more than this and two packets' transmission than the least that was ever seen, other traffic keeps a queue,
/// in which all packets wait.
const MAX_UNQUEUED_EXCESS: Span = Span::from_micros(500);
/// Likewise where more than this part of those packets come with CE that should find no queue.
const MAX_MARKED_LEAD_PART: f64 = 0.75;
/// Longer queueing delays are those of classic queues: the shortest target in use is CoDel's (RFC 8289), L4S's is a fifth of it.
const MAX_SHALLOW_DELAY: Span = Span::from_millis(5);
/// A queue that does not come to this says nothing: packets of no queue differ as much.
const MIN_QUEUE: Span = Span::from_millis(1);
/// ECT(0) is not marked where it is by less than this part of what ECT(1) is at the same delays, and chance hardly has it so.
const MAX_UNMARKED_PART: f64 = 0.2;

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
    plan: OverloadPlan,
    /// In the order in which they are sent.
    order: Vec<Ecn>,
    /// As [`CODEPOINTS`].
    tallies: [CodepointTally; 3],
    pending: Option<Ecn>,
    /// The least delay of any packet in this direction, by both clocks.
    least_delay: Option<Span>,
}

impl MarkingProbe {
    /// Of a direction whose narrow link serves packets at this rate, or leaves it, with packets of so many bytes at most, and codepoints that
    /// arrive as they were sent. The least delay that was seen is by the same clocks.
    pub(crate) fn new(
        rate: Rate,
        max_packet: u32,
        least_delay: Option<Span>,
        is_kept: impl Fn(Ecn) -> bool,
        seed: u64,
    ) -> Self {
        let mut order: Vec<Ecn> = CODEPOINTS.into_iter().filter(|ecn| is_kept(*ecn)).collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        let plan = OverloadPlan::new(rate, max_packet);
        MarkingProbe { plan, order, tallies: Default::default(), pending: None, least_delay }
    }

    fn is_wanted(&self, round: u32, ecn: Ecn) -> bool {
        let tally = &self.tallies[place(ecn)];
        tally.trains == round && (round == 0 || tally.marked() > 0)
    }

    /// What it comes to; none where no train has arrived.
    pub(crate) fn report(&self) -> Option<QueueMarkingReport> {
        let arrived = || self.tallies.iter().flat_map(|tally| tally.arrived.iter().flatten());
        let least = arrived().map(|packet| packet.delay).min()?;
        let (first, last) = (arrived().map(|packet| packet.sent).min()?, arrived().map(|packet| packet.sent).max()?);
        // Queues differ in whether a packet's own transmission counts.
        let error =
            STAMP_ERROR + self.plan.transmission + Span::from_secs_f64((last - first).as_secs_f64() * MAX_CLOCK_DRIFT);
        let unqueued = MAX_UNQUEUED_EXCESS + self.plan.transmission * 2;
        let standing = self.least_delay.map_or(Span::ZERO, |seen| (least - seen - unqueued).max(Span::ZERO));
        let views = [0, 1, 2].map(|place| CodepointView::new(&self.tallies[place], least, [error, error + standing]));
        let looked_at = CODEPOINTS.iter().zip(&views).filter(|(ecn, _)| self.order.contains(*ecn));
        let codepoints = looked_at.map(|(ecn, view)| view.report(*ecn)).collect();
        let kind = match self.is_lead_marked() {
            true => QueueMarkingKind::NotSure,
            false => classify_marking(&views[0], &views[1]),
        };
        Some(QueueMarkingReport { kind, codepoints })
    }

    /// More than that is not served of trains for a link of this rate.
    pub(crate) fn max_served_rate(rate: Rate) -> Rate {
        Rate::from_f64(rate.as_f64() * OVERLOAD as f64)
    }

    /// The rate at which the link has served these packets while they waited in its queue; none where too few did.
    pub(crate) fn served_rate(&self) -> Option<Rate> {
        let trains = || self.tallies.iter().flat_map(|tally| &tally.arrived);
        let least = trains().flatten().map(|packet| packet.delay).min()?;
        let mut rates: Vec<Rate> =
            trains().filter_map(|train| self.plan.served_rate(&waiting_arrivals(train, least))).collect();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied()
    }

    /// Whether packets that should find no queue were marked.
    fn is_lead_marked(&self) -> bool {
        let capable = CODEPOINTS.iter().zip(&self.tallies).filter(|(ecn, _)| **ecn != Ecn::NotEct);
        let trains = capable.flat_map(|(_, tally)| &tally.arrived);
        let lead: Vec<_> = trains.flat_map(|train| train.iter().take(LEAD_PACKETS as usize)).collect();
        let marked = lead.iter().filter(|packet| packet.ecn == Ecn::Ce).count();
        marked as f64 > lead.len() as f64 * MAX_MARKED_LEAD_PART
    }
}

impl QueueFillingProbe for MarkingProbe {
    fn next_train(&mut self) -> Option<(Span, DsFieldTrain)> {
        let mut rounds = (0..MAX_TRAINS).flat_map(|round| self.order.iter().map(move |ecn| (round, *ecn)));
        let (_, ecn) = rounds.find(|(round, ecn)| self.is_wanted(*round, *ecn))?;
        self.pending = Some(ecn);
        self.tallies[place(ecn)].trains += 1;
        let train = Train { segments: vec![self.plan.lead(), self.plan.burst()] };
        let packets = train.packet_count();
        Some((self.plan.service_time(packets), DsFieldTrain { ds_fields: vec![ecn as u8; packets as usize], train }))
    }

    fn record_train(&mut self, record: &DsFieldRecord) {
        let Some(ecn) = self.pending.take() else { return };
        let tally = &mut self.tallies[place(ecn)];
        tally.sent += record.packets.iter().filter(|packet| packet.sent.is_some()).count() as u32;
        tally.arrived.push(record.packets.iter().filter_map(ArrivedPacket::from_packet).collect());
    }
}

/// When packets arrived that have waited, by the receiver's clock as far as differences go.
fn waiting_arrivals(train: &[ArrivedPacket], least: Span) -> Vec<Time> {
    let waiting = train.iter().filter(|packet| packet.delay - least > MIN_QUEUE);
    let mut arrivals: Vec<Time> = waiting.map(|packet| packet.sent + packet.delay).collect();
    arrivals.sort_unstable();
    arrivals
}

fn place(ecn: Ecn) -> usize {
    CODEPOINTS.iter().position(|other| *other == ecn).unwrap_or(0)
}

impl ArrivedPacket {
    fn from_packet(packet: &DsFieldPacket) -> Option<Self> {
        let (sent, delay) = one_way_delay(packet)?;
        Some(ArrivedPacket { sent, delay, ecn: Ecn::from_bits(packet.arrival?.ds_field? & 0b11) })
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
    /// Delays are counted from `least`, up to errors down and up.
    fn new(tally: &CodepointTally, least: Span, errors: [Span; 2]) -> Self {
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
            low: (found.low - errors[0]).max(Span::ZERO),
            high: found.high + errors[1],
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

    /// Packets that waited for this long at least, and those of them that were marked, in place of lost.
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

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::DsFieldArrival;

    /// What a link of 50 Mbit/s makes of a train that marks a packet of this codepoint if it has waited this long.
    fn served(train: &DsFieldTrain, marks: fn(Ecn, f64) -> bool) -> DsFieldRecord {
        let (mut free, mut arrivals) = (Time::ZERO, Vec::new());
        for (index, (packet, octet)) in (0..).zip(train.train.packets().zip(&train.ds_fields)) {
            let sent = Time::ZERO + packet.offset;
            let waited = (free - sent).max(Span::ZERO);
            free = free.max(sent) + Rate::from_mbit(50).time_for(packet.size.into());
            let is_marked = marks(Ecn::from_bits(*octet), waited.as_secs_f64() * 1e3);
            let ds_field = Some(if is_marked { Ecn::Ce as u8 } else { *octet });
            // The clocks differ.
            arrivals.push(DsFieldArrival { index, received: Some(free + Span::from_secs(7)), ds_field });
        }
        let sent = (0..).zip(train.train.packets()).map(|(index, packet)| (index, Time::ZERO + packet.offset));
        DsFieldRecord::new(train.ds_fields.len(), sent, &arrivals)
    }

    fn report(is_kept: fn(Ecn) -> bool, marks: fn(Ecn, f64) -> bool) -> QueueMarkingReport {
        let mut probe = MarkingProbe::new(Rate::from_mbit(50), 1500, None, is_kept, 1);
        while let Some((_, train)) = probe.next_train() {
            assert_eq!(train.check(), Ok(()));
            probe.record_train(&served(&train, marks));
        }
        probe.report().unwrap()
    }

    #[test]
    fn queues_are_told_apart_by_which_codepoints_they_mark_and_when() {
        let kind = |marks| report(|_| true, marks).kind;
        assert_eq!(kind(|ecn, waited| ecn == Ecn::Ect1 && waited > 1.0), QueueMarkingKind::L4s);
        assert_eq!(kind(|ecn, waited| ecn == Ecn::Ect1 && waited > 1.0 || ecn == Ecn::Ect0 && waited > 15.0), {
            QueueMarkingKind::L4s
        });
        assert_eq!(kind(|ecn, waited| ecn != Ecn::NotEct && waited > 2.0), QueueMarkingKind::Shallow);
        assert_eq!(kind(|ecn, waited| ecn != Ecn::NotEct && waited > 15.0), QueueMarkingKind::Classic);
        assert_eq!(kind(|_, _| false), QueueMarkingKind::NoneSeen);
        // Whatever the delay, or at a delay that is neither short nor long.
        assert_eq!(kind(|ecn, _| ecn != Ecn::NotEct), QueueMarkingKind::NotSure);
        assert_eq!(kind(|ecn, waited| ecn != Ecn::NotEct && waited > 5.0), QueueMarkingKind::NotSure);
    }

    #[test]
    fn each_codepoint_is_reported_with_what_it_met_and_changed_ones_are_not_sent() {
        let found = report(|ecn| ecn != Ecn::Ect0, |ecn, waited| ecn == Ecn::Ect1 && waited > 1.0);
        let marks: Vec<_> =
            found.codepoints.iter().map(|codepoint| (codepoint.mark.as_str(), codepoint.marked > 0)).collect();
        assert_eq!(marks, [("ECT(1)", true), ("Not-ECT", false)]);
        let from = found.codepoints[0].marked_from.unwrap();
        assert!(from.low_seconds <= 0.001 && from.high_seconds >= 0.001 && from.high_seconds < 0.002, "{from:?}");
        assert_eq!(from.packets_above, from.marked_above);
        assert_eq!(found.kind, QueueMarkingKind::NotSure, "of ECT(0), nothing is known");
        assert!(found.codepoints[1].max_queueing_delay_seconds.unwrap() > 0.03);
    }

    #[test]
    fn the_rate_of_the_link_is_that_at_which_waiting_packets_arrive_whatever_was_known() {
        for known in [20, 50, 3000] {
            let mut probe = MarkingProbe::new(Rate::from_mbit(known), 1500, None, |_| true, 1);
            assert_eq!(probe.served_rate(), None);
            while let Some((_, train)) = probe.next_train() {
                probe.record_train(&served(&train, |_, _| false));
            }
            let rate = probe.served_rate().unwrap().as_f64();
            assert!((rate / 50e6 - 1.0).abs() < 0.02, "{known}: {rate}");
        }
    }

    /// Of 6 ms, from which all packets would be marked that others make wait.
    #[test]
    fn a_queue_that_others_keep_is_no_short_threshold() {
        let least_seen = Span::from_secs(7) - Span::from_millis(6);
        let mut probe = MarkingProbe::new(Rate::from_mbit(50), 1500, Some(least_seen), |_| true, 1);
        while let Some((_, train)) = probe.next_train() {
            probe.record_train(&served(&train, |ecn, waited| ecn != Ecn::NotEct && waited > 1.0));
        }
        let found = probe.report().unwrap();
        assert_eq!(found.kind, QueueMarkingKind::NotSure, "{found:?}");
        let from = found.codepoints[0].marked_from.unwrap();
        assert!(from.high_seconds > 0.006, "{from:?}");
    }

    #[test]
    fn nothing_is_said_of_trains_that_did_not_arrive() {
        let mut probe = MarkingProbe::new(Rate::from_mbit(50), 1500, None, |_| true, 1);
        while let Some((_, train)) = probe.next_train() {
            probe.record_train(&DsFieldRecord::new(train.ds_fields.len(), [], &[]));
        }
        assert_eq!(probe.report(), None);
    }
}
