//! How far the look at the queue of the narrow link is.

use super::phase::{Phase, QueuePart};
use crate::path::{LastingQueueProbe, MarkingProbe, QueueClassProbe, QueueFillingProbe};
use kumade_units::{Direction, Span, Time};

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Of the directions that were looked at.
    pub(super) marking: [Option<MarkingProbe>; 2],
    pub(super) lasting: [Option<LastingQueueProbe>; 2],
    pub(super) classes: [Option<QueueClassProbe>; 2],
    /// Why others were not, or not to the end.
    pub(super) failures: Vec<String>,
    /// No train of this part and direction begins after this; none before the first.
    pub(super) end: Option<Time>,
    /// What the train is for that was requested, until its record arrives.
    pub(super) pending: Option<(QueuePart, Direction)>,
    /// Whether nothing more is to be sent in this part and direction.
    pub(super) is_over: bool,
}

impl QueuePart {
    pub(super) fn max_time(self) -> Span {
        match self {
            QueuePart::Marking => Span::from_secs(2),
            QueuePart::Lasting => Span::from_secs(4),
            QueuePart::Classes => Span::from_secs(10),
        }
    }

    fn description(self) -> &'static str {
        match self {
            QueuePart::Marking => "which packets a queue marks",
            QueuePart::Lasting => "which packets a queue marks that lasts",
            QueuePart::Classes => "queues by DSCP",
        }
    }

    /// What follows.
    pub(super) fn next_phase(self, direction: Direction) -> Phase {
        match (self, direction) {
            (QueuePart::Marking, _) => Phase::Queue(QueuePart::Lasting, direction),
            (QueuePart::Lasting, _) => Phase::Queue(QueuePart::Classes, direction),
            (QueuePart::Classes, Direction::Up) => Phase::Direction(Direction::Down),
            (QueuePart::Classes, Direction::Down) => Phase::Load(Direction::Up),
        }
    }
}

impl Queues {
    pub(super) fn fail(&mut self, (part, direction): (QueuePart, Direction), why: &str) {
        (self.is_over, self.pending) = (true, None);
        self.failures.push(format!("{}, {direction}: {why}", part.description()));
    }

    pub(super) fn probe(&mut self, (part, direction): (QueuePart, Direction)) -> Option<&mut dyn QueueFillingProbe> {
        fn of_probe<P: QueueFillingProbe>(probe: &mut Option<P>) -> Option<&mut dyn QueueFillingProbe> {
            probe.as_mut().map(|probe| probe as &mut dyn QueueFillingProbe)
        }
        match part {
            QueuePart::Marking => of_probe(&mut self.marking[direction as usize]),
            QueuePart::Lasting => of_probe(&mut self.lasting[direction as usize]),
            QueuePart::Classes => of_probe(&mut self.classes[direction as usize]),
        }
    }
}
