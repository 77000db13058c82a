//! How a sender finds losses and reacts: what Linux has in `tcp_fastretrans_alert`, `tcp_recovery.c` and `tcp_timer.c`.

use super::ack_outcome::AckOutcome;
use super::{ForcedSend, Sender, TailLossProbe};
use crate::tcp::TcpAcknowledgement;
use crate::tcp::recovery::{RateReduction, RecoveryPhase, UndoState};
use crate::tcp::reordering::DUPLICATE_THRESHOLD;
use crate::tcp::scoreboard::SentSegment;
use crate::tcp::timers::{TIMER_SLACK, Timer};
use kumade_units::{Span, Time};

impl Sender {
    /// Arms the timer for what is to be expected next.
    pub(super) fn set_timer(&mut self, now: Time) {
        let Some(head_sent) = self.scoreboard.head_sent() else {
            self.timer = None;
            return;
        };
        // What an acknowledgement lets go leaves first, and begins to wait anew.
        let timeout_at = (head_sent + self.round_trips.timeout()).max(now + Span::from_nanos(1));
        if !self.has_sack() {
            self.timer = Some((timeout_at, Timer::Retransmission));
            return;
        }
        let window = self.reordering_window();
        let earliest = self.scoreboard.mark_lost(|_| false);
        let deadline = earliest.and_then(|segment| self.reordering.loss_deadline(&segment, window));
        if let Some(deadline) = deadline {
            self.timer = Some((deadline.max(now) + TIMER_SLACK, Timer::Reordering));
            return;
        }
        let calm =
            matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Reducing) && self.scoreboard.arrived_count() == 0;
        self.timer = Some(if calm && self.probe.is_none() && self.round_trips.smoothed().is_some() {
            (self.round_trips.probe_at(now, self.scoreboard.outstanding(), timeout_at), Timer::Probe)
        } else {
            (timeout_at, Timer::Retransmission)
        });
    }

    /// RFC 8985, section 7.3: sends something new, or the last again, to hear whether the tail was lost.
    pub(super) fn send_tail_loss_probe(&mut self, now: Time) {
        let next = self.scoreboard.next_unsent();
        if self.can_send_new() {
            self.forced_send = Some(ForcedSend::New);
            self.probe = Some(TailLossProbe { end: next + 1, is_retransmission: false });
        } else if self.scoreboard.outstanding() > 0 {
            self.forced_send = Some(ForcedSend::Retransmission(next - 1));
            self.probe = Some(TailLossProbe { end: next, is_retransmission: true });
        }
        self.statistics.probes += 1;
        if self.config.recovery.probe_restarts_timeout {
            self.timer = Some((now + self.round_trips.timeout(), Timer::Retransmission));
        } else {
            self.set_timer(now);
        }
    }

    /// RFC 6298, section 5, with RFC 8985, section 6.3: all that should have arrived by now counts as lost.
    pub(super) fn on_timeout(&mut self, now: Time) {
        let first = self.scoreboard.first_outstanding();
        let again = self.timed_out_at == Some(first);
        self.statistics.timeouts += 1;
        if self.phase == RecoveryPhase::Open && self.scoreboard.duplicate_acks() >= DUPLICATE_THRESHOLD {
            self.duplicate_threshold = self.duplicate_threshold.min(DUPLICATE_THRESHOLD);
        }
        let (reordering, has_sack) = (&self.reordering, self.has_sack());
        self.scoreboard.clear_duplicate_acks();
        self.scoreboard.mark_first_lost();
        self.scoreboard.mark_lost(|segment| !has_sack || reordering.is_overdue(segment, now));
        if self.phase != RecoveryPhase::TimedOut || !again {
            self.undo = Some(UndoState::new(first, 0));
            self.statistics.reductions += 1;
        }
        self.controller.on_retransmission_timeout(now, self.scoreboard.in_flight(), again);
        self.timed_out_at = Some(first);
        self.phase = RecoveryPhase::TimedOut;
        self.recovery_point = self.scoreboard.next_unsent();
        self.probe = None;
        self.announce_reduction = true;
        self.round_trips.back_off();
        self.forced_send = Some(ForcedSend::Retransmission(first));
        self.timer = Some((now + self.round_trips.timeout(), Timer::Retransmission));
    }

    /// RFC 8985, section 7.4.
    pub(super) fn evaluate_probe(&mut self, ack: &TcpAcknowledgement, outcome: &AckOutcome, now: Time) {
        let Some(probe) = self.probe.filter(|probe| ack.next >= probe.end) else { return };
        let pure_duplicate = outcome.acked == 0 && outcome.delivered == 0;
        if !probe.is_retransmission || outcome.has_duplicate || pure_duplicate {
            self.probe = None;
        } else if ack.next > probe.end {
            // What the probe repaired was lost: that asks for a reduction, but nothing is left to recover.
            self.begin_reduction(now);
            self.phase = RecoveryPhase::Open;
            self.undo = None;
            self.controller.on_recovery_end(now);
        }
    }

    /// Moves from phase to phase, and finds out what was lost.
    pub(super) fn process_losses(&mut self, ack: &TcpAcknowledgement, outcome: &mut AckOutcome, now: Time) {
        self.leave_phase(outcome, now);
        let in_vain = outcome.is_late_original
            && match self.phase {
                RecoveryPhase::Recovering => self.scoreboard.retransmitted_count() == 0,
                RecoveryPhase::TimedOut => true,
                RecoveryPhase::Open | RecoveryPhase::Reducing => false,
            };
        if in_vain || self.undo.as_ref().is_some_and(UndoState::are_all_duplicated) {
            self.undo_reduction(now);
        }
        let again = self.scoreboard.retransmitted_count();
        outcome.lost = if self.has_sack() { self.detect_losses(now) } else { self.detect_by_duplicates(outcome.acked) };
        // After a timeout only the loss of what was sent again asks for more.
        let anew =
            self.phase != RecoveryPhase::TimedOut || (self.has_sack() && self.scoreboard.retransmitted_count() < again);
        if self.phase != RecoveryPhase::Recovering && self.scoreboard.lost_count() > 0 && anew {
            self.enter_recovery(now);
        } else if ack.ece && self.phase == RecoveryPhase::Open && !self.controller.counts_marks() {
            self.begin_reduction(now);
            self.phase = RecoveryPhase::Reducing;
            self.undo = None;
        }
    }

    /// Ends a phase when what was in flight at its beginning is acknowledged.
    fn leave_phase(&mut self, outcome: &AckOutcome, now: Time) {
        let first = self.scoreboard.first_outstanding();
        let over = match self.phase {
            RecoveryPhase::Open => false,
            RecoveryPhase::Reducing => first > self.recovery_point,
            // Without SACK, what acknowledges no more than that may be followed by duplicates of what was in flight
            // (RFC 6582, section 4.1).
            RecoveryPhase::Recovering | RecoveryPhase::TimedOut => {
                first >= self.recovery_point + u32::from(!self.has_sack())
            }
        };
        if self.phase != RecoveryPhase::Open && first >= self.recovery_point {
            self.scoreboard.clear_duplicate_acks();
        }
        if !over {
            return;
        }
        self.timed_out_at = None;
        if self.phase != RecoveryPhase::Reducing {
            self.reordering.record_recovery_end();
        }
        if outcome.is_late_original {
            self.undo_reduction(now);
        } else {
            self.controller.on_recovery_end(now);
            self.phase = RecoveryPhase::Open;
        }
    }

    /// Takes back the last reduction, and takes nothing for lost but what is found anew.
    fn undo_reduction(&mut self, now: Time) {
        self.scoreboard.restore_lost();
        self.controller.on_spurious_reduction(now);
        self.undo = None;
        self.phase = RecoveryPhase::Open;
        self.statistics.undone_reductions += 1;
    }

    /// RFC 8985, section 6.2, step 5: how many are newly taken for lost.
    pub(super) fn detect_losses(&mut self, now: Time) -> u32 {
        let window = self.reordering_window();
        let before = self.scoreboard.lost_count();
        let reordering = &self.reordering;
        let late =
            |segment: &SentSegment| reordering.loss_deadline(segment, window).is_some_and(|deadline| deadline <= now);
        self.scoreboard.mark_lost(late);
        self.scoreboard.lost_count() - before
    }

    /// RFC 6582: three duplicate acknowledgements tell of one loss, and each partial acknowledgement of the next. Returns how
    /// many are newly taken for lost.
    fn detect_by_duplicates(&mut self, acked: u32) -> u32 {
        let before = self.scoreboard.lost_count();
        let is_hole = match self.phase {
            RecoveryPhase::Open | RecoveryPhase::Reducing => {
                self.scoreboard.duplicate_acks() >= self.duplicate_threshold
            }
            RecoveryPhase::Recovering => acked > 0,
            RecoveryPhase::TimedOut => false,
        };
        if is_hole {
            self.scoreboard.mark_first_lost();
        }
        self.scoreboard.lost_count() - before
    }

    fn reordering_window(&self) -> Span {
        let recovering = matches!(self.phase, RecoveryPhase::Recovering | RecoveryPhase::TimedOut);
        let least = self.round_trips.min_round_trip().unwrap_or(Span::ZERO);
        let smoothed = self.round_trips.smoothed().unwrap_or(Span::ZERO);
        self.reordering.reordering_window(recovering, self.scoreboard.arrived_count(), least, smoothed)
    }

    fn begin_reduction(&mut self, now: Time) {
        self.reduced_window = self.window();
        self.reduction = RateReduction::begin(self.reduced_window);
        self.controller.on_congestion(now, self.scoreboard.in_flight());
        self.recovery_point = self.scoreboard.next_unsent();
        self.probe = None;
        self.announce_reduction = true;
        self.statistics.reductions += 1;
    }

    pub(super) fn enter_recovery(&mut self, now: Time) {
        self.undo = Some(UndoState::new(self.scoreboard.first_outstanding(), self.scoreboard.retransmitted_count()));
        if self.phase != RecoveryPhase::Reducing {
            self.begin_reduction(now);
        }
        self.phase = RecoveryPhase::Recovering;
        self.probe = None;
    }

    /// Sets what may be in flight while the window shrinks.
    pub(super) fn update_reduced_window(&mut self, delivered: u32, progress: bool) {
        let threshold = self.controller.threshold().max(1.0) as u32;
        self.reduced_window = self.reduction.update_window(threshold, self.scoreboard.in_flight(), delivered, progress);
    }
}
