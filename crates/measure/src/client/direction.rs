//! One direction: a method's trains, one after the other, until it knows enough.

use crate::client::carrier::Carrier;
use crate::client::delay::Delays;
use crate::client::exchange::Carried;
use crate::client::grace::Grace;
use crate::client::peer::Peer;
use crate::client::{Direction, Error, Event, MeasureConfig, bits};
use crate::report::{CapacityReport, Cost, DelayReport, DirectionReport};
use estimate::{Allowance, Capacity, CapacityConfig, CapacityProbe, Conditions, Outcome, Shaping, Step};
use net::clock;
use std::thread;
use train::{Train, TrainRecord};
use units::{Rate, Span, Time};
use wire::TransportKind;

/// No method waits longer between two trains: the server would think us gone.
const LONGEST_WAIT: Span = Span::from_secs(5);

const UNSEEN_SHAPER: &str = "the path is shaped by a token bucket, through which this method does not see: its value may \
    hold for a short burst only; `primed` sees through it";

/// Trains with which a capacity is found, roughly: on a long path each takes a round trip beyond what it takes itself.
const CAPACITY_TRAINS: i64 = 10;

/// The trains of one purpose, one after the other.
struct Trip {
    direction: Direction,
    began: Time,
    /// When the newest train had gone.
    ended: Time,
    trains: u32,
    cost: Cost,
    /// Whether all stamps were the kernels'.
    stamped: bool,
}

/// A measurement in progress, behind the turn.
pub(super) struct Run<'m> {
    peer: &'m mut Peer,
    config: &'m MeasureConfig,
    carrier: Carrier,
    grace: Grace,
    delays: Delays,
    on_event: &'m mut dyn FnMut(&Event),
}

impl<'m> Run<'m> {
    /// Opens the transport.
    pub(super) fn open(
        peer: &'m mut Peer,
        config: &'m MeasureConfig,
        delays: Delays,
        on_event: &'m mut dyn FnMut(&Event),
    ) -> Result<Self, Error> {
        let carrier = Carrier::open(peer, config)?;
        on_event(&Event::Opened { transport: carrier.kind().into(), connections: carrier.connections() });
        let grace = Grace::new(peer.round_trip);
        Ok(Run { peer, config, carrier, grace, delays, on_event })
    }

    /// Measures the delay of the idle path, both ways by turns: so that what the clocks do meanwhile shows.
    pub(super) fn measure_idle(&mut self) -> Result<(), Error> {
        let train = Delays::idle_train(self.peer.round_trip);
        let grace = self.peer.round_trip + Delays::IDLE_GRACE;
        let enough = clock::monotonic() + Delays::ENOUGH;
        for _ in 0..Delays::idle_rounds(self.peer.round_trip) {
            for direction in [Direction::Up, Direction::Down] {
                let carried = self.carrier.carry(self.peer, self.config, direction, &train, grace)?;
                if !self.delays.record_idle(direction, &carried.record) {
                    return Ok(());
                }
            }
            // On a path that loses packets, each train is waited for.
            if clock::monotonic() > enough {
                break;
            }
        }
        Ok(())
    }

    /// What all trains together tell of the delay.
    pub(super) fn into_delay(self) -> DelayReport {
        self.delays.report(self.carrier.kind())
    }

    /// Measures one direction.
    pub(super) fn measure(&mut self, direction: Direction) -> Result<DirectionReport, Error> {
        let mut allowed = Allowance { bytes: self.config.budget_bytes, time: self.config.budget_time };
        let wanted = self.config.capacity && self.carrier.kind() != TransportKind::Single;
        let found = if wanted { Some(self.find_capacity(direction, &mut allowed)?) } else { None };
        let (capacity, report) = found.unzip();
        let shaping = capacity.as_ref().map_or(Shaping::Unknown, Capacity::shaping);
        let shaper = shaping.shaper();
        let max_packet = self.carrier.max_packet;
        let mut method = self.config.method.build(&Conditions { shaping, max_packet, budget: allowed, seed: seed() });
        let mut trip = Trip::begin(direction);
        let outcome = loop {
            let (wait, train) = match method.next(clock::monotonic()) {
                Step::Send { wait, train } => (wait, train),
                Step::Done(outcome) => break outcome,
            };
            let lasting = method.so_far().or(shaper.map(|shaper| shaper.rate.value));
            let record = self.carry(&mut trip, wait, &train, lasting)?;
            method.record(&record);
            self.delays.record(direction, &record);
            (self.on_event)(&Event::Train {
                direction,
                number: trip.trains,
                bytes_sent: trip.cost.bytes,
                available_bits_per_second: bits(method.so_far()),
                train,
                record,
            });
        };
        let mut outcome = capacity.iter().fold(outcome, |outcome, capacity| capacity.refute(outcome));
        if shaper.is_some() && !self.config.method.handles_token_bucket() {
            outcome.warnings.push(UNSEEN_SHAPER.to_owned());
        }
        let stamped = trip.stamped;
        let result = DirectionReport { capacity: report, ..self.report(outcome, &trip.end(), stamped) };
        (self.on_event)(&Event::Done { direction, result: Box::new(result.clone()) });
        Ok(result)
    }

    /// Finds the bottleneck's capacity, and takes what that cost off what is allowed: half of it at most.
    fn find_capacity(
        &mut self,
        direction: Direction,
        allowed: &mut Allowance,
    ) -> Result<(Capacity, CapacityReport), Error> {
        let mut config = CapacityConfig { seed: seed(), ..CapacityConfig::new(self.carrier.max_packet) };
        config.budget_time += self.peer.round_trip * CAPACITY_TRAINS;
        config.budget_bytes = allowed.bytes.map_or(config.budget_bytes, |bytes| config.budget_bytes.min(bytes / 2));
        config.budget_time = allowed.time.map_or(config.budget_time, |time| config.budget_time.min(time / 2));
        let mut probe = CapacityProbe::new(config);
        let mut trip = Trip::begin(direction);
        let found = loop {
            match probe.next(clock::monotonic()) {
                Step::Send { wait, train } => {
                    let record = self.carry(&mut trip, wait, &train, probe.so_far())?;
                    probe.record(&record);
                }
                Step::Done(found) => break found,
            }
        };
        let cost = trip.end();
        allowed.bytes = allowed.bytes.map(|bytes| bytes.saturating_sub(cost.bytes));
        allowed.time = allowed.time.map(|time| (time + -cost.duration).max(time / 2));
        let report = CapacityReport::new(found.clone(), &cost);
        (self.on_event)(&Event::Capacity { direction, result: Box::new(report.clone()) });
        Ok((found, report))
    }

    /// Carries one train, that long after the one before; what comes back says how long to wait for the next one.
    fn carry(
        &mut self,
        trip: &mut Trip,
        wait: Span,
        train: &Train,
        so_far: Option<Rate>,
    ) -> Result<TrainRecord, Error> {
        sleep_until(trip.ended + wait.min(LONGEST_WAIT));
        let grace = self.grace.for_train(train, so_far);
        let carried = self.carrier.carry(self.peer, self.config, trip.direction, train, grace)?;
        self.grace.learn(&carried.record);
        trip.add(&carried);
        Ok(carried.record)
    }

    fn report(&self, outcome: Outcome, cost: &Cost, stamped: bool) -> DirectionReport {
        let mut warnings = self.carrier.warnings();
        if !stamped {
            warnings
                .push("the kernel gave no time stamps on one side at least: the programs' own are less exact".into());
        }
        let method = self.config.method.name();
        DirectionReport::new(self.carrier.kind(), self.carrier.connections(), method, outcome, cost, warnings)
    }
}

impl Trip {
    fn begin(direction: Direction) -> Self {
        let now = clock::monotonic();
        Trip { direction, began: now, ended: now, trains: 0, cost: Cost::default(), stamped: true }
    }

    fn add(&mut self, carried: &Carried) {
        self.ended = carried.ended;
        self.trains += 1;
        self.stamped &= carried.kernel_stamps;
        self.cost.packets += carried.packets;
        self.cost.bytes += carried.bytes;
    }

    fn end(self) -> Cost {
        Cost { duration: clock::monotonic() - self.began, ..self.cost }
    }
}

/// For what is random in a method.
fn seed() -> u64 {
    getrandom::u64().unwrap_or(0)
}

fn sleep_until(at: Time) {
    thread::sleep((at - clock::monotonic()).to_duration());
}
