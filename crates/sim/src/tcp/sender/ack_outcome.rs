use super::Sender;
use crate::tcp::TcpAcknowledgement;
use crate::tcp::congestion::{Ack, Reduction};
use crate::tcp::recovery::RecoveryPhase;
use crate::tcp::recovery_config::LossDetection;
use crate::tcp::scoreboard::SentSegment;
use kumade_units::{Span, Time};

/// What one acknowledgement brought.
#[derive(Debug, Default)]
pub(super) struct AckOutcome {
    pub(super) acked: u32,
    pub(super) delivered: u32,
    /// Segments that the receiver newly says were marked, for a controller that counts them.
    pub(super) marked: u32,
    pub(super) lost: u32,
    pub(super) in_flight_before: u32,
    /// The one sent last of what was delivered.
    pub(super) newest_delivered: Option<SentSegment>,
    /// The earliest and the latest sending of what was sent once.
    pub(super) first_sent: Option<Time>,
    pub(super) last_sent: Option<Time>,
    /// Something arrived twice.
    pub(super) has_duplicate: bool,
    /// What it acknowledges was sent before anything was sent again: it was not lost.
    pub(super) is_late_original: bool,
}

/// Linux's `tcp_max_reordering`.
const MAX_REORDERING_SEGMENTS: u32 = 300;

impl Sender {
    /// Enters an acknowledgement into the scoreboard.
    pub(super) fn update_scoreboard(&mut self, ack: &TcpAcknowledgement, may_be_duplicate: bool) -> AckOutcome {
        let mut outcome = AckOutcome { in_flight_before: self.scoreboard.in_flight(), ..AckOutcome::default() };
        let (first, arrived_end) = (self.scoreboard.first_outstanding(), self.scoreboard.arrived_end());
        let duplicates = self.scoreboard.duplicate_acks();
        let reordering = &mut self.reordering;
        let mut delivered = |number: u32, segment: SentSegment, echo: Option<Time>| {
            outcome.record_delivered(segment, echo);
            if !segment.was_retransmitted && number < arrived_end {
                reordering.record_reordering();
            }
        };
        self.scoreboard.acknowledge(ack.next, |number, segment| delivered(number, segment, Some(ack.timestamp_echo)));
        let blocks = if self.config.recovery.detection == LossDetection::RackTlp { &ack.sack_blocks[..] } else { &[] };
        for block in blocks.iter().skip(usize::from(ack.is_dsack)).filter(|block| !block.is_empty()) {
            self.scoreboard.acknowledge_block(*block, |number, segment| delivered(number, segment, None));
        }
        outcome.acked = self.scoreboard.first_outstanding() - first;
        if !self.has_sack() {
            self.count_duplicates(&mut outcome, duplicates, may_be_duplicate);
        }
        // Of what delivers nothing the controller hears nothing: the next one tells it, too.
        outcome.marked = if outcome.delivered > 0 { self.count_marks(ack.ce_packets) } else { 0 };
        outcome.is_late_original =
            outcome.acked > 0 && self.undo.as_ref().is_some_and(|undo| undo.answers_original(ack.timestamp_echo));
        if outcome.is_late_original && arrived_end > first {
            self.reordering.record_reordering();
        }
        self.delivery.delivered += u64::from(outcome.delivered);
        if ack.is_dsack {
            outcome.has_duplicate = true;
            if self.probe.is_none() {
                self.reordering.record_duplicate(self.scoreboard.first_outstanding(), self.scoreboard.next_unsent());
            }
            if let Some(undo) = &mut self.undo {
                undo.record_duplicate(ack.sack_blocks[0].start);
            }
        }
        outcome
    }

    /// How many marks are new to the sender, where the controller wants to know. What comes late and tells of fewer is old.
    fn count_marks(&mut self, ce_packets: u32) -> u32 {
        let new = ce_packets.wrapping_sub(self.ce_packets);
        if !self.controller.counts_marks() || new > u32::MAX / 2 {
            return 0;
        }
        self.ce_packets = ce_packets;
        new
    }

    /// Without SACK, an acknowledgement of nothing new says that something has arrived; `before` is what others said so.
    fn count_duplicates(&mut self, outcome: &mut AckOutcome, before: u32, may_be_duplicate: bool) {
        if outcome.acked > 0 {
            outcome.delivered = outcome.acked.saturating_sub(before).max(1);
            self.limit_duplicates(outcome.acked);
            if self.phase != RecoveryPhase::Recovering {
                self.scoreboard.clear_duplicate_acks();
            }
        } else if may_be_duplicate
            && (self.phase != RecoveryPhase::TimedOut || self.scoreboard.next_unsent() > self.recovery_point)
        {
            self.scoreboard.add_duplicate_ack();
            outcome.delivered = u32::from(!self.limit_duplicates(0));
        }
    }

    /// More duplicate acknowledgements than segments that may have arrived are taken for reordering, as in Linux
    /// (`tcp_check_reno_reordering`): the next loss is found only after as many. What a timeout sends again in vain brings them,
    /// too, so that without SACK one timeout leads to another.
    fn limit_duplicates(&mut self, acked: u32) -> bool {
        let are_more = self.scoreboard.limit_duplicate_acks();
        if are_more {
            self.duplicate_threshold = (self.scoreboard.outstanding() + acked).min(MAX_REORDERING_SEGMENTS);
        }
        are_more
    }

    /// Karn's rule: what was sent again is measured by the echoed stamp alone (RFC 7323).
    pub(super) fn update_round_trip(&mut self, ack: &TcpAcknowledgement, outcome: &AckOutcome, now: Time) {
        let sent = outcome.first_sent.or((outcome.acked > 0).then_some(ack.timestamp_echo));
        if let Some(sent) = sent.filter(|sent| *sent <= now) {
            self.round_trips.record_sample(now - sent);
        }
        if let Some(newest) = &outcome.newest_delivered {
            self.reordering.record_arrival(newest, now, self.round_trips.min_round_trip());
        }
    }

    pub(super) fn notify_controller(&mut self, outcome: &AckOutcome, now: Time) {
        let least = self.round_trips.min_round_trip().unwrap_or(Span::ZERO);
        let packet_bytes = self.config.packet_bytes;
        let delivery =
            outcome.newest_delivered.and_then(|newest| self.delivery.sample(&newest, now, least, packet_bytes));
        let slow_start = self.controller.window() < self.controller.threshold();
        let ack = Ack {
            now,
            acked: outcome.acked,
            delivered: outcome.delivered,
            marked: outcome.marked,
            lost: outcome.lost,
            round_trip: outcome.last_sent.map(|sent| now - sent),
            smoothed_round_trip: self.round_trips.smoothed().unwrap_or(Span::ZERO),
            in_flight: self.scoreboard.in_flight(),
            was_in_flight: outcome.in_flight_before,
            window_limited: self.usage.is_window_limited(slow_start, self.controller.window()),
            reduction: match self.phase {
                RecoveryPhase::Reducing => Some(Reduction::Mark),
                RecoveryPhase::Recovering => Some(Reduction::Loss),
                RecoveryPhase::Open | RecoveryPhase::TimedOut => None,
            },
            delivery,
            total_delivered: self.delivery.delivered,
            delivered_when_sent: outcome.newest_delivered.map_or(0, |newest| newest.delivered),
        };
        self.controller.on_ack(&ack);
    }
}

impl AckOutcome {
    /// A segment was delivered. The stamp that an acknowledgement in sequence echoes may show that it was not the last
    /// sending that arrived (RFC 8985, section 6.2, step 2).
    fn record_delivered(&mut self, segment: SentSegment, echo: Option<Time>) {
        self.delivered += 1;
        if segment.was_retransmitted && echo.is_some_and(|echo| echo < segment.sent) {
            return;
        }
        if self.newest_delivered.is_none_or(|newest| newest.order < segment.order) {
            self.newest_delivered = Some(segment);
        }
        if !segment.was_retransmitted {
            self.first_sent = Some(self.first_sent.map_or(segment.sent, |first| first.min(segment.sent)));
            self.last_sent = self.last_sent.max(Some(segment.sent));
        }
    }
}
