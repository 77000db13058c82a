mod ack_outcome;
mod losses;
mod usage;

use super::congestion::Controller;
use super::delivery::DeliveryRateSampler;
use super::recovery::{RateReduction, RecoveryPhase, UndoState};
use super::recovery_config::{LossDetection, RecoveryConfig};
use super::reordering::{DUPLICATE_THRESHOLD, RackState};
use super::scoreboard::{Scoreboard, SegmentState, SentSegment};
use super::timers::{RoundTripEstimator, Timer};
use super::{TcpAcknowledgement, TcpData};
use kumade_units::{Rate, Span, Time};
use usage::WindowUsage;

/// The settings of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderConfig {
    /// IP bytes of a segment with its headers, for pacing.
    pub packet_bytes: u32,
    /// The number of segments to send.
    pub segments: u32,
    /// The receiver's window in segments.
    pub receive_window: u32,
    /// How it finds and repairs losses.
    pub recovery: RecoveryConfig,
}

/// The counters of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderStatistics {
    /// Segments sent, retransmissions included.
    pub sent_segments: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Expirations of the retransmission timer.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985).
    pub probes: u64,
    /// Reductions of the window.
    pub reductions: u64,
    /// Recoveries and timeouts that were spurious and undone.
    pub undone_reductions: u64,
}

impl SenderStatistics {
    /// What was added since `earlier`, a copy of this taken before.
    #[must_use]
    pub fn since(&self, earlier: &SenderStatistics) -> SenderStatistics {
        SenderStatistics {
            sent_segments: self.sent_segments - earlier.sent_segments,
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeouts: self.timeouts - earlier.timeouts,
            probes: self.probes - earlier.probes,
            reductions: self.reductions - earlier.reductions,
            undone_reductions: self.undone_reductions - earlier.undone_reductions,
        }
    }
}

/// The sender of a connection. Tell it of every [`TcpAcknowledgement`] and call [`Sender::on_time`] at [`Sender::next_time`]; after
/// either, and at the start, call [`Sender::poll_send`] until it returns nothing.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    controller: Box<dyn Controller>,
    scoreboard: Scoreboard,
    round_trips: RoundTripEstimator,
    reordering: RackState,
    delivery: DeliveryRateSampler,
    /// Without SACK: so many duplicate acknowledgements mean a loss.
    duplicate_threshold: u32,
    phase: RecoveryPhase,
    /// What was next when the phase began: it ends when that is reached.
    recovery_point: u32,
    reduction: RateReduction,
    /// What may be in flight while the window shrinks.
    reduced_window: u32,
    undo: Option<UndoState>,
    timer: Option<(Time, Timer)>,
    probe: Option<TailLossProbe>,
    /// Sent whatever the window says: a probe, or what a timeout sends again.
    forced_send: Option<ForcedSend>,
    usage: WindowUsage,
    /// The next segment may leave then, if the controller paces.
    next_send_time: Time,
    /// Only the pace holds it back.
    is_held_by_pacing: bool,
    /// The next new segment says that the window was reduced, for whatever reason (RFC 3168, section 6.1.2).
    announce_reduction: bool,
    timed_out_at: Option<u32>,
    /// Marks that acknowledgements have told of.
    ce_packets: u32,
    statistics: SenderStatistics,
}

/// A probe whose fate is open.
#[derive(Debug, Clone, Copy)]
struct TailLossProbe {
    /// What was next after it.
    end: u32,
    /// Whether it sent something again.
    is_retransmission: bool,
}

#[derive(Debug, Clone, Copy)]
enum ForcedSend {
    New,
    Retransmission(u32),
}

impl Sender {
    /// A sender with all its segments to send.
    pub fn new(config: SenderConfig, controller: Box<dyn Controller>) -> Self {
        Sender {
            config,
            controller,
            scoreboard: Scoreboard::default(),
            round_trips: RoundTripEstimator::new(&config.recovery),
            reordering: RackState::new(),
            delivery: DeliveryRateSampler::new(),
            duplicate_threshold: DUPLICATE_THRESHOLD,
            phase: RecoveryPhase::Open,
            recovery_point: 0,
            reduction: RateReduction::default(),
            reduced_window: 0,
            undo: None,
            timer: None,
            probe: None,
            forced_send: None,
            usage: WindowUsage::default(),
            next_send_time: Time::ZERO,
            is_held_by_pacing: false,
            announce_reduction: false,
            timed_out_at: None,
            ce_packets: 0,
            statistics: SenderStatistics::default(),
        }
    }

    /// Takes the round trip of the handshake for the first one measured, as Linux does.
    pub fn record_handshake(&mut self, round_trip: Span) {
        self.round_trips.record_sample(round_trip);
    }

    /// Sends nothing new any more; what is lost is still sent again.
    pub fn stop(&mut self) {
        self.config.segments = self.config.segments.min(self.scoreboard.next_unsent());
    }

    /// Has so many segments to send besides those that it has sent.
    pub fn offer(&mut self, segments: u32) {
        self.config.segments = self.scoreboard.next_unsent().saturating_add(segments).min(u32::MAX - 1);
    }

    /// It has less to send than it may: what it delivers from now on tells only at least what the path carries
    /// (draft-cheng-iccrg-delivery-rate-estimation, section 3.4).
    pub fn record_application_limit(&mut self) {
        if self.scoreboard.in_flight() < self.window() && self.scoreboard.lost_count() == 0 {
            self.delivery.record_application_limit(self.scoreboard.in_flight());
        }
    }

    /// The first segment that is not acknowledged in sequence.
    pub fn first_outstanding(&self) -> u32 {
        self.scoreboard.first_outstanding()
    }

    /// The first segment that was never sent.
    pub fn next_number(&self) -> u32 {
        self.scoreboard.next_unsent()
    }

    /// Segments that have arrived, in order or not.
    pub fn delivered(&self) -> u64 {
        self.delivery.delivered
    }

    /// The rate at which the network delivered of late, in IP-layer bits per second, once that is known.
    pub fn delivery_rate(&self) -> Option<Rate> {
        self.delivery.rate()
    }

    /// Whether it repeats what was lost.
    pub fn is_recovering(&self) -> bool {
        self.phase != RecoveryPhase::Open
    }

    /// Whether all is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.scoreboard.first_outstanding() >= self.config.segments
    }

    /// The counters.
    pub fn statistics(&self) -> &SenderStatistics {
        &self.statistics
    }

    /// The smoothed round-trip time, once there was one.
    pub fn smoothed_round_trip(&self) -> Option<Span> {
        self.round_trips.smoothed()
    }

    /// By how much the smoothed round-trip time exceeds the least.
    pub fn excess_round_trip(&self) -> Span {
        self.round_trips
            .smoothed()
            .zip(self.round_trips.min_round_trip())
            .map_or(Span::ZERO, |(smoothed, least)| smoothed - least)
    }

    /// Segments that may be in flight now.
    pub fn window(&self) -> u32 {
        match self.phase {
            RecoveryPhase::Reducing | RecoveryPhase::Recovering if !self.controller.sets_window_in_recovery() => {
                self.reduced_window
            }
            _ => (self.controller.window() as u32).max(1),
        }
    }

    /// Segments believed to be on their way.
    pub fn in_flight(&self) -> u32 {
        self.scoreboard.in_flight()
    }

    /// When to call [`Sender::on_time`].
    pub fn next_time(&self) -> Option<Time> {
        let release = self.is_held_by_pacing.then_some(self.next_send_time);
        self.timer.map(|(time, _)| time).into_iter().chain(release).min()
    }

    /// The segment to send now, if any.
    pub fn poll_send(&mut self, now: Time) -> Option<TcpData> {
        self.is_held_by_pacing = false;
        match self.forced_send.take() {
            Some(ForcedSend::New) if self.can_send_new() => return Some(self.send_new(now)),
            Some(ForcedSend::Retransmission(number)) if self.scoreboard.is_awaited(number) => {
                return Some(self.retransmit(number, now));
            }
            _ => (),
        }
        let open = self.scoreboard.in_flight() < self.window();
        let lost = self.scoreboard.lost_count() > 0;
        if !open || !(lost || self.can_send_new()) {
            self.usage.record_usage(!open, &self.scoreboard);
            return None;
        }
        if self.next_send_time > now {
            self.is_held_by_pacing = true;
            return None;
        }
        match self.scoreboard.next_lost() {
            Some(number) => Some(self.retransmit(number, now)),
            None => Some(self.send_new(now)),
        }
    }

    /// Takes an acknowledgement. One that makes no sense changes nothing.
    pub fn acknowledge(&mut self, ack: &TcpAcknowledgement, now: Time) {
        self.acknowledge_beside_data(ack, true, now);
    }

    /// The same where data comes back, too. `may_be_duplicate` says whether the acknowledgement may count as a duplicate one, if
    /// it acknowledges nothing new (RFC 5681, section 2).
    pub fn acknowledge_beside_data(&mut self, ack: &TcpAcknowledgement, may_be_duplicate: bool, now: Time) {
        if ack.next > self.scoreboard.next_unsent() {
            return;
        }
        let mut outcome = self.update_scoreboard(ack, may_be_duplicate);
        self.update_round_trip(ack, &outcome, now);
        self.evaluate_probe(ack, &outcome, now);
        self.process_losses(ack, &mut outcome, now);
        if outcome.delivered > 0 {
            self.notify_controller(&outcome, now);
        }
        if self.is_window_shrinking() && outcome.delivered > 0 {
            let progress = outcome.acked > 0 && outcome.lost == 0;
            self.update_reduced_window(outcome.delivered, progress);
        }
        if outcome.delivered > 0 || self.timer.is_none() {
            self.set_timer(now);
        }
    }

    /// Does what is due.
    pub fn on_time(&mut self, now: Time) {
        let Some((_, timer)) = self.timer.filter(|(time, _)| *time <= now) else { return };
        self.timer = None;
        match timer {
            Timer::Reordering => {
                let lost = self.detect_losses(now);
                if lost > 0 && self.phase != RecoveryPhase::Recovering {
                    self.enter_recovery(now);
                    self.update_reduced_window(1, false);
                }
                self.set_timer(now);
            }
            Timer::Probe => self.send_tail_loss_probe(now),
            Timer::Retransmission => self.on_timeout(now),
        }
    }

    fn has_sack(&self) -> bool {
        self.config.recovery.detection == LossDetection::RackTlp
    }

    fn is_window_shrinking(&self) -> bool {
        matches!(self.phase, RecoveryPhase::Reducing | RecoveryPhase::Recovering)
    }

    fn can_send_new(&self) -> bool {
        self.scoreboard.next_unsent() < self.config.segments
            && self.scoreboard.outstanding() < self.config.receive_window
    }

    /// A segment as it is sent now.
    fn new_segment(&mut self, now: Time) -> SentSegment {
        if self.scoreboard.outstanding() == 0 {
            self.delivery.begin_flight(now);
        }
        SentSegment {
            sent: now,
            order: self.statistics.sent_segments,
            first_sent: self.delivery.first_sent,
            delivered: self.delivery.delivered,
            delivered_at: self.delivery.delivered_at,
            state: SegmentState::InFlight,
            was_retransmitted: false,
            is_application_limited: self.delivery.is_application_limited(),
        }
    }

    fn send_new(&mut self, now: Time) -> TcpData {
        let template = self.new_segment(now);
        let number = self.scoreboard.push(template);
        self.record_sent(now);
        if self.timer.is_none_or(|(_, timer)| timer == Timer::Probe) {
            self.set_timer(now);
        }
        let reduced = std::mem::take(&mut self.announce_reduction);
        TcpData {
            number,
            timestamp: now,
            is_retransmission: false,
            is_last: number + 1 == self.config.segments,
            cwr: reduced,
        }
    }

    fn retransmit(&mut self, number: u32, now: Time) -> TcpData {
        let template = self.new_segment(now);
        self.scoreboard.retransmit(number, template);
        self.record_sent(now);
        self.statistics.retransmissions += 1;
        if let Some(undo) = &mut self.undo {
            undo.record_retransmission(now);
        }
        if number == self.scoreboard.first_outstanding()
            && self.timer.is_none_or(|(_, timer)| timer == Timer::Retransmission)
        {
            self.timer = Some((now + self.round_trips.timeout(), Timer::Retransmission));
        }
        TcpData {
            number,
            timestamp: now,
            is_retransmission: true,
            is_last: number + 1 == self.config.segments,
            cwr: false,
        }
    }

    fn record_sent(&mut self, now: Time) {
        self.statistics.sent_segments += 1;
        if self.is_window_shrinking() {
            self.reduction.record_sent();
        }
        if let Some(rate) = self.controller.pacing_rate() {
            let gap = rate.time_for(self.config.packet_bytes.into()).min(Span::from_secs(1));
            self.next_send_time = self.next_send_time.max(now) + gap;
        }
    }
}
