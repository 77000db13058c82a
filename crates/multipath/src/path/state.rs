use crate::adaptation::Adaptation;
use crate::health::{Health, PathState};
use crate::path_carrier::{CarrierControl, CarrierState};
use crate::path_report::Report;
use crate::path_sent::{Departure, SentLog};
use crate::rate_view::RateView;
use crate::shared_path::{PathPart, Seen};
use kumade_units::{Rate, Span, Time};

/// The settings of a path.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathConfig {
    /// The rate of the path in bits of IP packets on it, as measured beforehand; searched for if not known.
    pub rate: Option<Rate>,
    /// It is never paced faster than this.
    pub max_rate: Option<Rate>,
    /// Bytes that encapsulation adds to each packet on this path: outer headers, counter, authentication tag.
    pub overhead_bytes: u32,
    /// Who keeps what is sent to what the path carries.
    pub flow_control: FlowControl,
    /// Where the carrier does: what is done so that it carries flows well.
    pub adaptation: Adaptation,
}

/// Who keeps what is sent on a path to what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlowControl {
    /// This end: the path is paced at the rate that is found out by the traffic itself. For datagrams.
    #[default]
    Pacing,
    /// The carrier, which takes what it has room for ([`Bond::set_carrier`](crate::Bond::set_carrier)). For TCP connections.
    Backpressure,
}

impl PathConfig {
    fn carrier(&self, now: Time) -> Option<CarrierControl> {
        let is_asked = self.flow_control == FlowControl::Backpressure;
        is_asked.then(|| CarrierControl::new(self.adaptation.bounds_open, now))
    }
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStatus {
    /// Who keeps what is sent to what it carries: what kind of carrier it has.
    pub flow_control: FlowControl,
    /// Whether it is used.
    pub state: PathState,
    /// When it came into that state.
    pub since: Time,
    /// What it carries, in bits of IP packets on it.
    pub rate: Rate,
    /// The rate at which packets are sent now.
    pub pace: Rate,
    /// Smoothed round-trip time (RFC 6298).
    pub round_trip: Option<Span>,
    /// Least round-trip time of the last 10 to 20 s.
    pub min_round_trip: Option<Span>,
    /// One-way delay of a full packet while the path is empty, plus the offset of the far end's clock, which is the same
    /// for all paths.
    pub base_delay: Option<Span>,
    /// How long packets wait in the path's own queue.
    pub queue: Span,
    /// Ratio of packets that are lost, but for those lost because too much was sent.
    pub loss: f64,
    /// Packets sent, probes included.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that did not arrive, of those that a report covers.
    pub lost_packets: u64,
    /// Packets that arrived, as the last report has it.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
}

/// One path as its sender sees it; as one of its senders does, where several shards share it.
#[derive(Debug)]
pub(crate) struct Path {
    config: PathConfig,
    log: SentLog,
    /// Pace and rate.
    part: PathPart,
    health: Health,
    enabled: bool,
    /// Another carrier is in use: little but probes leaves on it.
    is_spare: bool,
    /// The longest packet that it passes; 0 while that is not known.
    max_bytes: u32,
    sent_bytes: u64,
    lost: u64,
    /// Bytes sent up to the packet that was reported last.
    reported: u64,
    /// Packets that arrived, and their bytes.
    delivered: (u64, u64),
    /// Where that controls the flow.
    carrier: Option<CarrierControl>,
}

/// A carrier with less room than a small packet takes has none.
const MIN_ROOM: u64 = 128;
const PROBE_PAYLOAD: u32 = 32;
/// What may be open besides the product of pace and round trip.
const OPEN_SLACK: Span = Span::from_millis(100);
const OPEN_SLACK_BYTES: u64 = 16_000;

impl Path {
    pub fn new(config: PathConfig, part: PathPart, now: Time) -> Self {
        Path {
            config,
            log: SentLog::new(),
            part,
            health: Health::new(now),
            enabled: true,
            is_spare: false,
            max_bytes: u32::MAX,
            sent_bytes: 0,
            lost: 0,
            reported: 0,
            delivered: (0, 0),
            carrier: config.carrier(now),
        }
    }

    /// Something else carries it from now on, which adds so many bytes to each packet.
    pub fn set_flow_control(&mut self, flow_control: FlowControl, overhead_bytes: u32, now: Time) {
        self.config.overhead_bytes = overhead_bytes;
        if self.config.flow_control != flow_control {
            self.config.flow_control = flow_control;
            self.carrier = self.config.carrier(now);
            self.interrupt(now);
        }
    }

    /// Another carrier is in use, or this one again. Meanwhile probes find the queues of the other's packets, and tell nothing of
    /// the rate.
    pub fn set_spare(&mut self, is_spare: bool, now: Time) {
        if self.is_spare && !is_spare {
            self.part.interrupted(now);
        }
        self.is_spare = is_spare;
    }

    /// Who keeps what is sent to what it carries.
    pub fn flow_control(&self) -> FlowControl {
        self.config.flow_control
    }

    pub fn is_up(&self) -> bool {
        self.enabled && self.health.is_up() && self.max_bytes > 0
    }

    /// Whether it may be kept for small packets of sparse flows.
    pub fn may_be_kept(&self) -> bool {
        self.config.adaptation.sparse_twice
    }

    /// Whether its carrier is not to be given datagrams that have waited too long.
    pub fn drops_stale(&self) -> bool {
        self.carrier.is_some() && self.config.adaptation.drops_stale
    }

    /// Whether its carrier is not to be given what it has already.
    pub fn drops_repeated(&self) -> bool {
        self.carrier.is_some() && self.config.adaptation.drops_repeated
    }

    /// Whether it passes a packet of so many bytes within the encapsulation.
    pub fn fits(&self, size: u32) -> bool {
        size <= self.max_bytes
    }

    /// The longest packet that it passes, if that is known.
    pub fn max_bytes(&self) -> Option<u32> {
        (self.max_bytes > 0).then_some(self.max_bytes)
    }

    /// Returns what was set before.
    pub fn set_max_bytes(&mut self, bytes: u32) -> u32 {
        std::mem::replace(&mut self.max_bytes, bytes)
    }

    /// When it can take a packet; none while it is not up, or too much is unanswered.
    pub fn ready_at(&self) -> Option<Time> {
        if let Some(carrier) = self.carrier {
            return (self.is_up() && carrier.room() >= MIN_ROOM).then(|| self.part.last_sent());
        }
        (self.is_up() && self.log.open_bytes() < self.max_open_bytes()).then(|| self.part.ready_at())
    }

    /// How its carrier does now. `all_failed` says that no path was up of late. Returns whether the path is up because of it.
    pub fn set_carrier(&mut self, state: CarrierState, all_failed: bool, now: Time) -> bool {
        let round_trips = self.health.round_trips();
        let Some(carrier) = &mut self.carrier else { return false };
        let delivers = state.delivered > carrier.delivered();
        carrier.update(state, round_trips.least(), round_trips.smoothed(), now);
        if !delivers || !self.health.delivered(all_failed, now) {
            return false;
        }
        // Probes of the time when it was down say nothing of now.
        self.log.forget();
        self.is_up()
    }

    /// What its carrier is given, where that controls the flow.
    pub fn carrier(&self) -> Option<&CarrierControl> {
        self.carrier.as_ref()
    }

    /// Whether it takes packets at its pace: it is up, and not too much is unanswered.
    pub fn is_open(&self) -> bool {
        self.ready_at().is_some()
    }

    fn max_open_bytes(&self) -> u64 {
        let round_trip = self.health.round_trips().smoothed().unwrap_or_default();
        self.rate().pace().bytes_in(round_trip * 5 / 4 + OPEN_SLACK) + OPEN_SLACK_BYTES
    }

    /// When a packet of this size arrives if it is handed over behind `ahead` bytes, by a clock that is the same for all
    /// paths.
    pub fn arrival(&self, ahead: u64, size: u32, now: Time) -> Time {
        let bytes = ahead + u64::from(size + self.config.overhead_bytes);
        let (start, rate) = (self.part.free_at().max(now), self.rate());
        start + self.own_rate().time_for(bytes) + rate.base_delay().unwrap_or_default() + rate.queue()
    }

    /// What it carries of this shard's packets while those of others wait, too.
    pub fn own_rate(&self) -> Rate {
        Rate::from_f64(self.rate().capacity().as_f64() * self.part.fraction())
    }

    /// The same of what it may carry; see [`RateView::potential`](crate::rate_view::RateView::potential).
    pub fn own_potential(&self, fastest: Rate) -> Rate {
        Rate::from_f64(self.rate().potential(fastest).as_f64() * self.part.fraction())
    }

    /// Packets wait for it, of so many flows; of none, if not.
    pub fn set_waiting(&self, flows: u32) {
        self.part.set_waiting(flows);
    }

    /// It might have sent, but there was nothing.
    pub fn note_idle(&mut self, now: Time) {
        self.part.note_idle(now);
    }

    /// It might have sent, but the next packet is for another path.
    pub fn note_turn(&mut self, now: Time) {
        self.part.note_turn(now);
    }

    /// A packet of so many bytes within the encapsulation leaves; returns its counter. The caller comes `late`.
    pub fn send(&mut self, size: u32, late: Span, now: Time) -> u64 {
        let departure = self.part.send(self.wire_bytes(size), late, now);
        self.leave(departure)
    }

    /// The counter of what leaves next.
    pub fn next_counter(&self) -> u64 {
        self.log.next_counter()
    }

    /// A probe leaves, whatever the pace; returns its counter.
    pub fn send_probe(&mut self, now: Time) -> u64 {
        let departure = self.part.leave(self.wire_bytes(PROBE_PAYLOAD), now);
        self.leave(departure)
    }

    /// Whether a packet that leaves now should be answered at once: it tells the delay of the empty path.
    pub fn asks(&mut self, now: Time) -> bool {
        self.part.asks(now)
    }

    fn leave(&mut self, departure: Departure) -> u64 {
        if let Some(carrier) = &mut self.carrier {
            carrier.sent(departure.size);
        }
        self.sent_bytes += u64::from(departure.size);
        self.health.sent(departure.time);
        self.log.push(departure)
    }

    /// Bytes on the path of a packet with so many in it.
    pub fn wire_bytes(&self, size: u32) -> u32 {
        size.saturating_add(self.config.overhead_bytes)
    }

    /// Takes a report; returns whether the path is up because of it.
    pub fn report(&mut self, report: &Report, now: Time) -> bool {
        let Some(sent) = self.log.take(report) else { return false };
        let round_trip = now - sent.time - report.held;
        let lost = (report.highest + 1).saturating_sub(report.packets);
        let seen = Seen {
            now,
            sent,
            arrival: report.arrival,
            round_trip,
            reported: sent.logged - self.reported,
            received: report.bytes.saturating_sub(self.delivered.1),
            lost: lost.wrapping_sub(self.lost) as i64,
            // Probes that are lost tell nothing of the rate.
            is_down: self.is_spare || matches!(self.health.state(), PathState::Down { .. }),
        };
        (self.lost, self.reported, self.delivered) = (lost, sent.logged, (report.packets, report.bytes));
        if self.carrier.is_none() {
            self.part.report(&seen);
        }
        self.health.answer(round_trip, now) && self.enabled
    }

    /// Whether the path has failed by now.
    pub fn check(&mut self, now: Time) -> bool {
        let failed = self.health.check(&self.log, now);
        if failed {
            self.interrupt(now);
        }
        if self.carrier.is_some() {
            // A connection that waits for its retransmission timer is one to avoid, not one to distrust.
            self.health.forgive();
        }
        failed && self.enabled
    }

    /// It may be used as soon as it answers.
    pub fn lift_hold(&mut self, now: Time) {
        self.health.lift_hold(now);
    }

    fn interrupt(&mut self, now: Time) {
        self.log.forget();
        self.part.interrupted(now);
    }

    /// Takes the path out of use, or back into it; returns whether that changes whether it is up.
    pub fn enable(&mut self, enabled: bool, now: Time) -> bool {
        let was_up = self.enabled && self.health.is_up();
        if self.enabled && !enabled {
            self.health.disable(now);
            self.interrupt(now);
        }
        self.enabled = enabled;
        was_up && !enabled
    }

    /// When a probe is to be sent.
    pub fn probe_at(&self) -> Option<Time> {
        self.health.probe_at(&self.log).filter(|_| self.enabled)
    }

    /// When its state may change unless something is answered.
    pub fn deadline(&self) -> Option<Time> {
        self.health.deadline(&self.log).filter(|_| self.enabled)
    }

    /// A measurement says what it carries.
    pub fn suggest_rate(&mut self, measured: Rate, now: Time) {
        self.part.suggest(measured, now);
    }

    pub fn rate(&self) -> &RateView {
        self.part.rate()
    }

    pub fn status(&self) -> PathStatus {
        let round_trips = self.health.round_trips();
        let carrier_rate = self.carrier.and_then(|carrier| carrier.rate());
        PathStatus {
            flow_control: self.flow_control(),
            state: self.health.state(),
            since: self.health.since(),
            rate: carrier_rate.unwrap_or_else(|| self.rate().capacity()),
            pace: carrier_rate.unwrap_or_else(|| self.rate().pace()),
            round_trip: round_trips.smoothed(),
            min_round_trip: round_trips.least(),
            base_delay: self.rate().base_delay(),
            queue: self.rate().queue(),
            loss: self.rate().loss(),
            sent_packets: self.log.next_counter(),
            sent_bytes: self.sent_bytes,
            lost_packets: self.lost,
            delivered_packets: self.delivered.0,
            delivered_bytes: self.delivered.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_path::SharedPath;
    use std::sync::Arc;

    /// Packets sent in a second by a caller that comes each so often, late by as much.
    fn sent_by_a_caller(interval: Span) -> u64 {
        let start = Time::ZERO + Span::from_secs(1);
        let rate = Some(Rate::from_mbit(80));
        let part = PathPart::new(Arc::new(SharedPath::new(rate, None, 1, start)), 0);
        let mut path = Path::new(PathConfig { rate, ..PathConfig::default() }, part, start);
        let (mut now, mut sent) = (start, 0);
        while now < start + Span::from_secs(1) {
            now += interval;
            let late = now - path.part.free_at();
            while path.part.free_at() <= now {
                path.send(1000, late, now);
                sent += 1;
            }
        }
        sent
    }

    /// Found by the benchmark of 10 000 flows beside other work: a thread that got a third of a core sent a third of the rate.
    #[test]
    fn a_caller_that_is_late_catches_up_what_the_path_would_have_carried() {
        let on_time = sent_by_a_caller(Span::from_micros(100));
        for lateness in [1, 2, 4].map(Span::from_millis) {
            let late = sent_by_a_caller(lateness);
            assert!(late + late / 50 >= on_time, "{lateness}: {late} of {on_time}");
        }
        let too_late = sent_by_a_caller(Span::from_millis(50));
        assert!(too_late < on_time / 8, "{too_late} of {on_time}");
    }
}
