use kumade_units::Time;

/// What a sender is about, as Linux names it: `Open` and `Disorder`, `CWR`, `RecoveryState`, `Loss`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecoveryPhase {
    Open,
    /// The window shrinks after a mark.
    Reducing,
    /// Lost segments are sent again, and the window shrinks.
    Recovering,
    /// The retransmission timer ran out.
    TimedOut,
}

/// How many segments may go while the window shrinks from what it was to the controller's threshold: proportional
/// rate reduction (RFC 6937, with the slow-start bound as in RFC 9937).
#[derive(Debug, Default)]
pub(super) struct RateReduction {
    window_before: u32,
    delivered: u64,
    sent: u64,
}

impl RateReduction {
    pub(super) fn begin(before: u32) -> Self {
        RateReduction { window_before: before.max(1), delivered: 0, sent: 0 }
    }

    pub(super) fn record_sent(&mut self) {
        self.sent += 1;
    }

    /// What may be in flight after an acknowledgement that delivered so many. `progress` says that it advanced in
    /// sequence and showed no new loss.
    pub(super) fn update_window(&mut self, threshold: u32, in_flight: u32, delivered: u32, progress: bool) -> u32 {
        self.delivered += u64::from(delivered);
        let room = if in_flight > threshold {
            let due = (u64::from(threshold) * self.delivered).div_ceil(u64::from(self.window_before));
            due.saturating_sub(self.sent)
        } else {
            let owed = self.delivered.saturating_sub(self.sent).max(u64::from(delivered)) + u64::from(progress);
            owed.min(u64::from(threshold - in_flight))
        };
        // The first retransmission goes at once.
        let room = room.max(u64::from(self.sent == 0));
        in_flight.saturating_add(u32::try_from(room).unwrap_or(u32::MAX))
    }
}

/// What would show that a reduction was not called for.
#[derive(Debug)]
pub(super) struct UndoState {
    /// What was first unacknowledged when it began.
    marker: u32,
    /// When something was first sent again.
    first_retransmission: Option<Time>,
    /// Sent again and not reported as duplicate yet; `None` before anything was.
    retransmissions_not_duplicated: Option<u32>,
}

impl UndoState {
    pub(super) fn new(marker: u32, in_flight_again: u32) -> Self {
        UndoState {
            marker,
            first_retransmission: None,
            retransmissions_not_duplicated: (in_flight_again > 0).then_some(in_flight_again),
        }
    }

    pub(super) fn record_retransmission(&mut self, now: Time) {
        self.first_retransmission.get_or_insert(now);
        self.retransmissions_not_duplicated = Some(self.retransmissions_not_duplicated.unwrap_or(0) + 1);
    }

    /// A segment has arrived twice.
    pub(super) fn record_duplicate(&mut self, number: u32) {
        if number >= self.marker {
            self.retransmissions_not_duplicated =
                self.retransmissions_not_duplicated.map(|count| count.saturating_sub(1));
        }
    }

    /// Whether all that was sent again arrived twice (RFC 3708).
    pub(super) fn are_all_duplicated(&self) -> bool {
        self.retransmissions_not_duplicated == Some(0)
    }

    /// Whether an acknowledgement answers something sent before anything was sent again (Eifel, RFC 3522).
    pub(super) fn answers_original(&self, echo: Time) -> bool {
        self.first_retransmission.is_some_and(|first| echo < first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937, section 1: the window comes down to the threshold over one round trip, and never by a halt of half of it.
    #[test]
    fn a_reduction_sends_in_proportion_to_what_arrives() {
        let mut reduction = RateReduction::begin(20);
        let (mut in_flight, mut sent) = (19, 0);
        for _ in 0..19 {
            in_flight -= 1;
            let window = reduction.update_window(10, in_flight, 1, false);
            while in_flight < window {
                in_flight += 1;
                sent += 1;
                reduction.record_sent();
            }
        }
        assert!((9..=10).contains(&sent) && (9..=10).contains(&in_flight), "{sent} {in_flight}");
    }

    /// RFC 6937, section 3: below the threshold after heavy loss it sends as slow start does, not all at once.
    #[test]
    fn a_reduction_far_below_the_threshold_regains_it_without_a_burst() {
        let mut reduction = RateReduction::begin(20);
        assert_eq!(reduction.update_window(10, 2, 1, false), 3);
        reduction.record_sent();
        assert_eq!(reduction.update_window(10, 2, 1, true), 4);
    }
}
