//! What the queue of the narrow link does to packets, once the rate of a direction is known: which it marks, and which wait elsewhere.

use super::Measurement;
use super::phase::{Phase, QueuePart};
use crate::event::Event;
use crate::path::{LastingQueueProbe, MarkingProbe, PathObservation, QueueClassProbe, QueueFillingProbe};
use crate::report::{DirectionReport, Treatment};
use crate::step::{DsFieldRequest, Step};
use kumade_packet::Ecn;
use kumade_probe_train::{DsFieldRecord, DsFieldTrain};
use kumade_units::{Direction, Rate, Span, Time};

/// Receive timeout, beyond a round trip and the time that the link takes for a train: for the queue of others.
const TIMEOUT: Span = Span::from_millis(250);

/// Some packets in a row may have arrived faster than the link serves others: where nothing else is known of its rate, it is taken for half of
/// that. A train that is twice as fast as the link fills its queue as well as one that is four times as fast, in more time.
const ARRIVAL_PART: f64 = 0.5;

impl Measurement {
    /// Reports what became of the train that [`next`](Self::next) requested.
    pub fn ds_fields_delivered(&mut self, record: &DsFieldRecord) {
        let Some(pending) = self.queues.pending.take() else { return };
        if let Some(probe) = self.queues.probe(pending) {
            probe.record_train(record);
        }
    }

    /// Reports that it could not be sent or received, and why.
    pub fn ds_fields_failed(&mut self, reason: impl Into<String>) {
        if let Some(pending) = self.queues.pending {
            self.queues.fail(pending, &reason.into());
        }
    }

    /// The next train, or what follows.
    pub(super) fn next_queue_train(
        &mut self,
        part: QueuePart,
        direction: Direction,
        now: Time,
    ) -> (Phase, Option<Step>) {
        let is_wanted = match part {
            QueuePart::Marking => self.plan.path,
            QueuePart::Lasting => self.plan.path && self.plan.load.is_some(),
            QueuePart::Classes => self.plan.queues,
        };
        if !is_wanted || !self.plan.directions.contains(direction) {
            return (part.next_phase(direction), None);
        }
        let is_first = self.queues.end.is_none();
        if is_first {
            self.queues.end = Some(now + part.max_time());
            if let Err(why) = self.begin_queue_part(part, direction) {
                self.queues.fail((part, direction), &why);
            }
        }
        let queues = &mut self.queues;
        // A train whose record has not come is given up.
        let is_lost = queues.pending.take().is_some();
        let is_over = queues.is_over || is_lost;
        let next = queues.probe((part, direction)).filter(|_| !is_over).and_then(QueueFillingProbe::next_train);
        let is_in_time = |(wait, train): &(Span, DsFieldTrain)| {
            queues.end.is_none_or(|end| now + *wait + train.train.duration() <= end)
        };
        let is_too_long = next.as_ref().is_some_and(|next| !is_in_time(next));
        if is_first && is_too_long {
            queues.fail((part, direction), "the link is so slow that the trains would take too long");
        }
        let Some((wait, train)) = next.filter(|_| !is_too_long) else {
            (queues.end, queues.is_over) = (None, false);
            return (part.next_phase(direction), None);
        };
        queues.pending = Some((part, direction));
        let timeout = self.session.round_trip + wait + TIMEOUT;
        let request = DsFieldRequest { direction, wait, train, timeout };
        (Phase::Queue(part, direction), Some(Step::SendDsFields(request)))
    }

    /// Without a probe where other parts of the report say why; the error says why not.
    fn begin_queue_part(&mut self, part: QueuePart, direction: Direction) -> Result<(), String> {
        if self.marking.failure.is_some() || self.path_facts.old_far_end.is_some() {
            return Ok(());
        }
        let report = if direction == Direction::Up { &self.up } else { &self.down };
        let rate = report.as_ref().and_then(serving_rate);
        let rate = rate.ok_or("the rate of the narrow link is not known")?;
        let (max_packet, seed, place) = (self.transport.max_packet(), self.plan.seed, direction as usize);
        let max_bytes = match part {
            QueuePart::Marking => {
                self.queues.marking[place] = Some(self.marking_probe(direction, rate)?);
                return Ok(());
            }
            QueuePart::Lasting => {
                self.check_kept_marks(direction, &[Ecn::Ect0])?;
                // Trains that filled the queue have shown it; what may be much more would flood the path.
                let served = self.queues.marking[place].as_ref().and_then(MarkingProbe::served_rate);
                let left = served.or_else(|| report.as_ref().and_then(remaining_rate));
                let left = left.ok_or("the rate of the narrow link is not known")?;
                // Whatever the far end's stamps say: no packets were sent any faster.
                let probe = LastingQueueProbe::new(left.min(MarkingProbe::max_served_rate(rate)), max_packet);
                self.queues.lasting[place].insert(probe).max_bytes()
            }
            QueuePart::Classes => {
                let probe = QueueClassProbe::new(rate, max_packet, seed);
                self.queues.classes[place].insert(probe).max_bytes()
            }
        };
        let max_duration_seconds = part.max_time().as_secs_f64();
        self.events.push_back(Event::QueuesBegin { direction, max_bytes, max_duration_seconds });
        Ok(())
    }

    fn marking_probe(&self, direction: Direction, rate: Rate) -> Result<MarkingProbe, String> {
        self.check_kept_marks(direction, &[Ecn::Ect0, Ecn::Ect1])?;
        let (least_delay, is_kept) = (self.delays.min_delay(direction), |ecn| self.is_mark_kept(direction, ecn));
        Ok(MarkingProbe::new(rate, self.transport.max_packet(), least_delay, is_kept, self.plan.seed))
    }

    /// Whether CE and one of these arrive as they were sent, so that it can be seen what a queue does.
    fn check_kept_marks(&self, direction: Direction, ect: &[Ecn]) -> Result<(), String> {
        match self.is_mark_kept(direction, Ecn::Ce) && ect.iter().any(|ecn| self.is_mark_kept(direction, *ecn)) {
            true => Ok(()),
            false => Err("CE, or ECT, does not arrive as it was sent".to_owned()),
        }
    }

    fn is_mark_kept(&self, direction: Direction, ecn: Ecn) -> bool {
        let marks = self.marking.probes.as_ref().map(|probes| probes[direction as usize].ecn_reports());
        let passes = |treatment| matches!(treatment, Treatment::Kept | Treatment::PartlyRemarked);
        marks.iter().flatten().any(|mark| mark.value == ecn as u8 && passes(mark.treatment))
    }

    /// For the section on the path.
    pub(super) fn observe_queues<'m>(&'m self, observation: PathObservation<'m>) -> PathObservation<'m> {
        PathObservation {
            queue_marking: self.queues.marking.each_ref().map(Option::as_ref),
            lasting_queues: self.queues.lasting.each_ref().map(Option::as_ref),
            queue_classes: self.queues.classes.each_ref().map(Option::as_ref),
            no_queues: &self.queues.failures,
            ..observation
        }
    }
}

/// The rate at which the narrow link serves packets, or else what it leaves.
fn serving_rate(report: &DirectionReport) -> Option<Rate> {
    let capacity = || report.capacity.as_ref()?.bottleneck_bits_per_second.map(|rate| rate.high);
    let available = || report.available_bits_per_second.map(|rate| rate.high);
    let fair_share = || report.fair_share_bits_per_second.map(|rate| rate.high);
    let known = capacity().or_else(available).or_else(fair_share);
    let arrival = || report.fastest_arrival_bits_per_second.map(|rate| Rate::from_f64(rate.as_f64() * ARRIVAL_PART));
    let rate = known.or(report.at_most_bits_per_second).or(report.at_least_bits_per_second).or_else(arrival);
    rate.filter(|rate| *rate > Rate::ZERO)
}

/// The rate that the narrow link leaves to one flow.
fn remaining_rate(report: &DirectionReport) -> Option<Rate> {
    let left = report.available_bits_per_second.or(report.fair_share_bits_per_second).map(|rate| rate.high);
    left.filter(|rate| *rate > Rate::ZERO)
}
