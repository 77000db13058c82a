use crate::adaptation::Adaptation;
use crate::health::{Health, PathState};
use crate::path_carrier::{CarrierControl, CarrierState};
use crate::path_report::Report;
use crate::path_sent::SentLog;
use crate::rate::{PathRate, Sample};
use units::{Rate, Span, Time};

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

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStatus {
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

/// One path as its sender sees it.
#[derive(Debug)]
pub(crate) struct Path {
    config: PathConfig,
    log: SentLog,
    rate: PathRate,
    health: Health,
    enabled: bool,
    /// The longest packet that it passes; 0 while that is not known.
    max_bytes: u32,
    /// The pace allows the next packet then.
    release: Time,
    /// All that was sent will have passed the bottleneck then.
    clear: Time,
    idle: Span,
    /// It could have sent since then.
    idle_since: Option<Time>,
    last_sent: Time,
    /// When it last asked for an answer.
    asked: Time,
    sent_bytes: u64,
    lost: u64,
    /// Packets that arrived, and their bytes.
    delivered: (u64, u64),
    /// Where that controls the flow.
    carrier: Option<CarrierControl>,
}

/// A carrier with less room than a small packet takes has none.
const MIN_ROOM: u64 = 128;
/// What a late caller may catch up: about what a thread waits for its turn on a busy host. The path stood idle meanwhile, so
/// that its queue becomes no longer than this.
const MAX_LATENESS: Span = Span::from_millis(5);
/// What may be caught up in any case.
const MIN_LATENESS: Span = Span::from_millis(1);
/// A packet sent so long after the queue is thought to be empty finds it empty.
const QUIET_MARGIN: Span = Span::from_millis(1);
const ASK_INTERVAL: Span = Span::from_secs(1);
const PROBE_PAYLOAD: u32 = 32;
/// What may be open besides the product of pace and round trip.
const OPEN_SLACK: Span = Span::from_millis(100);
const OPEN_SLACK_BYTES: u64 = 16_000;

impl Path {
    pub fn new(config: PathConfig, now: Time) -> Self {
        Path {
            rate: PathRate::new(config.rate, config.max_rate, now),
            config,
            log: SentLog::new(),
            health: Health::new(now),
            enabled: true,
            max_bytes: u32::MAX,
            release: now,
            clear: now,
            idle: Span::ZERO,
            idle_since: None,
            last_sent: now,
            asked: now - ASK_INTERVAL,
            sent_bytes: 0,
            lost: 0,
            delivered: (0, 0),
            carrier: (config.flow_control == FlowControl::Backpressure)
                .then(|| CarrierControl::new(config.adaptation.bounds_open, now)),
        }
    }

    pub fn is_up(&self) -> bool {
        self.enabled && self.health.is_up() && self.max_bytes > 0
    }

    /// Whether it may be kept for small packets of sparse flows.
    pub fn may_be_kept(&self) -> bool {
        self.config.adaptation.sparse_twice
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
            return (self.is_up() && carrier.room() >= MIN_ROOM).then_some(self.last_sent);
        }
        (self.is_up() && self.log.open_bytes() < self.max_open_bytes()).then(|| self.release.max(self.rate.drained()))
    }

    /// How its carrier does now.
    pub fn set_carrier(&mut self, state: CarrierState, now: Time) {
        let round_trips = self.health.round_trips();
        if let Some(carrier) = &mut self.carrier {
            carrier.update(state, round_trips.least(), round_trips.smoothed(), now);
        }
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
        self.rate.pace().bytes_in(round_trip * 5 / 4 + OPEN_SLACK) + OPEN_SLACK_BYTES
    }

    /// When a packet of this size arrives if it is handed over behind `ahead` bytes, by a clock that is the same for all
    /// paths.
    pub fn arrival(&self, ahead: u64, size: u32, now: Time) -> Time {
        let bytes = ahead + u64::from(size + self.config.overhead_bytes);
        let start = self.release.max(self.rate.drained()).max(now);
        start + self.rate.capacity().time_for(bytes) + self.rate.base_delay().unwrap_or_default() + self.rate.queue()
    }

    /// It might have sent, but there was nothing.
    pub fn note_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// A packet of so many bytes within the encapsulation leaves; returns its counter. The caller comes `late`.
    pub fn send(&mut self, size: u32, late: Span, now: Time) -> u64 {
        // Only a caller's delay may be caught up, not a time in which nothing was to be sent.
        let idle_since = self.idle_since.take();
        self.idle += idle_since.map_or(Span::ZERO, |since| now - since);
        let due = self.release.max(self.rate.drained()).max(now - late.clamp(MIN_LATENESS, MAX_LATENESS));
        let start = if idle_since.is_some() { now } else { due };
        let counter = self.leave(size, now);
        self.release = start + self.rate.pace().time_for(self.wire_bytes(size).into());
        counter
    }

    /// The counter of what leaves next.
    pub fn next_counter(&self) -> u64 {
        self.log.next_counter()
    }

    /// A probe leaves, whatever the pace; returns its counter.
    pub fn send_probe(&mut self, now: Time) -> u64 {
        self.leave(PROBE_PAYLOAD, now)
    }

    /// Whether a packet that leaves now finds the path empty: nothing was there to be sent for a while, or it was drained.
    /// What leaves at the pace tells nothing new, since that the path is clear follows from the delay of those before.
    fn is_quiet(&self, now: Time) -> bool {
        let drained = self.rate.drained();
        now >= self.clear.max(self.release) + QUIET_MARGIN || (self.last_sent < drained && now >= drained)
    }

    /// Whether a packet that leaves now should be answered at once: it tells the delay of the empty path.
    pub fn asks(&mut self, now: Time) -> bool {
        let asks = self.is_quiet(now) && now - self.asked >= ASK_INTERVAL;
        if asks {
            self.asked = now;
        }
        asks
    }

    fn leave(&mut self, size: u32, now: Time) -> u64 {
        let bytes = self.wire_bytes(size);
        if let Some(carrier) = &mut self.carrier {
            carrier.sent(bytes);
        }
        let quiet = self.is_quiet(now);
        self.last_sent = now;
        self.clear = self.clear.max(now) + self.rate.capacity().time_for(bytes.into());
        self.sent_bytes += u64::from(bytes);
        self.health.sent(now);
        self.log.push(now, bytes, self.idle, quiet)
    }

    /// Bytes on the path of a packet with so many in it.
    pub fn wire_bytes(&self, size: u32) -> u32 {
        size.saturating_add(self.config.overhead_bytes)
    }

    /// Takes a report; returns whether the path is up because of it.
    pub fn report(&mut self, report: &Report, now: Time) -> bool {
        let Some(sent) = self.log.take(report) else { return false };
        let round_trip = now - sent.time - report.held;
        self.lost = (report.highest + 1).saturating_sub(report.packets);
        self.delivered = (report.packets, report.bytes);
        let sample = Sample {
            now,
            sent,
            counter: report.highest,
            arrival: report.arrival,
            round_trip,
            received: report.bytes,
            lost: self.lost,
            open: self.log.open_bytes(),
        };
        if self.carrier.is_none() {
            if matches!(self.health.state(), PathState::Down { .. }) {
                // Probes that are lost tell nothing of the rate.
                self.rate.probed(&sample);
            } else {
                self.rate.sample(&sample);
            }
            // The capacity may be less than believed.
            self.clear = self.rate.clear() + self.rate.capacity().time_for(sample.open) / 10;
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
        self.rate.interrupted(now);
        self.clear = now;
        self.idle_since = None;
    }

    /// Takes the path out of use, or back into it; returns whether that changes whether it is up.
    pub fn enable(&mut self, enabled: bool, now: Time) -> bool {
        let was_up = self.enabled && self.health.is_up();
        if self.enabled && !enabled {
            self.health.fail(false, now);
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
        self.rate.suggest(measured, now);
    }

    pub fn rate(&self) -> &PathRate {
        &self.rate
    }

    pub fn status(&self) -> PathStatus {
        let round_trips = self.health.round_trips();
        let carrier_rate = self.carrier.and_then(|carrier| carrier.rate());
        PathStatus {
            state: self.health.state(),
            since: self.health.since(),
            rate: carrier_rate.unwrap_or_else(|| self.rate.capacity()),
            pace: carrier_rate.unwrap_or_else(|| self.rate.pace()),
            round_trip: round_trips.smoothed(),
            min_round_trip: round_trips.least(),
            base_delay: self.rate.base_delay(),
            queue: self.rate.queue(),
            loss: self.rate.loss(),
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

    /// Packets sent in a second by a caller that comes each so often, late by as much.
    fn sent_by_a_caller(interval: Span) -> u64 {
        let start = Time::ZERO + Span::from_secs(1);
        let rate = Some(Rate::from_mbit(80));
        let mut path = Path::new(PathConfig { rate, ..PathConfig::default() }, start);
        let (mut now, mut sent) = (start, 0);
        while now < start + Span::from_secs(1) {
            now += interval;
            let late = now - path.release;
            while path.release <= now {
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
