//! One direction: a method's trains, one after the other, until it knows enough.

use crate::client::carrier::Carrier;
use crate::client::delay::Delays;
use crate::client::grace::Grace;
use crate::client::method::Allowed;
use crate::client::peer::Peer;
use crate::client::{Direction, Error, Event, MeasureConfig, bits};
use crate::report::{Cost, DelayReport, DirectionReport};
use estimate::{Outcome, Step};
use net::clock;
use std::thread;
use units::{Span, Time};

/// No method waits longer between two trains: the server would think us gone.
const LONGEST_WAIT: Span = Span::from_secs(5);

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
        let train = Delays::idle_train();
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
        let allowed = Allowed { bytes: self.config.budget_bytes, time: self.config.budget_time };
        let mut method = self.config.method.build(self.carrier.max_packet, allowed, getrandom::u64().unwrap_or(0));
        let began = clock::monotonic();
        let (mut cost, mut ended, mut number, mut stamped) = (Cost::default(), began, 0, true);
        let outcome = loop {
            let (wait, train) = match method.next(clock::monotonic()) {
                Step::Send { wait, train } => (wait, train),
                Step::Done(outcome) => break outcome,
            };
            sleep_until(ended + wait.min(LONGEST_WAIT));
            let grace = self.grace.for_train(&train, method.so_far());
            let carried = self.carrier.carry(self.peer, self.config, direction, &train, grace)?;
            method.record(&carried.record);
            self.grace.learn(&carried.record);
            self.delays.record(direction, &carried.record);
            ended = carried.ended;
            stamped &= carried.kernel_stamps;
            cost.packets += carried.packets;
            cost.bytes += carried.bytes;
            number += 1;
            (self.on_event)(&Event::Train {
                direction,
                number,
                bytes_sent: cost.bytes,
                available_bits_per_second: bits(method.so_far()),
                train,
                record: carried.record,
            });
        };
        cost.duration = clock::monotonic() - began;
        let result = self.report(outcome, &cost, stamped);
        (self.on_event)(&Event::Done { direction, result: Box::new(result.clone()) });
        Ok(result)
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

fn sleep_until(at: Time) {
    thread::sleep((at - clock::monotonic()).to_duration());
}
