use crate::congestion_control::control::TARGET_QUEUE_DELAY;
use crate::congestion_control::shared_rate::SharedRateView;
use crate::outer_transport::in_flight_control::{InFlightControl, StreamDelivery};
use crate::outer_transport::kind::OuterTransport;
use crate::path::long_packets::LongPacketLosses;
use crate::path::report::PathReport;
use crate::path::sent_log::{SentLog, SentPacket};
use crate::path::shared::{PathObservation, ShardPath};
use crate::path_health::health::{PathHealth, PathState};
use crate::tcp_over_tcp_tuning::TcpOverTcpTuning;
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
    /// What carries its packets. Datagrams are paced by this end, at the rate that is found out by the traffic itself; connections take
    /// what they have room for ([`Bond::update_transport`](crate::Bond::update_transport)).
    pub transport: OuterTransport,
    /// Of connections: what is done so that they carry flows well.
    pub tuning: TcpOverTcpTuning,
}

impl PathConfig {
    fn new_in_flight_control(&self, now: Time) -> Option<InFlightControl> {
        let is_asked = self.transport == OuterTransport::Tcp;
        is_asked.then(|| InFlightControl::new(self.tuning.limits_in_flight, now))
    }
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStatus {
    /// What carries its packets.
    pub transport: OuterTransport,
    /// Whether it is used.
    pub state: PathState,
    /// When it came into that state.
    pub state_since: Time,
    /// What it carries, in bits of IP packets on it.
    pub rate: Rate,
    /// The rate at which packets are sent now.
    pub pacing_rate: Rate,
    /// Smoothed round-trip time (RFC 6298).
    pub round_trip: Option<Span>,
    /// Least round-trip time of the last 10 to 20 s.
    pub min_round_trip: Option<Span>,
    /// One-way delay of a full packet while the path is empty, plus the offset of the far end's clock, which is the same
    /// for all paths.
    pub base_delay: Option<Span>,
    /// How long packets wait in the path's own queue.
    pub queue_delay: Span,
    /// Ratio of packets that are lost, but for those lost because too much was sent.
    pub loss_ratio: f64,
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
pub(crate) struct PathSender {
    config: PathConfig,
    sent_log: SentLog,
    /// Pace and rate.
    shard: ShardPath,
    health: PathHealth,
    is_enabled: bool,
    /// Another carrier is in use: little but probes leaves on it.
    is_standby: bool,
    /// The longest packet that it passes; 0 while that is not known.
    max_bytes: u32,
    sent_bytes: u64,
    lost_packets: u64,
    /// Bytes sent up to the packet that was reported last.
    reported_bytes: u64,
    /// Packets that arrived, and their bytes.
    delivered: (u64, u64),
    long_packet_losses: LongPacketLosses,
    /// The counter after the highest one that a report has told of.
    next_unreported: u64,
    /// So many datagrams may be on their way without a report.
    max_unreported: u64,
    /// Where that controls the flow.
    in_flight_control: Option<InFlightControl>,
}

/// Datagrams with packets that may be on their way without a report, over all paths in use together, each of which has the same part: as
/// many as counters and numbers are told apart by their lowest bits ([`crate::message`];
/// [`CounterReference::MAX_COUNTERS_AHEAD`](kumade_noise_session::CounterReference::MAX_COUNTERS_AHEAD)). With two paths and 1500 bytes each,
/// 25 MB a path.
pub const MAX_UNREPORTED_DATAGRAMS: u64 = 1 << 15;
/// Four full packets: from about 100 Mbit/s on. Below that, buffers of four packets are to suffice (`a_buffer_of_four_packets_suffices`).
const MIN_BURST_BYTES: u64 = 6000;
/// A carrier with less room than a small packet takes has none.
const MIN_ROOM_BYTES: u64 = 128;
const PROBE_PAYLOAD_BYTES: u32 = 32;
/// What may be open besides the product of pace and round trip.
const UNACKNOWLEDGED_ALLOWANCE: Span = Span::from_millis(100);
const UNACKNOWLEDGED_ALLOWANCE_BYTES: u64 = 16_000;

impl PathSender {
    pub fn new(config: PathConfig, part: ShardPath, now: Time) -> Self {
        PathSender {
            config,
            sent_log: SentLog::new(),
            shard: part,
            health: PathHealth::new(now),
            is_enabled: true,
            is_standby: false,
            max_bytes: u32::MAX,
            sent_bytes: 0,
            lost_packets: 0,
            reported_bytes: 0,
            delivered: (0, 0),
            long_packet_losses: LongPacketLosses::default(),
            next_unreported: 0,
            max_unreported: MAX_UNREPORTED_DATAGRAMS,
            in_flight_control: config.new_in_flight_control(now),
        }
    }

    /// Something else carries it from now on, which adds so many bytes to each packet.
    pub fn set_transport(&mut self, transport: OuterTransport, overhead_bytes: u32, now: Time) {
        self.config.overhead_bytes = overhead_bytes;
        if self.config.transport != transport {
            self.config.transport = transport;
            self.in_flight_control = self.config.new_in_flight_control(now);
            self.restart_estimation(now);
        }
    }

    /// Another carrier is in use, or this one again. Meanwhile probes find the queues of the other's packets, and tell nothing of
    /// the rate.
    pub fn set_standby(&mut self, is_spare: bool, now: Time) {
        if self.is_standby && !is_spare {
            self.shard.path_interrupted(now);
        }
        self.is_standby = is_spare;
    }

    /// What carries its packets.
    pub fn transport(&self) -> OuterTransport {
        self.config.transport
    }

    pub fn is_up(&self) -> bool {
        self.is_enabled && self.health.is_up() && self.max_bytes > 0
    }

    /// Whether it is not taken out of use.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Whether it may be kept for small packets of sparse flows.
    pub fn duplicates_sparse_flows(&self) -> bool {
        self.config.tuning.duplicates_sparse_flows
    }

    /// Whether its carrier is not to be given datagrams that have waited too long.
    pub fn drops_stale_data(&self) -> bool {
        self.in_flight_control.is_some() && self.config.tuning.drops_stale_datagrams
    }

    /// Whether its carrier is not to be given what it has already.
    pub fn suppresses_retransmissions(&self) -> bool {
        self.in_flight_control.is_some() && self.config.tuning.drops_retransmissions
    }

    /// Whether it passes a packet of so many bytes within the encapsulation.
    pub fn fits_packet(&self, size: u32) -> bool {
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

    /// So many paths are in use together, at least one.
    pub fn set_path_count(&mut self, paths: usize) {
        self.max_unreported = MAX_UNREPORTED_DATAGRAMS / paths.max(1) as u64;
    }

    /// When it can take a packet; none while it is not up, or too much is unanswered.
    pub fn ready_at(&self) -> Option<Time> {
        if self.next_counter() - self.next_unreported >= self.max_unreported {
            return None;
        }
        if let Some(carrier) = self.in_flight_control {
            return (self.is_up() && carrier.room_bytes() >= MIN_ROOM_BYTES).then(|| self.shard.last_sent());
        }
        (self.is_up() && self.sent_log.unacknowledged_bytes() < self.max_in_flight_bytes())
            .then(|| self.shard.shard_ready_at())
    }

    /// How its carrier does now. `all_failed` says that no path was up of late. Returns whether the path is up because of it.
    pub fn update_transport(&mut self, state: StreamDelivery, all_failed: bool, now: Time) -> bool {
        let round_trips = self.health.round_trips();
        let Some(carrier) = &mut self.in_flight_control else { return false };
        let delivers = state.delivered_bytes > carrier.delivered_bytes();
        carrier.update(state, round_trips.min_round_trip(), round_trips.smoothed(), now);
        if !delivers || !self.health.record_delivery(all_failed, now) {
            return false;
        }
        // Probes of the time when it was down say nothing of now.
        self.sent_log.clear();
        self.is_up()
    }

    /// What its carrier is given, where that controls the flow.
    pub fn in_flight_control(&self) -> Option<&InFlightControl> {
        self.in_flight_control.as_ref()
    }

    /// Whether it takes packets at its pace: it is up, and not too much is unanswered.
    pub fn is_open(&self) -> bool {
        self.ready_at().is_some()
    }

    fn max_in_flight_bytes(&self) -> u64 {
        let round_trip = self.health.round_trips().smoothed().unwrap_or_default();
        self.rate().pacing_rate().bytes_in(round_trip * 5 / 4 + UNACKNOWLEDGED_ALLOWANCE)
            + UNACKNOWLEDGED_ALLOWANCE_BYTES
    }

    /// When a packet of this size arrives if it is handed over behind `ahead` bytes, by a clock that is the same for all
    /// paths.
    pub fn estimate_arrival(&self, ahead: u64, size: u32, now: Time) -> Time {
        let bytes = ahead + u64::from(size + self.config.overhead_bytes);
        let (start, rate) = (self.shard.path_free_at().max(now), self.rate());
        start + self.shard_rate().time_for(bytes) + rate.base_delay().unwrap_or_default() + rate.queue_delay()
    }

    /// What it carries of this shard's packets while those of others wait, too.
    pub fn shard_rate(&self) -> Rate {
        Rate::from_f64(self.rate().capacity().as_f64() * self.shard.shard_fraction())
    }

    /// What it is sent of them, at most.
    pub fn shard_pacing_rate(&self) -> Rate {
        Rate::from_f64(self.rate().pacing_rate().as_f64() * self.shard.shard_fraction())
    }

    /// What may leave at once: as much as it is sent in half of the delay at which its queue is aimed. None where a buffer was found too small for
    /// that, since bursts would have it overflow before the queue is seen; nor where it would be a few packets, which cost little one by one.
    pub fn burst_bytes(&self) -> u64 {
        let target = self.rate().target_queue_delay();
        let bytes = self.shard_pacing_rate().bytes_in(target / 2);
        if target < TARGET_QUEUE_DELAY || bytes < MIN_BURST_BYTES { 0 } else { bytes }
    }

    /// The same of what it may carry; see [`SharedRateView::potential_rate`](crate::congestion_control::shared_rate::SharedRateView::potential_rate).
    pub fn shard_potential_rate(&self, fastest: Rate) -> Rate {
        Rate::from_f64(self.rate().potential_rate(fastest).as_f64() * self.shard.shard_fraction())
    }

    /// Packets wait for it, of so many flows; of none, if not.
    pub fn set_waiting_flows(&self, flows: u32) {
        self.shard.set_waiting_flows(flows);
    }

    /// It might have sent, but there was nothing.
    pub fn record_idle(&mut self, now: Time) {
        self.shard.record_idle(now);
    }

    /// It might have sent, but the next packet is for another path.
    pub fn record_out_of_turn(&mut self, now: Time) {
        self.shard.record_out_of_turn(now);
    }

    /// A packet of so many bytes within the encapsulation leaves, perhaps shortened; returns its counter. The caller comes `late`.
    pub fn send_packet(&mut self, (size, is_shortened): (u32, bool), late: Span, now: Time) -> u64 {
        let departure = self.shard.send_packet(self.wire_bytes(size), late, now);
        self.record_departure(SentPacket { is_shortened, ..departure })
    }

    /// The counter of what leaves next.
    pub fn next_counter(&self) -> u64 {
        self.sent_log.next_counter()
    }

    /// A probe leaves, whatever the pace; returns its counter.
    pub fn record_probe(&mut self, now: Time) -> u64 {
        let departure = self.shard.record_departure(self.wire_bytes(PROBE_PAYLOAD_BYTES), now);
        self.record_departure(departure)
    }

    /// Whether a packet that leaves now should be answered at once: it tells the delay of the empty path.
    pub fn claim_report_request(&mut self, now: Time) -> bool {
        self.shard.claim_report_request(now)
    }

    fn record_departure(&mut self, departure: SentPacket) -> u64 {
        if let Some(carrier) = &mut self.in_flight_control {
            carrier.record_sent(departure.size);
        }
        self.sent_bytes += u64::from(departure.size);
        self.health.record_sent(departure.time);
        self.sent_log.push(departure)
    }

    /// Bytes on the path of a packet with so many in it.
    pub fn wire_bytes(&self, size: u32) -> u32 {
        size.saturating_add(self.config.overhead_bytes)
    }

    /// Takes a report; returns whether the path is up because of it.
    pub fn record_report(&mut self, report: &PathReport, now: Time) -> bool {
        self.next_unreported =
            self.next_unreported.max(self.next_counter().min(report.highest_counter.saturating_add(1)));
        let Some((sent, long)) = self.sent_log.take_reported(report) else { return false };
        let round_trip = now - sent.time - report.hold_time;
        // What the log has was sent, so that there are no more packets than their counters say, whatever the far end does.
        let sent_packets = report.highest_counter.saturating_add(1);
        let received_packets = report.received_packets.min(sent_packets);
        let lost = sent_packets - received_packets;
        let sent_bytes = sent.logged_bytes - self.reported_bytes;
        let received_bytes = report.received_bytes.saturating_sub(self.delivered.1);
        let capacity = self.rate().capacity();
        self.long_packet_losses.record_report(long, sent_bytes.saturating_sub(received_bytes), capacity, now);
        let seen = PathObservation {
            now,
            sent,
            arrival: report.arrival,
            round_trip,
            sent_bytes,
            received_bytes,
            lost_packets: lost.wrapping_sub(self.lost_packets) as i64,
            // Probes that are lost tell nothing of the rate.
            is_probing_only: self.is_standby || matches!(self.health.state(), PathState::Down { .. }),
        };
        (self.lost_packets, self.reported_bytes, self.delivered) =
            (lost, sent.logged_bytes, (received_packets, report.received_bytes));
        if self.in_flight_control.is_none() {
            self.shard.record_observation(&seen);
        }
        self.health.record_answer(round_trip, now) && self.is_enabled
    }

    /// Whether the path may have ceased to pass long packets, since this was last asked.
    pub fn take_long_packet_suspicion(&mut self) -> bool {
        self.long_packet_losses.take_suspicion()
    }

    /// What was lost was too long for the path, and no sign of what it carries.
    pub fn undo_rate_reduction(&mut self, now: Time) {
        if let Some(rate) = self.long_packet_losses.rate_before(now) {
            self.shard.suggest_capacity(rate, now);
        }
    }

    /// Whether the path has failed by now.
    pub fn check_health(&mut self, now: Time) -> bool {
        let failed = self.health.check_timeout(&self.sent_log, now);
        if failed {
            self.restart_estimation(now);
        }
        if self.in_flight_control.is_some() {
            // A connection that waits for its retransmission timer is one to avoid, not one to distrust.
            self.health.forgive_failures();
        }
        failed && self.is_enabled
    }

    /// It may be used as soon as it answers.
    pub fn end_hold_down(&mut self, now: Time) {
        self.health.end_hold_down(now);
    }

    fn restart_estimation(&mut self, now: Time) {
        self.sent_log.clear();
        self.shard.path_interrupted(now);
    }

    /// Takes the path out of use, or back into it; returns whether that changes whether it is up.
    pub fn set_enabled(&mut self, enabled: bool, now: Time) -> bool {
        let was_up = self.is_enabled && self.health.is_up();
        if self.is_enabled && !enabled {
            self.health.disable(now);
            self.restart_estimation(now);
        }
        self.is_enabled = enabled;
        was_up && !enabled
    }

    /// While it is idle, it is probed so many times more seldom.
    pub fn set_idle_interval_factor(&mut self, factor: u32) {
        self.health.set_idle_interval_factor(factor);
    }

    /// Whether a probe is to be sent now.
    pub fn is_probe_due(&self, now: Time) -> bool {
        self.is_enabled && self.health.is_probe_due(&self.sent_log, now)
    }

    /// When its state may change unless something is answered.
    pub fn deadline(&self) -> Option<Time> {
        self.health.deadline(&self.sent_log).filter(|_| self.is_enabled)
    }

    /// A measurement says what it carries.
    pub fn suggest_rate(&mut self, measured: Rate, now: Time) {
        self.shard.suggest_capacity(measured, now);
    }

    pub fn rate(&self) -> &SharedRateView {
        self.shard.rate()
    }

    pub fn status(&self) -> PathStatus {
        let round_trips = self.health.round_trips();
        let carrier_rate = self.in_flight_control.and_then(|carrier| carrier.rate());
        PathStatus {
            transport: self.transport(),
            state: self.health.state(),
            state_since: self.health.state_since(),
            rate: carrier_rate.unwrap_or_else(|| self.rate().capacity()),
            pacing_rate: carrier_rate.unwrap_or_else(|| self.rate().pacing_rate()),
            round_trip: round_trips.smoothed(),
            min_round_trip: round_trips.min_round_trip(),
            base_delay: self.rate().base_delay(),
            queue_delay: self.rate().queue_delay(),
            loss_ratio: self.rate().loss_ratio(),
            sent_packets: self.sent_log.next_counter(),
            sent_bytes: self.sent_bytes,
            lost_packets: self.lost_packets,
            delivered_packets: self.delivered.0,
            delivered_bytes: self.delivered.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::shared::SharedPath;
    use std::sync::Arc;

    /// Packets sent in a second by a caller that comes each so often, late by as much.
    fn sent_by_a_caller(interval: Span) -> u64 {
        let start = Time::ZERO + Span::from_secs(1);
        let rate = Some(Rate::from_mbit(80));
        let part = ShardPath::new(Arc::new(SharedPath::new(rate, None, 1, start)), 0);
        let mut path = PathSender::new(PathConfig { rate, ..PathConfig::default() }, part, start);
        let (mut now, mut sent) = (start, 0);
        while now < start + Span::from_secs(1) {
            now += interval;
            let late = now - path.shard.path_free_at();
            while path.shard.path_free_at() <= now {
                path.send_packet((1000, false), late, now);
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
