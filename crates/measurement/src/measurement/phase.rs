//! What is being measured, and what has been found by then.

use crate::delay::IdleTrains;
use crate::ecmp::EcmpProbe;
use crate::interpretation::aggregation::AggregationCycle;
use crate::interpretation::flow_queueing_test::{FlowQueueingTrain, ServiceOrder, ServiceOrderResult};
use crate::report::CapacityReport;
use crate::series::{Cost, TimeWindow, TrainSeries};
use kumade_estimate::{
    Capacity, CapacityProbe, Method, Outcome, PolicingProbe, PolicingResult, UtilizationProbe, VaryingLinkProbe,
};
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Rate, Span, Time};

/// What is being measured.
pub(super) enum Phase {
    /// No train has been sent yet.
    NotStarted,
    /// The delay of the unloaded path: what is left, and the next direction.
    IdleDelay(IdleTrains, Direction),
    /// This direction is next, if it is part of the plan.
    Direction(Direction),
    /// Whether connections take several links in this direction.
    LoadBalancing(Direction, EcmpProbe),
    /// That is known, and the next of them is to be measured.
    NextLink(Direction),
    Capacity(Box<CapacityPhase>),
    Available(Box<AvailablePhase>),
    /// Whether the path is full, before a longer train is sent.
    UtilizationBeforePolicing(Box<FullnessPhase>),
    Policing(Box<PolicingPhase>),
    FlowQueueing(Box<FlowQueueingPhase>),
    Utilization(Box<UtilizationPhase>),
    VaryingLink(Box<VaryingLinkPhase>),
    /// This direction is done, and this part of the look at its queue is next.
    Queue(QueuePart, Direction),
    /// Both directions are done, and the path is to be filled in this one, if that is part of the plan.
    Load(Direction),
    /// It is being filled.
    Loading(Direction, Span),
    Finished,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuePart {
    /// Which packets are marked with CE.
    Marking,
    /// Which are marked that have waited for long.
    Lasting,
    /// Which codepoints have queues of their own.
    Classes,
}

pub(super) struct CapacityPhase {
    pub(super) series: TrainSeries,
    pub(super) probe: CapacityProbe,
}

pub(super) struct AvailablePhase {
    pub(super) series: TrainSeries,
    pub(super) method: Box<dyn Method>,
    /// When each of its trains was sent.
    pub(super) train_windows: Vec<TimeWindow>,
    /// The method's estimate after the last train.
    pub(super) current_estimate: Option<Rate>,
    /// The result of the capacity phase.
    pub(super) capacity: Option<Box<CapacityResult>>,
    /// In which order connections are served; none where no train has been sent to tell.
    pub(super) service_order: Option<ServiceOrder>,
    /// When the method's first packet was sent, and the time that the value is an average over, as soon as the method has ended.
    pub(super) window: Option<ValueWindow>,
}

/// The time that a value is an average over: of the trains that it follows from.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueWindow {
    /// When the first packet of the method's first train was sent.
    pub(super) method_began: Time,
    pub(super) time: TimeWindow,
}

impl ValueWindow {
    /// Of a method that sent trains at these times, of which the first and the last one that count have these numbers; none for all. None
    /// without any.
    pub(super) fn of_method(trains: &[TimeWindow], used: Option<(usize, usize)>) -> Option<Self> {
        let (first, last) = (trains.first()?, trains.len() - 1);
        let used = used.map_or(trains, |(from, to)| &trains[from.min(last)..=to.min(last)]);
        let time = used.iter().copied().reduce(TimeWindow::united)?;
        Some(ValueWindow { method_began: first.began, time })
    }
}

pub(super) struct PolicingPhase {
    pub(super) available: AvailablePhase,
    pub(super) outcome: Outcome,
    pub(super) probe: PolicingProbe,
    /// What was known before long trains, where the outcome is theirs.
    pub(super) interpreted: Option<InterpretedOutcome>,
    /// What longer trains have shown before.
    pub(super) earlier_policing: Option<PolicingResult>,
}

pub(super) struct FullnessPhase {
    pub(super) policing_phase: PolicingPhase,
    /// The rate of the narrow link.
    pub(super) narrow_link: Estimate<Rate>,
    pub(super) probe: UtilizationProbe,
}

pub(super) struct FlowQueueingPhase {
    pub(super) available: AvailablePhase,
    pub(super) outcome: Outcome,
    pub(super) policing: Option<PolicingResult>,
    pub(super) train: FlowQueueingTrain,
    pub(super) order_so_far: ServiceOrderResult,
}

pub(super) struct UtilizationPhase {
    pub(super) available: AvailablePhase,
    pub(super) policing: Option<PolicingResult>,
    pub(super) interpreted: InterpretedOutcome,
    /// The rate of the narrow link.
    pub(super) narrow_link: Estimate<Rate>,
    pub(super) probe: UtilizationProbe,
}

pub(super) struct VaryingLinkPhase {
    pub(super) available: AvailablePhase,
    pub(super) policing: Option<PolicingResult>,
    pub(super) interpreted: InterpretedOutcome,
    /// Why they are sent.
    pub(super) cycle: AggregationCycle,
    pub(super) probe: VaryingLinkProbe,
}

/// A method's outcome in the light of everything else, with the fair share of one flow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InterpretedOutcome {
    pub(super) outcome: Outcome,
    pub(super) fair_share: Option<Estimate<Rate>>,
    /// Whether flows may have queues of their own, for all that is known.
    pub(super) is_flow_queueing_undecided: bool,
    /// Whether delays vary on the idle path.
    pub(super) delays_vary: bool,
    /// What kept trains from telling the rate, if that is the reason.
    pub(super) cycle: Option<AggregationCycle>,
}

/// The result of a capacity phase, its report, and its cost.
pub(super) struct CapacityResult {
    pub(super) capacity: Capacity,
    pub(super) report: CapacityReport,
    pub(super) cost: Cost,
    /// The fastest rate at which anything arrived.
    pub(super) fastest_arrival: Option<Rate>,
}

impl AvailablePhase {
    /// Says what the value was before trains of this time, and what it is in their light: where it is another one it follows from both, or from
    /// them alone where there was none.
    pub(super) fn update_window(&mut self, [before, after]: [Option<Estimate<Rate>>; 2], time: Option<TimeWindow>) {
        match (&mut self.window, time) {
            (Some(window), Some(time)) if before != after && before.is_some() => window.time = window.time.united(time),
            _ if before != after => self.replace_window(time),
            _ => {}
        }
    }

    /// Says that the value follows from trains of this time alone.
    pub(super) fn replace_window(&mut self, time: Option<TimeWindow>) {
        if let (Some(window), Some(time)) = (&mut self.window, time) {
            window.time = time;
        }
    }

    /// The committed rate of the token bucket, if one was detected.
    pub(super) fn shaped_rate(&self) -> Option<Rate> {
        Some(self.capacity.as_ref()?.capacity.shaping().shaper()?.committed_rate.value)
    }
}
