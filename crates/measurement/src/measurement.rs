//! One measurement, from the opening of a transport to the report.

mod checks;
mod direction;
mod phase;

use crate::delay::{self, DelayRecord};
use crate::event::Event;
use crate::load::{self, LoadRecord, LoadRequest};
use crate::members::{self, Balanced, Layout, Sounded, Sounding};
use crate::plan::{MeasurementPlan, Session};
use crate::receive_timeout::ReceiveTimeout;
use crate::report::{CapacityReport, DirectionReport, LoadReport, Report, SCHEMA};
use crate::series::{CarriedTrain, Cost, TrainSeries};
use crate::step::{Opened, Purpose, SendRequest, Step};
use crate::sustained;
use crate::transport::{Need, TransportInUse};
use crate::utilization;
use direction::Known;
use kumade_estimate::{CapacityConfig, CapacityProbe, Conditions, Outcome, RequestedBudget, Shaping, Sustained};
use kumade_probe_train::{Train, Transport};
use kumade_units::{Direction, Rate, Span, Time};
use phase::{AvailablePhase, CapacityPhase, FoundCapacity, FullnessPhase, Judged, Phase, SustainedPhase};
use std::collections::VecDeque;
use std::mem;

/// Receive timeout of a packet size test, beyond a round trip.
const PACKET_SIZE_TIMEOUT: Span = Span::from_millis(500);
/// Approximate number of trains of a capacity measurement, each of which takes a round trip beyond its duration.
const CAPACITY_TRAINS: i64 = 10;

/// A measurement may take longer by this than methods know of, where connections have to recover from what they lose.
const MAX_RECOVERED: Span = Span::from_secs(10);

/// With fewer connections, links side by side are not looked for.
const MIN_CONNECTIONS: u32 = 24;

/// One measurement as a state machine. See the crate's loop contract.
pub struct Measurement {
    plan: MeasurementPlan,
    session: Session,
    transport: TransportInUse,
    timeout: ReceiveTimeout,
    delays: DelayRecord,
    phase: Phase,
    /// The train that was requested, until its record arrives.
    pending: Option<Pending>,
    /// How long connections may still retransmit what the last train lost, from its end on.
    recovery: Span,
    /// Whether connections could not send much of the last train.
    are_held_back: bool,
    /// For how long trains have waited for that so far.
    recovered: Span,
    /// The links side by side that connections take in the direction that is being measured, if there are several.
    balanced: Option<Balanced>,
    events: VecDeque<Event>,
    up: Option<DirectionReport>,
    down: Option<DirectionReport>,
}

/// A train that was requested.
struct Pending {
    direction: Direction,
    purpose: Purpose,
    train: Train,
    /// How it was laid out over connections, if it is for some of them only.
    layout: Option<Layout>,
}

impl Measurement {
    /// A measurement that follows this plan.
    pub fn new(plan: MeasurementPlan, session: Session) -> Self {
        Measurement {
            transport: TransportInUse::new(&plan, session.max_connections),
            timeout: ReceiveTimeout::new(session.round_trip),
            delays: DelayRecord::default(),
            phase: Phase::Beginning,
            pending: None,
            recovery: Span::ZERO,
            are_held_back: false,
            recovered: Span::ZERO,
            balanced: None,
            events: VecDeque::new(),
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
            let need = if self.needs_transport() { self.transport.next(now) } else { Need::Nothing };
            match need {
                Need::Open(request) => return Step::Open(request),
                Need::Test(direction, train) => {
                    let timeout = self.session.round_trip + PACKET_SIZE_TIMEOUT;
                    return self.send(direction, Purpose::PacketSize, Span::ZERO, train, timeout);
                }
                Need::Impossible(failure) => return Step::Failed(failure),
                Need::Nothing => {}
            }
            let phase = mem::replace(&mut self.phase, Phase::Finished);
            let (phase, step) = self.advance(phase, now);
            self.phase = phase;
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Reports that the requested transport is open at both ends.
    pub fn opened(&mut self, opened: Opened, now: Time) {
        self.transport.opened(opened, now);
    }

    /// Reports that the requested transport could not be opened, and why.
    pub fn not_opened(&mut self, reason: impl Into<String>) {
        self.transport.not_opened(reason.into());
    }

    /// Reports the record of the train that [`next`](Self::next) requested.
    pub fn carried(&mut self, mut carried: CarriedTrain) {
        let Some(Pending { direction, purpose, train, layout }) = self.pending.take() else { return };
        self.transport.carried(&carried);
        if self.transport.kind() == Transport::Rake {
            self.recovery = carried.recovery();
            let connections = self.transport.opened_connections() as usize;
            carried.record = carried.record.without_loss_recovery(connections, self.delays.least(direction));
            self.are_held_back = carried.is_held_back_by_losses();
        }
        self.timeout.learn(&carried.record, self.delays.least(direction));
        if let Some(layout) = layout {
            carried.record = layout.record(&carried.record);
        }
        if let (Some(balanced), Purpose::Capacity | Purpose::AvailableBandwidth) = (&mut self.balanced, purpose) {
            balanced.learn(&carried.record);
        }
        match purpose {
            Purpose::PacketSize => {}
            Purpose::IdleDelay => {
                if !self.delays.add_idle(direction, &carried.record) {
                    self.phase = Phase::Direction(Direction::Up);
                }
            }
            Purpose::LoadBalancing => {
                let Phase::LoadBalancing(_, sounding) = &mut self.phase else { return };
                if let Sounded::Members(members) = sounding.add(&carried.record) {
                    self.balanced = Balanced::new(members, self.transport.replacements());
                    self.phase = Phase::Link(direction);
                }
            }
            Purpose::Capacity => {
                if let Phase::Capacity(phase) = &mut self.phase {
                    let CapacityPhase { series, probe } = phase.as_mut();
                    series.add(&carried);
                    probe.record(&carried.record);
                }
            }
            Purpose::AvailableBandwidth => self.carried_for_method(direction, train, carried),
            Purpose::SustainedRate | Purpose::LongTrains => self.carried_longer(direction, &carried),
            Purpose::ServiceOrder => {
                let Phase::ServiceOrder(phase) = &mut self.phase else { return };
                phase.available.series.add_sparse(&carried);
                phase.order.tells(phase.train.read(&carried.record));
            }
            Purpose::Utilization => {
                let (series, probe) = match &mut self.phase {
                    Phase::Utilization(phase) => (&mut phase.available.series, &mut phase.probe),
                    Phase::Fullness(phase) => (&mut phase.next.available.series, &mut phase.probe),
                    _ => return,
                };
                series.add_sparse(&carried);
                probe.record(&carried.record);
            }
        }
    }

    /// Reports what came of the transfers that [`next`](Self::next) requested.
    pub fn loaded(&mut self, record: &LoadRecord) {
        let Phase::Loading(direction, duration) = self.phase else { return };
        let report = load::judge(record, duration, self.carries(direction));
        self.end_load(direction, report);
    }

    /// Reports that those transfers were not possible, and why.
    pub fn not_loaded(&mut self, reason: impl Into<String>) {
        let Phase::Loading(direction, _) = self.phase else { return };
        self.end_load(direction, LoadReport::failed(reason.into()));
    }

    fn end_load(&mut self, direction: Direction, report: LoadReport) {
        self.events.push_back(Event::LoadDone { direction, result: Box::new(report.clone()) });
        if let Some(found) = self.found_mut(direction) {
            found.load = Some(report);
        }
        self.phase = after_load(direction);
    }

    fn found_mut(&mut self, direction: Direction) -> Option<&mut DirectionReport> {
        match direction {
            Direction::Up => self.up.as_mut(),
            Direction::Down => self.down.as_mut(),
        }
    }

    /// What is known to pass the path: the least that is available, or what one flow has of it, or else the capacity.
    fn carries(&mut self, direction: Direction) -> Option<Rate> {
        let found = self.found_mut(direction)?;
        let available = found.available_bits_per_second.or(found.fair_share_bits_per_second).map(|rate| rate.low);
        let capacity = || Some(found.capacity.as_ref()?.bottleneck_bits_per_second?.low);
        available.or(found.at_least_bits_per_second).or_else(capacity)
    }

    /// Whether trains follow.
    fn needs_transport(&self) -> bool {
        !matches!(self.phase, Phase::Load(_) | Phase::Loading(..) | Phase::Finished)
    }

    fn carried_for_method(&mut self, direction: Direction, train: Train, carried: CarriedTrain) {
        self.delays.add(direction, &carried.record);
        let Phase::Available(AvailablePhase { series, method, so_far, .. }) = &mut self.phase else { return };
        series.add(&carried);
        method.record(&carried.record);
        *so_far = method.so_far();
        self.events.push_back(Event::Train {
            direction,
            number: series.trains(),
            bytes_sent: series.bytes(),
            available_bits_per_second: *so_far,
            train,
            record: carried.record,
        });
    }

    fn carried_longer(&mut self, direction: Direction, carried: &CarriedTrain) {
        self.delays.add(direction, &carried.record);
        let record = sustained::legible(carried);
        match &mut self.phase {
            Phase::Sustained(phase) => {
                phase.available.series.add(carried);
                match &record {
                    Some(record) => phase.probe.record(record),
                    None => phase.probe.spoiled(),
                }
            }
            Phase::LongTrains(phase) => {
                phase.available.series.add_sparse(carried);
                match &record {
                    Some(record) => phase.probe.record(record),
                    None => phase.probe.spoiled(),
                }
            }
            _ => {}
        }
    }

    /// Advances a phase: returns the phase that follows, and a step for the caller, if any.
    fn advance(&mut self, phase: Phase, now: Time) -> (Phase, Option<Step>) {
        match phase {
            Phase::Beginning => {
                let (transport, connections) = (self.transport.kind(), self.transport.connections());
                self.events.push_back(Event::Opened { transport, connections });
                let rounds = if self.plan.idle_delay { delay::idle_rounds(self.session.round_trip) } else { 0 };
                (Phase::IdleDelay(rounds, Direction::Up, now + DelayRecord::MAX_IDLE_TIME), None)
            }
            Phase::IdleDelay(rounds, direction, end) => self.idle_delay(rounds, direction, end, now),
            Phase::Direction(direction) if !self.plan.directions.contains(direction) => (after(direction), None),
            Phase::Direction(direction) if self.looks_for_links() => {
                let sounding = Sounding::new(self.transport.opened_connections(), self.plan.seed);
                (Phase::LoadBalancing(direction, sounding), None)
            }
            Phase::Direction(direction) => (self.begin(direction, now), None),
            Phase::LoadBalancing(direction, mut sounding) => {
                let timeout = self.session.round_trip + DelayRecord::IDLE_TIMEOUT;
                let step = self.send(direction, Purpose::LoadBalancing, Span::ZERO, sounding.train(), timeout);
                (Phase::LoadBalancing(direction, sounding), Some(step))
            }
            Phase::Link(direction) => match self.balanced.as_ref().and_then(Balanced::unmeasurable) {
                Some(reason) => (self.refuse(direction, reason), None),
                None => (self.begin(direction, now), None),
            },
            Phase::Capacity(phase) => self.capacity(phase, now),
            Phase::Available(phase) => self.available(phase, now),
            Phase::Fullness(phase) => self.fullness(phase, now),
            Phase::Sustained(phase) => self.sustained(phase, now),
            Phase::ServiceOrder(phase) => self.service_order(phase, now),
            Phase::Utilization(phase) => self.utilization(phase, now),
            Phase::LongTrains(phase) => self.long_trains(phase, now),
            Phase::Load(direction) => self.load(direction),
            // The driver has not reported what came of it.
            Phase::Loading(direction, _) => (after_load(direction), None),
            Phase::Finished => (Phase::Finished, Some(Step::Done(Box::new(self.report())))),
        }
    }

    /// Idle trains in alternating directions, so that the clocks' drift and steps can be estimated. On a lossy path each
    /// waits for its timeout, so the phase is limited in time as well.
    fn idle_delay(&mut self, rounds: u32, direction: Direction, end: Time, now: Time) -> (Phase, Option<Step>) {
        if rounds == 0 || (direction == Direction::Up && now > end) {
            return (Phase::Direction(Direction::Up), None);
        }
        let rounds_left = if direction == Direction::Down { rounds - 1 } else { rounds };
        let train = delay::idle_train(self.session.round_trip);
        let timeout = self.session.round_trip + DelayRecord::IDLE_TIMEOUT;
        let step = self.send(direction, Purpose::IdleDelay, Span::ZERO, train, timeout);
        (Phase::IdleDelay(rounds_left, direction.reversed(), end), Some(step))
    }

    /// Fills the path, in a direction that was measured.
    fn load(&mut self, direction: Direction) -> (Phase, Option<Step>) {
        let Some(duration) = self.plan.load.filter(|_| self.plan.directions.contains(direction)) else {
            return (after_load(direction), None);
        };
        let connections = LoadRequest::CONNECTIONS;
        let first = self.transport.take_numbers(connections);
        let request = LoadRequest { direction, connections, first, duration };
        (Phase::Loading(direction, duration), Some(Step::Load(request)))
    }

    /// Over a few connections there is nothing to tell links apart by, and a quick look at the path is to stay quick.
    fn looks_for_links(&self) -> bool {
        let is_enough = self.transport.opened_connections() >= MIN_CONNECTIONS;
        self.plan.idle_delay && self.plan.capacity && self.transport.kind() == Transport::Rake && is_enough
    }

    /// Has connections opened anew in place of those that are held back by what they have lost; false where that is not needed, or not
    /// possible. New ones would take other links of several side by side.
    fn renew_connections(&mut self, now: Time) -> bool {
        let is_renewed = self.balanced.is_none() && self.transport.renew(now);
        if is_renewed {
            (self.recovery, self.are_held_back) = (Span::ZERO, false);
        }
        is_renewed
    }

    /// Of a direction, or of one of the links side by side in it.
    fn budget(&self) -> RequestedBudget {
        let links = self.balanced.as_ref().map_or(1, Balanced::links);
        let RequestedBudget { bytes, time } = self.plan.budget;
        RequestedBudget {
            bytes: bytes.map(|bytes| bytes / u64::from(links)),
            time: time.map(|time| time / i64::from(links)),
        }
    }

    /// Whether a train exceeds what the connections of one link may carry.
    fn is_too_long(&self, train: &Train) -> bool {
        self.balanced.as_ref().is_some_and(|balanced| balanced.layout(train).is_none())
    }

    /// The first phase of a direction.
    fn begin(&self, direction: Direction, now: Time) -> Phase {
        if !self.plan.capacity || self.transport.kind() == Transport::Single {
            return self.begin_available(direction, None, now);
        }
        let RequestedBudget { bytes, time } = self.budget();
        let mut config =
            CapacityConfig { seed: self.plan.seed, ..CapacityConfig::new(self.transport.max_ethernet_packet()) };
        if let Some(balanced) = &self.balanced {
            config.max_packets = balanced.members_connections() * Transport::PACKETS_PER_CONNECTION;
        }
        config.budget_time += self.session.round_trip * CAPACITY_TRAINS;
        config.budget_bytes = bytes.map_or(config.budget_bytes, |bytes| config.budget_bytes.min(bytes / 2));
        config.budget_time = time.map_or(config.budget_time, |time| config.budget_time.min(time / 2));
        let series = TrainSeries::new(direction, now);
        Phase::Capacity(Box::new(CapacityPhase { series, probe: CapacityProbe::new(config) }))
    }

    fn capacity(&mut self, mut phase: Box<CapacityPhase>, now: Time) -> (Phase, Option<Step>) {
        match phase.probe.next(self.methods_time(now)) {
            kumade_estimate::Step::Send { train, .. } if self.is_too_long(&train) => {
                (self.refuse(phase.series.direction(), members::TOO_FEW_CONNECTIONS.to_owned()), None)
            }
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.probe.so_far();
                let step = self.send_next(&phase.series, Purpose::Capacity, wait, train, so_far, now);
                (Phase::Capacity(phase), Some(step))
            }
            kumade_estimate::Step::Done(found) => {
                let direction = phase.series.direction();
                let cost = phase.series.cost(now);
                let report = CapacityReport::new(found.clone(), phase.series.is_held_back(), &cost);
                self.events.push_back(Event::Capacity { direction, result: Box::new(report.clone()) });
                let found = FoundCapacity { capacity: found, report, cost };
                (self.begin_available(direction, Some(Box::new(found)), now), None)
            }
        }
    }

    /// The method gets what the capacity phase has left of the budget, and its result.
    fn begin_available(&self, direction: Direction, capacity: Option<Box<FoundCapacity>>, now: Time) -> Phase {
        let spent = capacity.as_ref().map_or(Cost::default(), |found| found.cost);
        let shaping = capacity.as_ref().map_or(Shaping::Unknown, |found| found.capacity.shaping());
        let RequestedBudget { bytes, time } = self.budget();
        let budget = RequestedBudget {
            bytes: bytes.map(|bytes| bytes.saturating_sub(spent.bytes)),
            time: time.map(|time| (time - spent.duration).max(time / 2)),
        };
        let (max_packet, seed) = (self.transport.max_packet(), self.plan.seed);
        let bursts = self.transport.kind() == Transport::Udp;
        let method = self.plan.method.build(&Conditions { shaping, max_packet, bursts, budget, seed });
        let series = TrainSeries::new(direction, now);
        Phase::Available(AvailablePhase { series, method, so_far: None, capacity, order: None })
    }

    fn available(&mut self, mut phase: AvailablePhase, now: Time) -> (Phase, Option<Step>) {
        if (phase.series.trains() == 0 || self.are_held_back) && self.renew_connections(now) {
            return (Phase::Available(phase), None);
        }
        match phase.method.next(self.methods_time(now)) {
            kumade_estimate::Step::Send { train, .. } if self.is_too_long(&train) => {
                (self.refuse(phase.series.direction(), members::TOO_FEW_CONNECTIONS.to_owned()), None)
            }
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.so_far.or_else(|| phase.shaped_rate());
                let step = self.send_next(&phase.series, Purpose::AvailableBandwidth, wait, train, so_far, now);
                (Phase::Available(phase), Some(step))
            }
            kumade_estimate::Step::Done(outcome) => match self.sustained_probe(&phase, &outcome, now) {
                Some(probe) => {
                    let look = self.fullness_probe(&phase, &outcome, now);
                    let next = SustainedPhase { available: phase, outcome, probe, judged: None, earlier: None };
                    let next = match look {
                        Some((link, probe)) => Phase::Fullness(Box::new(FullnessPhase { next, link, probe })),
                        None => Phase::Sustained(Box::new(next)),
                    };
                    (next, None)
                }
                None => (self.end_direction(phase, outcome, None, now), None),
            },
        }
    }

    /// Reports a direction, and goes on to the next.
    fn report_direction(
        &mut self,
        phase: AvailablePhase,
        judged: Judged,
        sustained: Option<&Sustained>,
        now: Time,
    ) -> Phase {
        let direction = phase.series.direction();
        // What published methods say is left as it is.
        let found = phase.capacity.as_ref().filter(|_| self.plan.method.handles_token_bucket());
        let judged = match (found, sustained) {
            (None, _) | (_, Some(Sustained::Limited(_))) => judged,
            (Some(found), _) => {
                let rate = utilization::narrow(&found.capacity).map(|link| link.value);
                let duration = phase.series.cost(now).duration;
                Judged { outcome: utilization::resolve(rate, duration, judged.outcome), ..judged }
            }
        };
        let result = self.known().report(phase, judged, sustained, now);
        match self.balanced.as_mut().map(|balanced| balanced.add(result.clone())) {
            Some(true) => Phase::Link(direction),
            Some(false) | None => self.finish(direction, result),
        }
    }

    /// Reports a direction without a value.
    fn refuse(&mut self, direction: Direction, reason: String) -> Phase {
        let (transport, connections) = (self.transport.kind(), self.transport.connections());
        let method = self.plan.method.name();
        let report =
            DirectionReport::new(transport, connections, method, Outcome::refused(reason), None, &Cost::default());
        if let Some(balanced) = &mut self.balanced {
            balanced.add(report.clone());
        }
        self.finish(direction, report)
    }

    fn finish(&mut self, direction: Direction, result: DirectionReport) -> Phase {
        let result = match self.balanced.take() {
            Some(balanced) => balanced.report(self.transport.replacements()).unwrap_or(result),
            None => result,
        };
        self.events.push_back(Event::Done { direction, result: Box::new(result.clone()) });
        match direction {
            Direction::Up => self.up = Some(result),
            Direction::Down => self.down = Some(result),
        }
        after(direction)
    }

    fn known(&self) -> Known<'_> {
        let Measurement { plan, session, transport, delays, balanced, .. } = self;
        Known { plan, session, transport, delays, is_one_link: balanced.is_none() }
    }

    fn report(&mut self) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            peer: self.session.peer.clone(),
            started: self.session.started.clone(),
            up: self.up.take(),
            down: self.down.take(),
            error: None,
            delay: Some(self.delays.report(self.transport.kind(), &self.session.clocks)),
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
        let wait = series.wait(gap.max(self.recovery), now);
        self.recovered = (self.recovered + wait - series.wait(gap, now)).min(MAX_RECOVERED);
        self.send(series.direction(), purpose, wait, train, timeout)
    }

    /// The time as methods are to have it, unless one was requested: waiting for connections to recover is none of theirs.
    fn methods_time(&self, now: Time) -> Time {
        if self.plan.budget.time.is_some() { now } else { now - self.recovered }
    }

    fn send(&mut self, direction: Direction, purpose: Purpose, wait: Span, train: Train, timeout: Span) -> Step {
        let for_link = matches!(
            purpose,
            Purpose::Capacity | Purpose::AvailableBandwidth | Purpose::SustainedRate | Purpose::ServiceOrder
        );
        let layout = self.balanced.as_ref().filter(|_| for_link).and_then(|balanced| balanced.layout(&train));
        let laid_out = layout.as_ref().map_or_else(|| train.clone(), |layout| layout.train.clone());
        self.pending = Some(Pending { direction, purpose, train, layout });
        Step::Send(SendRequest { direction, purpose, wait, train: laid_out, timeout })
    }
}

/// What follows a direction.
fn after(direction: Direction) -> Phase {
    match direction {
        Direction::Up => Phase::Direction(Direction::Down),
        Direction::Down => Phase::Load(Direction::Up),
    }
}

/// What follows the filling of the path in a direction.
fn after_load(direction: Direction) -> Phase {
    match direction {
        Direction::Up => Phase::Load(Direction::Down),
        Direction::Down => Phase::Finished,
    }
}
