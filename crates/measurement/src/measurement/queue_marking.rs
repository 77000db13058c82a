//! What the queue of the narrow link does to marks, once the rate of a direction is known.

use super::Measurement;
use super::phase::Phase;
use crate::path::{MarkingProbe, PathObservation};
use crate::report::{DirectionReport, Treatment};
use crate::step::{DsFieldRequest, Step};
use kumade_packet::Ecn;
use kumade_probe_train::DsFieldRecord;
use kumade_units::{Direction, Rate, Span, Time};

/// No train of a direction begins after this time.
const MAX_TIME: Span = Span::from_millis(2000);
/// Receive timeout, beyond a round trip: for the queue that a train builds, and that of others.
const TIMEOUT: Span = Span::from_millis(250);

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct QueueMarking {
    /// Of the directions that were looked at.
    pub(super) probes: [Option<MarkingProbe>; 2],
    /// Why others were not, or not to the end.
    pub(super) failures: Vec<String>,
    end: Option<Time>,
    /// The direction of the train that was requested, until its record arrives.
    pending: Option<Direction>,
    /// Whether nothing more is to be sent in this direction.
    is_over: bool,
}

impl QueueMarking {
    fn fail(&mut self, direction: Direction, why: &str) {
        (self.is_over, self.pending) = (true, None);
        self.failures.push(format!("which packets a queue marks, {direction}: {why}"));
    }
}

impl Measurement {
    /// Reports what became of the train that [`next`](Self::next) requested.
    pub fn ds_fields_delivered(&mut self, record: &DsFieldRecord) {
        let Some(direction) = self.queue_marking.pending.take() else { return };
        if let Some(probe) = &mut self.queue_marking.probes[direction as usize] {
            probe.record_train(record);
        }
    }

    /// Reports that it could not be sent or received, and why.
    pub fn ds_fields_failed(&mut self, reason: impl Into<String>) {
        if let Some(direction) = self.queue_marking.pending {
            self.queue_marking.fail(direction, &reason.into());
        }
    }

    /// The next train, or what follows.
    pub(super) fn next_queue_marking(&mut self, direction: Direction, now: Time) -> (Phase, Option<Step>) {
        if !self.plan.path || !self.plan.directions.contains(direction) {
            return (phase_after_marking(direction), None);
        }
        if self.queue_marking.end.is_none() {
            self.queue_marking.end = Some(now + MAX_TIME);
            match self.marking_probe(direction) {
                Ok(probe) => self.queue_marking.probes[direction as usize] = probe,
                Err(why) => self.queue_marking.fail(direction, &why),
            }
        }
        let marking = &mut self.queue_marking;
        // A train whose record has not come is given up.
        let is_lost = marking.pending.take().is_some();
        let is_late = marking.end.is_some_and(|end| now > end);
        let probe = marking.probes[direction as usize].as_mut().filter(|_| !marking.is_over && !is_lost && !is_late);
        let next = probe.and_then(|probe| Some((probe.drain_time(), probe.next_train()?)));
        let Some((wait, train)) = next else {
            (marking.end, marking.is_over) = (None, false);
            return (phase_after_marking(direction), None);
        };
        marking.pending = Some(direction);
        let timeout = self.session.round_trip + wait + TIMEOUT;
        let request = DsFieldRequest { direction, wait, train, timeout };
        (Phase::QueueMarking(direction), Some(Step::SendDsFields(request)))
    }

    /// None where other parts of the report say why; the error says why not.
    fn marking_probe(&self, direction: Direction) -> Result<Option<MarkingProbe>, String> {
        if self.marking.failure.is_some() || self.path_facts.old_far_end.is_some() {
            return Ok(None);
        }
        let Some(marks) = &self.marking.probes else { return Ok(None) };
        let marks = marks[direction as usize].ecn_reports();
        let is_kept = |ecn: Ecn| {
            let passes = |treatment| matches!(treatment, Treatment::Kept | Treatment::PartlyRemarked);
            marks.iter().any(|mark| mark.value == ecn as u8 && passes(mark.treatment))
        };
        if !is_kept(Ecn::Ce) || ![Ecn::Ect0, Ecn::Ect1].into_iter().any(is_kept) {
            return Err("CE, or ECT, does not arrive as it was sent".to_owned());
        }
        let report = if direction == Direction::Up { &self.up } else { &self.down };
        let rate = report.as_ref().and_then(serving_rate).ok_or("the rate of the narrow link is not known")?;
        Ok(Some(MarkingProbe::new(rate, self.transport.max_packet(), is_kept, self.plan.seed)))
    }

    /// For the section on the path.
    pub(super) fn observe_queue_marking<'m>(&'m self, observation: PathObservation<'m>) -> PathObservation<'m> {
        let queue_marking = self.queue_marking.probes.each_ref().map(Option::as_ref);
        PathObservation { queue_marking, no_queue_marking: &self.queue_marking.failures, ..observation }
    }
}

/// The rate at which the narrow link serves packets, or else what it leaves.
fn serving_rate(report: &DirectionReport) -> Option<Rate> {
    let capacity = || report.capacity.as_ref()?.bottleneck_bits_per_second.map(|rate| rate.high);
    let available = || report.available_bits_per_second.map(|rate| rate.high);
    let rate = capacity().or_else(available).or(report.at_most_bits_per_second).or(report.at_least_bits_per_second);
    rate.filter(|rate| *rate > Rate::ZERO)
}

/// What follows.
fn phase_after_marking(direction: Direction) -> Phase {
    match direction {
        Direction::Up => Phase::Direction(Direction::Down),
        Direction::Down => Phase::Load(Direction::Up),
    }
}
