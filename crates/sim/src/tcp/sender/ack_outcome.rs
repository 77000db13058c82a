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
    pub(super) lost: u32,
    pub(super) was_in_flight: u32,
    /// The one sent last of what was delivered.
    pub(super) newest: Option<SentSegment>,
    /// The earliest and the latest sending of what was sent once.
    pub(super) first_sent: Option<Time>,
    pub(super) last_sent: Option<Time>,
    /// Something arrived twice.
    pub(super) duplicate: bool,
    /// What it acknowledges was sent before anything was sent again: it was not lost.
    pub(super) late_original: bool,
}

/// Linux's `tcp_max_reordering`.
const MAX_REORDERING_SEGMENTS: u32 = 300;

impl Sender {
    /// Enters an acknowledgement into the scoreboard.
    pub(super) fn update_scoreboard(&mut self, ack: &TcpAcknowledgement, may_be_duplicate: bool) -> AckOutcome {
        let mut outcome = AckOutcome { was_in_flight: self.board.in_flight(), ..AckOutcome::default() };
        let (first, arrived_end) = (self.board.first_outstanding(), self.board.arrived_end());
        let duplicates = self.board.duplicate_acks();
        let reordering = &mut self.reordering;
        let mut delivered = |number: u32, segment: SentSegment, echo: Option<Time>| {
            outcome.record_delivered(segment, echo);
            if !segment.again && number < arrived_end {
                reordering.record_reordering();
            }
        };
        self.board.acknowledge(ack.next, |number, segment| delivered(number, segment, Some(ack.echo)));
        let blocks = if self.config.recovery.detection == LossDetection::RackTlp { &ack.blocks[..] } else { &[] };
        for block in blocks.iter().skip(usize::from(ack.duplicate)).filter(|block| !block.is_empty()) {
            self.board.acknowledge_block(*block, |number, segment| delivered(number, segment, None));
        }
        outcome.acked = self.board.first_outstanding() - first;
        if !self.has_sack() {
            self.count_duplicates(&mut outcome, duplicates, may_be_duplicate);
        }
        outcome.late_original =
            outcome.acked > 0 && self.undo.as_ref().is_some_and(|undo| undo.answered_first(ack.echo));
        if outcome.late_original && arrived_end > first {
            self.reordering.record_reordering();
        }
        self.delivery.total += u64::from(outcome.delivered);
        if ack.duplicate {
            outcome.duplicate = true;
            if self.probe.is_none() {
                self.reordering.record_duplicate(self.board.first_outstanding(), self.board.next());
            }
            if let Some(undo) = &mut self.undo {
                undo.record_duplicate(ack.blocks[0].start);
            }
        }
        outcome
    }

    /// Without SACK, an acknowledgement of nothing new says that something has arrived; `before` is what others said so.
    fn count_duplicates(&mut self, outcome: &mut AckOutcome, before: u32, may_be_duplicate: bool) {
        if outcome.acked > 0 {
            outcome.delivered = outcome.acked.saturating_sub(before).max(1);
            self.limit_duplicates(outcome.acked);
            if self.phase != RecoveryPhase::Recovering {
                self.board.clear_duplicate_acks();
            }
        } else if may_be_duplicate && (self.phase != RecoveryPhase::TimedOut || self.board.next() > self.point) {
            self.board.add_duplicate_ack();
            outcome.delivered = u32::from(!self.limit_duplicates(0));
        }
    }

    /// More duplicate acknowledgements than segments that may have arrived are taken for reordering, as in Linux
    /// (`tcp_check_reno_reordering`): the next loss is found only after as many. What a timeout sends again in vain brings them,
    /// too, so that without SACK one timeout leads to another.
    fn limit_duplicates(&mut self, acked: u32) -> bool {
        let are_more = self.board.limit_duplicate_acks();
        if are_more {
            self.tolerated = (self.board.outstanding() + acked).min(MAX_REORDERING_SEGMENTS);
        }
        are_more
    }

    /// Karn's rule: what was sent again is measured by the echoed stamp alone (RFC 7323).
    pub(super) fn update_round_trip(&mut self, ack: &TcpAcknowledgement, outcome: &AckOutcome, now: Time) {
        let sent = outcome.first_sent.or((outcome.acked > 0).then_some(ack.echo));
        if let Some(sent) = sent.filter(|sent| *sent <= now) {
            self.trips.record_sample(now - sent);
        }
        if let Some(newest) = &outcome.newest {
            self.reordering.record_arrival(newest, now, self.trips.min_round_trip());
        }
    }

    pub(super) fn notify_controller(&mut self, outcome: &AckOutcome, now: Time) {
        let least = self.trips.min_round_trip().unwrap_or(Span::ZERO);
        let packet_bytes = self.config.packet_bytes;
        let delivery = outcome.newest.and_then(|newest| self.delivery.sample(&newest, now, least, packet_bytes));
        let slow_start = self.controller.window() < self.controller.threshold();
        let ack = Ack {
            now,
            acked: outcome.acked,
            delivered: outcome.delivered,
            lost: outcome.lost,
            round_trip: outcome.last_sent.map(|sent| now - sent),
            smoothed_round_trip: self.trips.smoothed().unwrap_or(Span::ZERO),
            in_flight: self.board.in_flight(),
            was_in_flight: outcome.was_in_flight,
            window_limited: self.usage.is_window_limited(slow_start, self.controller.window()),
            reduction: match self.phase {
                RecoveryPhase::Reducing => Some(Reduction::Mark),
                RecoveryPhase::Recovering => Some(Reduction::Loss),
                RecoveryPhase::Open | RecoveryPhase::TimedOut => None,
            },
            delivery,
            total_delivered: self.delivery.total,
            delivered_when_sent: outcome.newest.map_or(0, |newest| newest.delivered),
        };
        self.controller.acknowledged(&ack);
    }
}

impl AckOutcome {
    /// A segment was delivered. The stamp that an acknowledgement in sequence echoes may show that it was not the last
    /// sending that arrived (RFC 8985, section 6.2, step 2).
    fn record_delivered(&mut self, segment: SentSegment, echo: Option<Time>) {
        self.delivered += 1;
        if segment.again && echo.is_some_and(|echo| echo < segment.sent) {
            return;
        }
        if self.newest.is_none_or(|newest| newest.order < segment.order) {
            self.newest = Some(segment);
        }
        if !segment.again {
            self.first_sent = Some(self.first_sent.map_or(segment.sent, |first| first.min(segment.sent)));
            self.last_sent = self.last_sent.max(Some(segment.sent));
        }
    }
}
