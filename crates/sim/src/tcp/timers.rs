use super::recovery_config::RecoveryConfig;
use kumade_units::{Span, Time};

/// Before the first measurement.
const INITIAL_TIMEOUT: Span = Span::from_secs(1);
/// What Linux adds to waits of about a round trip (`TCP_TIMEOUT_MIN_US`).
pub(super) const TIMER_SLACK: Span = Span::from_millis(2);

/// What the round trips measured so far say, and how long to wait for an acknowledgement (RFC 6298).
#[derive(Debug)]
pub(super) struct RoundTripEstimator {
    min_timeout: Span,
    max_timeout: Span,
    smoothed: Option<Span>,
    variance: Span,
    min_round_trip: Option<Span>,
    backoff: u32,
}

/// What the one timer of a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Whether segments sent before one that arrived were overtaken or lost (RFC 8985, section 6.2).
    Reordering,
    /// Whether the last segments were lost (RFC 8985, section 7).
    Probe,
    /// For anything at all (RFC 6298).
    Retransmission,
}

impl RoundTripEstimator {
    pub(super) fn new(config: &RecoveryConfig) -> Self {
        let RecoveryConfig { min_timeout, max_timeout, .. } = *config;
        RoundTripEstimator {
            min_timeout,
            max_timeout,
            smoothed: None,
            variance: Span::ZERO,
            min_round_trip: None,
            backoff: 0,
        }
    }

    pub(super) fn record_sample(&mut self, sample: Span) {
        self.min_round_trip = Some(self.min_round_trip.map_or(sample, |least| least.min(sample)));
        match self.smoothed {
            None => (self.smoothed, self.variance) = (Some(sample), sample / 2),
            Some(smoothed) => {
                let error = sample - smoothed;
                let size = error.max(-error);
                self.variance += (size - self.variance) / 4;
                self.smoothed = Some(smoothed + error / 8);
            }
        }
        self.backoff = 0;
    }

    /// Doubles the wait after it was in vain.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    /// The least ever measured.
    pub(super) fn min_round_trip(&self) -> Option<Span> {
        self.min_round_trip
    }

    /// How long to wait before all in flight counts as lost.
    pub(super) fn timeout(&self) -> Span {
        let base =
            self.smoothed.map_or(INITIAL_TIMEOUT, |smoothed| smoothed + (self.variance * 4).max(self.min_timeout));
        (base.min(self.max_timeout) * (1 << self.backoff)).min(self.max_timeout)
    }

    /// When to probe for the loss of the last segments if nothing is heard from `now` on; never after `timeout_at`.
    pub(super) fn probe_at(&self, now: Time, in_flight: u32, timeout_at: Time) -> Time {
        let Some(smoothed) = self.smoothed else { return timeout_at };
        // The receiver may hold back the acknowledgement of a lone segment (RFC 8985, section 7.2: worst-case delayed ACK).
        let slack = if in_flight == 1 { self.min_timeout } else { TIMER_SLACK };
        (now + smoothed * 2 + slack).min(timeout_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_round_trip_its_variance_and_the_backoff() {
        let mut trips = RoundTripEstimator::new(&RecoveryConfig::default());
        assert_eq!(trips.timeout(), Span::from_secs(1));
        trips.record_sample(Span::from_millis(100));
        // RFC 6298 (2.2): the first variance is half the sample; four times that is Linux's least here.
        assert_eq!(trips.timeout(), Span::from_millis(300));
        trips.record_sample(Span::from_millis(500));
        // (2.3): the variance is 3/4 · 50 + 1/4 · 400, the smoothed one 7/8 · 100 + 1/8 · 500.
        assert_eq!(trips.timeout(), Span::from_millis(150) + Span::from_micros(137_500) * 4);
        trips.back_off();
        trips.back_off();
        assert_eq!(trips.timeout(), Span::from_millis(700) * 4);
        for _ in 0..20 {
            trips.back_off();
        }
        assert_eq!(trips.timeout(), Span::from_secs(120));
        trips.record_sample(Span::from_millis(150));
        assert!(trips.timeout() < Span::from_secs(1), "a fresh sample ends the backoff");
        assert_eq!(trips.min_round_trip(), Some(Span::from_millis(100)));
    }
}
