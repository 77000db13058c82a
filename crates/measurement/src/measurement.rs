//! One measurement, from the opening of a transport to the report.

mod checks;
mod direction;
mod hop_tracing;
mod marking;
mod next_hops;
mod path;
mod phase;
mod port_probing;
mod ports;
mod queue_probing;
mod queues;

use crate::delay::{self, DelaySamples, IdleTrains};
use crate::ecmp::{EcmpLinks, EcmpProbe, EcmpProbeResult, EcmpTrainLayout};
use crate::event::Event;
use crate::interpretation::policing;
use crate::interpretation::stamp_scatter::{StampError, widen_by_scatter, widen_capacity};
use crate::interpretation::utilization;
use crate::load::{self, LoadRecord, LoadRequest};
use crate::path::PathFacts;
use crate::plan::{MeasurementPlan, Session};
use crate::receive_timeout::ReceiveTimeout;
use crate::report::{CapacityReport, DirectionReport, LoadReason, LoadReport, Report, SCHEMA, without_contradictions};
use crate::series::{Cost, DeliveredTrain, TimeWindow, TrainSeries};
use crate::step::{Opened, Purpose, SendRequest, Step};
use crate::transport::{TransportInUse, TransportNeed};
use direction::MeasurementContext;
use hop_tracing::HopTracing;
use kumade_estimate::{
    CapacityConfig, CapacityProbe, Conditions, Outcome, PolicingResult, Reason, RequestedBudget, Shaping,
};
use kumade_probe_train::{Train, Transport};
use kumade_units::{Direction, Rate, Span, Time};
use marking::Marking;
use phase::{
    AvailablePhase, CapacityPhase, CapacityResult, FullnessPhase, InterpretedOutcome, Phase, PolicingPhase, QueuePart,
    ValueWindow,
};
use port_probing::{IdleFlowSearch, PortProbing};
use queue_probing::Queues;
use std::collections::VecDeque;
use std::mem;

/// Receive timeout of a packet size test, beyond a round trip, …
const PACKET_SIZE_TIMEOUT: Span = Span::from_millis(500);
/// … and beyond so many, up to a bound: on a slow link the round trip of a short message is its transmission, and a long packet takes
/// as many times that as it is longer. So do those of the other direction's test, which the request for this one waits behind.
const PACKET_SIZE_ROUND_TRIPS: i64 = 64;
const MAX_PACKET_SIZE_TIMEOUT: Span = Span::from_secs(3);
/// Approximate number of trains of a capacity measurement, each of which takes a round trip beyond its duration.
const EXPECTED_CAPACITY_TRAINS: i64 = 10;

/// A measurement may take longer by this than methods know of, where connections have to recover from what they lose.
const MAX_RECOVERY_TIME: Span = Span::from_secs(10);

/// With fewer connections, links side by side are not looked for.
const MIN_CONNECTIONS: u32 = 24;

/// One measurement as a state machine. See the crate's loop contract.
pub struct Measurement {
    plan: MeasurementPlan,
    session: Session,
    transport: TransportInUse,
    timeout: ReceiveTimeout,
    delays: DelaySamples,
    phase: Phase,
    /// The trains of the latest purpose: in which direction, and when.
    latest_trains: Option<(Direction, Purpose, TimeWindow)>,
    /// The train that was requested, until its record arrives.
    pending: Option<PendingTrain>,
    /// How long connections may still retransmit what the last train lost, from its end on.
    recovery_time: Span,
    /// Whether connections could not send much of the last train.
    are_connections_held_back: bool,
    /// For how long trains have waited for that so far.
    time_recovered: Span,
    /// The links side by side that connections take in the direction that is being measured, if there are several.
    ecmp_links: Option<EcmpLinks>,
    events: VecDeque<Event>,
    /// What the driver knows of the path.
    path_facts: PathFacts,
    /// Marked packets, and what became of them.
    marking: Marking,
    /// Trains that fill the queue of the narrow link, and what became of their packets.
    queues: Queues,
    /// The routers on the way, and what they answered.
    hop_tracing: HopTracing,
    /// Ports that are tried.
    port_probing: PortProbing,
    /// Flows that are idle.
    idle_flows: IdleFlowSearch,
    up: Option<DirectionReport>,
    down: Option<DirectionReport>,
}

/// A train that was requested.
struct PendingTrain {
    direction: Direction,
    purpose: Purpose,
    train: Train,
    /// When its first packet is sent, by the clock of `now`.
    start: Time,
    /// How it was laid out over connections, if it is for some of them only.
    layout: Option<EcmpTrainLayout>,
}

impl Measurement {
    /// A measurement that follows this plan.
    pub fn new(plan: MeasurementPlan, session: Session) -> Self {
        Measurement {
            transport: TransportInUse::new(&plan, session.max_connections),
            timeout: ReceiveTimeout::new(session.round_trip),
            delays: DelaySamples::default(),
            phase: Phase::NotStarted,
            latest_trains: None,
            pending: None,
            recovery_time: Span::ZERO,
            are_connections_held_back: false,
            time_recovered: Span::ZERO,
            ecmp_links: None,
            events: VecDeque::new(),
            path_facts: PathFacts::default(),
            marking: Marking::default(),
            queues: Queues::default(),
            hop_tracing: HopTracing::new(),
            port_probing: PortProbing::default(),
            idle_flows: IdleFlowSearch::default(),
            up: None,
            down: None,
            plan,
            session,
        }
    }

    /// The next step. `now` may come from any monotonic clock, always the same one: the time budget counts on it.
    pub fn next(&mut self, now: Time) -> Step {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Step::Progress(event);
            }
            let need = if self.needs_transport() { self.transport.next(now) } else { TransportNeed::Nothing };
            match need {
                TransportNeed::Open(request) => return Step::Open(request),
                TransportNeed::TestPacketSize(direction, train) => {
                    let round_trip = self.session.round_trip;
                    let transmission = (round_trip * PACKET_SIZE_ROUND_TRIPS).min(MAX_PACKET_SIZE_TIMEOUT);
                    let timeout = round_trip + transmission.max(PACKET_SIZE_TIMEOUT);
                    return self.request_train(direction, Purpose::PacketSize, (now, Span::ZERO), train, timeout);
                }
                TransportNeed::Failed(failure) => return Step::Failed(failure),
                TransportNeed::Nothing => {}
            }
            let phase = mem::replace(&mut self.phase, Phase::Finished);
            let (phase, step) = self.advance_phase(phase, now);
            self.phase = phase;
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Reports that the requested transport is open at both ends.
    pub fn transport_opened(&mut self, opened: Opened, now: Time) {
        self.transport.transport_opened(opened, now);
    }

    /// Reports that the requested transport could not be opened, and why.
    pub fn transport_failed(&mut self, reason: impl Into<String>) {
        self.transport.transport_failed(reason.into());
    }

    /// Reports the record of the train that [`next`](Self::next) requested.
    pub fn train_delivered(&mut self, mut carried: DeliveredTrain) {
        let Some(PendingTrain { direction, purpose, train, start, layout }) = self.pending.take() else { return };
        self.transport.train_delivered(&carried);
        let window = carried.window(start);
        let earlier = self.latest_trains.filter(|(to, of, _)| (*to, *of) == (direction, purpose));
        self.latest_trains = Some((direction, purpose, earlier.map_or(window, |(.., earlier)| earlier.united(window))));
        if self.transport.kind() == Transport::Rake {
            self.recovery_time = carried.recovery_time();
            let connections = self.transport.opened_connections() as usize;
            carried.record = carried.record.without_loss_recovery(connections, self.delays.min_delay(direction));
            self.are_connections_held_back = carried.is_held_back_by_losses();
        }
        self.timeout.record_delays(&carried.record, self.delays.min_delay(direction));
        if let Some(layout) = layout {
            carried.record = layout.select_record(&carried.record);
        }
        if let (Some(balanced), Purpose::Capacity | Purpose::AvailableBandwidth) = (&mut self.ecmp_links, purpose) {
            balanced.record_delay(&carried.record);
        }
        match purpose {
            Purpose::PacketSize => {}
            Purpose::IdleDelay => {
                if let Phase::IdleDelay(trains, _) = self.phase
                    && let Some(again) = trains.to_repeat(direction, &carried.record)
                {
                    self.phase = Phase::IdleDelay(again, direction);
                    return;
                }
                if !self.delays.add_idle_train(direction, &carried.record) {
                    self.phase = Phase::Direction(Direction::Up);
                }
            }
            Purpose::LoadBalancing => {
                let Phase::LoadBalancing(_, sounding) = &mut self.phase else { return };
                if let EcmpProbeResult::Links(members) = sounding.record_train(&carried.record) {
                    self.ecmp_links = EcmpLinks::new(members, self.transport.replacements());
                    self.phase = Phase::NextLink(direction);
                }
            }
            Purpose::Capacity => {
                if let Phase::Capacity(phase) = &mut self.phase {
                    let CapacityPhase { series, probe } = phase.as_mut();
                    series.add_train(&carried);
                    probe.record(&carried.record);
                }
            }
            Purpose::AvailableBandwidth => self.record_method_train(direction, train, window, carried),
            Purpose::Policing | Purpose::VaryingLink => self.record_follow_up_train(direction, &carried),
            Purpose::FlowQueueing => {
                let Phase::FlowQueueing(phase) = &mut self.phase else { return };
                phase.available.series.add_sparse_train(&carried);
                phase.order_so_far.record_order(phase.train.service_order(&carried.record));
            }
            Purpose::Utilization => {
                let (series, probe) = match &mut self.phase {
                    Phase::Utilization(phase) => (&mut phase.available.series, &mut phase.probe),
                    Phase::UtilizationBeforePolicing(phase) => {
                        (&mut phase.policing_phase.available.series, &mut phase.probe)
                    }
                    _ => return,
                };
                series.add_sparse_train(&carried);
                probe.record(&carried.record);
            }
        }
    }

    /// Reports what came of the transfers that [`next`](Self::next) requested.
    pub fn load_completed(&mut self, record: &LoadRecord) {
        let Phase::Loading(direction, duration) = self.phase else { return };
        let report = load::report_load(record, duration, self.available_rate(direction));
        self.end_load(direction, report);
    }

    /// Reports that those transfers were not possible, and why.
    pub fn load_failed(&mut self, reason: impl Into<String>) {
        let Phase::Loading(direction, _) = self.phase else { return };
        self.end_load(direction, LoadReport::failed(LoadReason::Other(reason.into())));
    }

    fn end_load(&mut self, direction: Direction, report: LoadReport) {
        self.events.push_back(Event::LoadDone { direction, result: Box::new(report.clone()) });
        if let Some(found) = self.direction_report_mut(direction) {
            found.load = Some(report);
        }
        self.phase = phase_after_load(direction);
    }

    fn direction_report_mut(&mut self, direction: Direction) -> Option<&mut DirectionReport> {
        match direction {
            Direction::Up => self.up.as_mut(),
            Direction::Down => self.down.as_mut(),
        }
    }

    /// What may pass the path at most, which transfers have to come near to fill it: what may be available, or one flow may have of it, or
    /// else the capacity. That so much passes at least does not tell whether they have.
    fn available_rate(&mut self, direction: Direction) -> Option<Rate> {
        let found = self.direction_report_mut(direction)?;
        let available = found.available_bits_per_second.or(found.fair_share_bits_per_second).map(|rate| rate.high);
        let capacity = || Some(found.capacity.as_ref()?.bottleneck_bits_per_second?.high);
        available.or(found.at_most_bits_per_second).or_else(capacity)
    }

    /// Whether trains follow.
    fn needs_transport(&self) -> bool {
        !matches!(self.phase, Phase::Load(_) | Phase::Loading(..) | Phase::Finished)
    }

    fn record_method_train(&mut self, direction: Direction, train: Train, window: TimeWindow, carried: DeliveredTrain) {
        self.delays.add_loaded_train(direction, &carried.record);
        let Phase::Available(phase) = &mut self.phase else { return };
        let AvailablePhase { series, method, current_estimate: so_far, train_windows, .. } = &mut **phase;
        series.add_method_train(&carried);
        train_windows.push(window);
        method.record(&carried.record);
        *so_far = method.current_estimate();
        self.events.push_back(Event::Train {
            direction,
            number: series.trains(),
            bytes_sent: series.bytes(),
            available_bits_per_second: *so_far,
            train,
            record: carried.record,
        });
    }

    fn record_follow_up_train(&mut self, direction: Direction, carried: &DeliveredTrain) {
        self.delays.add_loaded_train(direction, &carried.record);
        let record = policing::usable_record(carried);
        match &mut self.phase {
            Phase::Policing(phase) => {
                phase.available.series.add_train(carried);
                match &record {
                    Some(record) => phase.probe.record(record),
                    None => phase.probe.train_spoiled(),
                }
            }
            Phase::VaryingLink(phase) => {
                phase.available.series.add_sparse_train(carried);
                match &record {
                    Some(record) => phase.probe.record(record),
                    None => phase.probe.train_spoiled(),
                }
            }
            _ => {}
        }
    }

    /// Advances a phase: returns the phase that follows, and a step for the caller, if any.
    fn advance_phase(&mut self, phase: Phase, now: Time) -> (Phase, Option<Step>) {
        match phase {
            Phase::NotStarted => {
                let (transport, connections) = (self.transport.kind(), self.transport.connections());
                self.events.push_back(Event::Opened { transport, connections });
                // TCP repeats what is lost: more packets would tell nothing.
                let min_packets = if transport == Transport::Udp { self.plan.min_idle_packets } else { 0 };
                let trains = IdleTrains::new(self.session.round_trip, min_packets, now);
                let next = if self.plan.idle_delay {
                    Phase::IdleDelay(trains, Direction::Up)
                } else {
                    Phase::Direction(Direction::Up)
                };
                (next, None)
            }
            Phase::IdleDelay(trains, direction) => self.next_idle_delay(trains, direction, now),
            Phase::Direction(_) if self.plan.path && !self.marking.is_over() => self.next_marks(now),
            Phase::Direction(_) if self.plan.trace && !self.hop_tracing.is_over() => self.next_hops(now),
            Phase::Direction(direction) if !self.plan.directions.contains(direction) => (phase_after(direction), None),
            Phase::Direction(direction) if self.needs_ecmp_probe() => {
                let sounding = EcmpProbe::new(self.transport.opened_connections(), self.plan.seed);
                (Phase::LoadBalancing(direction, sounding), None)
            }
            Phase::Direction(direction) => (self.begin_direction(direction, now), None),
            Phase::LoadBalancing(direction, mut sounding) => {
                let timeout = self.session.round_trip + delay::IDLE_TIMEOUT;
                let step = self.request_train(
                    direction,
                    Purpose::LoadBalancing,
                    (now, Span::ZERO),
                    sounding.next_train(),
                    timeout,
                );
                (Phase::LoadBalancing(direction, sounding), Some(step))
            }
            Phase::NextLink(direction) => match self.ecmp_links.as_ref().and_then(EcmpLinks::unmeasurable_reason) {
                Some(reason) => (self.refuse_direction(direction, reason), None),
                None => (self.begin_direction(direction, now), None),
            },
            Phase::Capacity(phase) => self.next_capacity(phase, now),
            Phase::Available(phase) => self.next_available(*phase, now),
            Phase::UtilizationBeforePolicing(phase) => self.next_fullness(phase, now),
            Phase::Policing(phase) => self.next_policing(phase, now),
            Phase::FlowQueueing(phase) => self.next_flow_queueing(phase, now),
            Phase::Utilization(phase) => self.next_utilization(phase, now),
            Phase::VaryingLink(phase) => self.next_varying_link(phase, now),
            Phase::Queue(part, direction) => self.next_queue_train(part, direction, now),
            Phase::Load(direction) => self.next_load(direction),
            // The driver has not reported what came of it.
            Phase::Loading(direction, _) => (phase_after_load(direction), None),
            Phase::Finished => {
                let step = self.next_ports_or_flows();
                (Phase::Finished, Some(step.unwrap_or_else(|| Step::Done(Box::new(self.final_report())))))
            }
        }
    }

    /// Idle trains in alternating directions, so that the clocks' drift and steps can be estimated. On a lossy path each
    /// waits for its timeout, so the phase is limited in time as well.
    fn next_idle_delay(&mut self, trains: IdleTrains, direction: Direction, now: Time) -> (Phase, Option<Step>) {
        if trains.rounds == 0 || (direction == Direction::Up && now > trains.end) {
            return (Phase::Direction(Direction::Up), None);
        }
        let left = if direction == Direction::Down { trains.after_round() } else { trains };
        let train = trains.plan_train(self.session.round_trip, self.plan.directions.contains(direction));
        let timeout = self.session.round_trip + trains.timeout();
        let step = self.request_train(direction, Purpose::IdleDelay, (now, Span::ZERO), train, timeout);
        (Phase::IdleDelay(left, direction.reversed()), Some(step))
    }

    /// Fills the path, in a direction that was measured.
    fn next_load(&mut self, direction: Direction) -> (Phase, Option<Step>) {
        let Some(duration) = self.plan.load.filter(|_| self.plan.directions.contains(direction)) else {
            return (phase_after_load(direction), None);
        };
        let connections = LoadRequest::CONNECTIONS;
        let first = self.transport.allocate_connection_numbers(connections);
        let request = LoadRequest { direction, connections, first_connection: first, duration };
        (Phase::Loading(direction, duration), Some(Step::Load(request)))
    }

    /// Over a few connections there is nothing to tell links apart by, and a quick look at the path is to stay quick.
    fn needs_ecmp_probe(&self) -> bool {
        let is_enough = self.transport.opened_connections() >= MIN_CONNECTIONS;
        self.plan.idle_delay && self.plan.capacity && self.transport.kind() == Transport::Rake && is_enough
    }

    /// Has connections opened anew in place of those that are held back by what they have lost; false where that is not needed, or not
    /// possible. New ones would take other links of several side by side.
    fn renew_connections(&mut self, now: Time) -> bool {
        let is_renewed = self.ecmp_links.is_none() && self.transport.renew(now);
        if is_renewed {
            (self.recovery_time, self.are_connections_held_back) = (Span::ZERO, false);
        }
        is_renewed
    }

    /// Of a direction, or of one of the links side by side in it.
    fn requested_budget(&self) -> RequestedBudget {
        let links = self.ecmp_links.as_ref().map_or(1, EcmpLinks::link_count);
        let RequestedBudget { bytes, time } = self.plan.budget;
        RequestedBudget {
            bytes: bytes.map(|bytes| bytes / u64::from(links)),
            time: time.map(|time| time / i64::from(links)),
        }
    }

    /// Whether a train exceeds what the connections of one link may carry.
    fn exceeds_connections(&self, train: &Train) -> bool {
        self.ecmp_links.as_ref().is_some_and(|balanced| balanced.lay_out_train(train).is_none())
    }

    /// The first phase of a direction.
    fn begin_direction(&self, direction: Direction, now: Time) -> Phase {
        if !self.plan.capacity || self.transport.kind() == Transport::Single {
            return self.begin_available(direction, None, now);
        }
        let RequestedBudget { bytes, time } = self.requested_budget();
        let mut config = CapacityConfig {
            stamp_scatter: self.session.clocks.stamp_scatter,
            seed: self.plan.seed,
            ..CapacityConfig::new(self.transport.max_ethernet_packet())
        };
        if let Some(balanced) = &self.ecmp_links {
            config.max_packets = balanced.measured_connections() * Transport::MAX_PACKETS_PER_CONNECTION;
        }
        config.budget_time += self.session.round_trip * EXPECTED_CAPACITY_TRAINS;
        config.budget_bytes = bytes.map_or(config.budget_bytes, |bytes| config.budget_bytes.min(bytes / 2));
        config.budget_time = time.map_or(config.budget_time, |time| config.budget_time.min(time / 2));
        let series = TrainSeries::new(direction, now);
        Phase::Capacity(Box::new(CapacityPhase { series, probe: CapacityProbe::new(config) }))
    }

    fn next_capacity(&mut self, mut phase: Box<CapacityPhase>, now: Time) -> (Phase, Option<Step>) {
        match phase.probe.next(self.methods_time(now)) {
            kumade_estimate::Step::Send { train, .. } if self.exceeds_connections(&train) => {
                (self.refuse_direction(phase.series.direction(), Reason::TooFewConnectionsPerLink), None)
            }
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.probe.current_estimate();
                let step = self.send_next(&phase.series, Purpose::Capacity, wait, train, so_far, now);
                (Phase::Capacity(phase), Some(step))
            }
            kumade_estimate::Step::Done(found) => {
                let direction = phase.series.direction();
                let cost = phase.series.cost(now);
                let found = widen_capacity(self.session.clocks.stamp_scatter, found);
                let report = CapacityReport::new(found.clone(), phase.series.is_held_back(), &cost);
                self.events.push_back(Event::Capacity { direction, result: Box::new(report.clone()) });
                let found =
                    CapacityResult { capacity: found, report, cost, fastest_arrival: phase.series.fastest_arrival() };
                (self.begin_available(direction, Some(Box::new(found)), now), None)
            }
        }
    }

    /// The method gets what the capacity phase has left of the budget, and its result.
    fn begin_available(&self, direction: Direction, capacity: Option<Box<CapacityResult>>, now: Time) -> Phase {
        let spent = capacity.as_ref().map_or(Cost::default(), |found| found.cost);
        let shaping = capacity.as_ref().map_or(Shaping::Unknown, |found| found.capacity.shaping());
        let RequestedBudget { bytes, time } = self.requested_budget();
        let budget = RequestedBudget {
            bytes: bytes.map(|bytes| bytes.saturating_sub(spent.bytes)),
            time: time.map(|time| (time - spent.duration).max(time / 2)),
        };
        let (max_packet, seed) = (self.transport.max_packet(), self.plan.seed);
        let bursts = self.transport.kind() == Transport::Udp;
        let method = self.plan.method.build(&Conditions { shaping, max_packet, bursts, budget, seed });
        let series = TrainSeries::new(direction, now);
        let phase = AvailablePhase {
            series,
            method,
            train_windows: Vec::new(),
            current_estimate: None,
            capacity,
            service_order: None,
            window: None,
        };
        Phase::Available(Box::new(phase))
    }

    fn next_available(&mut self, mut phase: AvailablePhase, now: Time) -> (Phase, Option<Step>) {
        if (phase.series.trains() == 0 || self.are_connections_held_back) && self.renew_connections(now) {
            return (Phase::Available(Box::new(phase)), None);
        }
        match phase.method.next(self.methods_time(now)) {
            kumade_estimate::Step::Send { train, .. } if self.exceeds_connections(&train) => {
                (self.refuse_direction(phase.series.direction(), Reason::TooFewConnectionsPerLink), None)
            }
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.current_estimate.or_else(|| phase.shaped_rate());
                let step = self.send_next(&phase.series, Purpose::AvailableBandwidth, wait, train, so_far, now);
                (Phase::Available(Box::new(phase)), Some(step))
            }
            kumade_estimate::Step::Done(outcome) => {
                phase.window = ValueWindow::of_method(&phase.train_windows, phase.method.value_trains());
                match self.policing_probe(&phase, &outcome, now) {
                    Some(probe) => {
                        let look = self.fullness_probe(&phase, &outcome, now);
                        let next = PolicingPhase {
                            available: phase,
                            outcome,
                            probe,
                            interpreted: None,
                            earlier_policing: None,
                        };
                        let next = match look {
                            Some((link, probe)) => Phase::UtilizationBeforePolicing(Box::new(FullnessPhase {
                                policing_phase: next,
                                narrow_link: link,
                                probe,
                            })),
                            None => Phase::Policing(Box::new(next)),
                        };
                        (next, None)
                    }
                    None => (self.end_direction(phase, outcome, None, now), None),
                }
            }
        }
    }

    /// The time of the trains of the latest purpose.
    fn latest_window(&self) -> Option<TimeWindow> {
        self.latest_trains.map(|(.., window)| window)
    }

    /// Reports a direction, and goes on to the next.
    fn report_direction(
        &mut self,
        phase: AvailablePhase,
        judged: InterpretedOutcome,
        sustained: Option<&PolicingResult>,
        now: Time,
    ) -> Phase {
        let direction = phase.series.direction();
        // What published methods say is left as it is.
        let found = phase.capacity.as_ref().filter(|_| self.plan.method.handles_token_bucket());
        let judged = match (found, sustained) {
            (None, _) | (_, Some(PolicingResult::Limited(_))) => judged,
            (Some(found), _) => {
                let rate = utilization::narrow_link_rate(&found.capacity).map(|link| link.value);
                let duration = phase.series.cost(now).duration;
                InterpretedOutcome {
                    outcome: utilization::widen_to_resolution(rate, duration, judged.outcome),
                    ..judged
                }
            }
        };
        // No method knows of it, nor do published ones leave room for it: it is of the host, not of what they say.
        let stamps = StampError {
            scatter: self.session.clocks.stamp_scatter,
            train: phase.series.median_arrival_time().unwrap_or(Span::ZERO),
            narrow_link: phase
                .capacity
                .as_ref()
                .and_then(|found| utilization::narrow_link_rate(&found.capacity))
                .map(|link| link.value)
                .or(phase.series.fastest_train()),
        };
        let (outcome, fair_share) = widen_by_scatter(&stamps, judged.outcome, judged.fair_share);
        let judged = InterpretedOutcome { outcome, fair_share, ..judged };
        let result = self.context().report_direction(phase, judged, sustained, now);
        match self.ecmp_links.as_mut().map(|balanced| balanced.add_link_report(result.clone())) {
            Some(true) => Phase::NextLink(direction),
            Some(false) | None => self.finish_direction(direction, result),
        }
    }

    /// Reports a direction without a value.
    fn refuse_direction(&mut self, direction: Direction, reason: Reason) -> Phase {
        let (transport, connections) = (self.transport.kind(), self.transport.connections());
        let method = self.plan.method.name();
        let report = DirectionReport::new(
            transport,
            connections,
            method,
            Outcome::without_value(reason),
            None,
            &Cost::default(),
        );
        if let Some(balanced) = &mut self.ecmp_links {
            balanced.add_link_report(report.clone());
        }
        self.finish_direction(direction, report)
    }

    fn finish_direction(&mut self, direction: Direction, result: DirectionReport) -> Phase {
        let result = match self.ecmp_links.take() {
            Some(balanced) => balanced.combined_report(self.transport.replacements()).unwrap_or(result),
            None => result,
        };
        // What published methods say is left as it is.
        let result = if self.plan.method.handles_token_bucket() {
            // What a few packets in a row seem to arrive at is a matter of the stamps where these scatter.
            without_contradictions(result, self.session.clocks.stamp_scatter == Span::ZERO)
        } else {
            result
        };
        self.events.push_back(Event::Done { direction, result: Box::new(result.clone()) });
        match direction {
            Direction::Up => self.up = Some(result),
            Direction::Down => self.down = Some(result),
        }
        phase_after(direction)
    }

    fn context(&self) -> MeasurementContext<'_> {
        let Measurement { plan, session, transport, delays, ecmp_links: balanced, .. } = self;
        MeasurementContext { plan, session, transport, delays, is_one_link: balanced.is_none() }
    }

    fn final_report(&mut self) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            peer: self.session.peer.clone(),
            started: self.session.started.clone(),
            up: self.up.take(),
            down: self.down.take(),
            error: None,
            delay: Some(self.delays.report(self.transport.kind(), &self.session.clocks)),
            path: self.report_path(),
        }
    }

    /// The next train of a series, to leave `gap` after the end of the preceding one.
    fn send_next(
        &mut self,
        series: &TrainSeries,
        purpose: Purpose,
        gap: Span,
        train: Train,
        so_far: Option<Rate>,
        now: Time,
    ) -> Step {
        let timeout = self.timeout.for_train(&train, so_far);
        let wait = series.time_until_gap(gap.max(self.recovery_time), now);
        self.time_recovered = (self.time_recovered + wait - series.time_until_gap(gap, now)).min(MAX_RECOVERY_TIME);
        self.request_train(series.direction(), purpose, (now, wait), train, timeout)
    }

    /// The time as methods are to have it, unless one was requested: waiting for connections to recover is none of theirs.
    fn methods_time(&self, now: Time) -> Time {
        if self.plan.budget.time.is_some() { now } else { now - self.time_recovered }
    }

    fn request_train(
        &mut self,
        direction: Direction,
        purpose: Purpose,
        (now, wait): (Time, Span),
        train: Train,
        timeout: Span,
    ) -> Step {
        let for_link = matches!(
            purpose,
            Purpose::Capacity | Purpose::AvailableBandwidth | Purpose::Policing | Purpose::FlowQueueing
        );
        let layout = self.ecmp_links.as_ref().filter(|_| for_link).and_then(|balanced| balanced.lay_out_train(&train));
        let laid_out = layout.as_ref().map_or_else(|| train.clone(), |layout| layout.train.clone());
        self.pending = Some(PendingTrain { direction, purpose, train, start: now + wait, layout });
        Step::Send(SendRequest { direction, purpose, wait, train: laid_out, timeout })
    }
}

/// What follows a direction.
fn phase_after(direction: Direction) -> Phase {
    Phase::Queue(QueuePart::Marking, direction)
}

/// What follows the filling of the path in a direction.
fn phase_after_load(direction: Direction) -> Phase {
    match direction {
        Direction::Up => Phase::Load(Direction::Down),
        Direction::Down => Phase::Finished,
    }
}
