use super::controller::Ack;
use super::rounds::RoundCounter;
use kumade_units::{Span, Time};

/// The share of segments that queues have marked: DCTCP's α (RFC 8257, section 3.3), a moving average that is updated once a round trip.
#[derive(Debug, Clone)]
pub(super) struct MarkedFraction {
    alpha: f64,
    round: RoundCounter,
    delivered: u32,
    marked: u32,
    updated_at: Time,
}

/// When the window is next reduced for marks: once a round trip.
#[derive(Debug, Clone, Default)]
pub(super) struct MarkResponse {
    round: RoundCounter,
    reduced_at: Option<Time>,
}

/// The gain of the average: g = 1/16 (RFC 8257, section 4.2; draft-briscoe-iccrg-prague-congestion-control, section 2.4.2).
const GAIN: f64 = 1.0 / 16.0;

impl MarkedFraction {
    pub(super) fn new(alpha: f64) -> Self {
        MarkedFraction { alpha, round: RoundCounter::default(), delivered: 0, marked: 0, updated_at: Time::ZERO }
    }

    /// From 0 to 1.
    pub(super) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Counts what `ack` brings, and updates the average at the end of a round trip that lasted for at least `interval`. Tells whether
    /// it did.
    pub(super) fn count(&mut self, ack: &Ack, interval: Span) -> bool {
        self.delivered = self.delivered.saturating_add(ack.delivered);
        self.marked = self.marked.saturating_add(ack.marked);
        if ack.now - self.updated_at < interval || !self.round.begins_round(ack) {
            return false;
        }
        let fraction = f64::from(self.marked.min(self.delivered)) / f64::from(self.delivered.max(1));
        self.alpha += GAIN * (fraction - self.alpha);
        (self.delivered, self.marked, self.updated_at) = (0, 0, ack.now);
        true
    }
}

impl MarkResponse {
    /// Whether the window is to be reduced for the marks that `ack` reports: if a round trip of at least `interval` has passed since it
    /// last was.
    pub(super) fn reduces(&mut self, ack: &Ack, interval: Span) -> bool {
        if ack.marked == 0 || self.reduced_at.is_some_and(|last| ack.now - last < interval) {
            return false;
        }
        let reduces = self.round.begins_round(ack);
        if reduces {
            self.reduced_at = Some(ack.now);
        }
        reduces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::fluid::ack;

    const ROUND_TRIP: Span = Span::from_millis(20);

    fn marked(millis: i64, round: u64, marked: u32) -> Ack {
        let now = Time::ZERO + Span::from_millis(millis);
        let (total_delivered, delivered_when_sent) = (round * 10 + 10, round * 10);
        Ack { delivered: 10, marked, total_delivered, delivered_when_sent, ..ack(now, ROUND_TRIP, 10) }
    }

    #[test]
    fn the_fraction_is_a_moving_average_by_round_trips() {
        let mut fraction = MarkedFraction::new(0.0);
        assert!(fraction.count(&marked(20, 1, 10), Span::ZERO));
        assert_eq!(fraction.alpha(), 1.0 / 16.0);
        // Half a round trip later nothing of this round is known yet.
        assert!(!fraction.count(&Ack { delivered_when_sent: 15, ..marked(30, 1, 0) }, Span::ZERO));
        assert!(fraction.count(&marked(40, 2, 10), Span::ZERO));
        // Ten of twenty.
        assert_eq!(fraction.alpha(), 1.0 / 16.0 + (0.5 - 1.0 / 16.0) / 16.0);
        let before = fraction.alpha();
        assert!(!fraction.count(&marked(60, 3, 0), Span::from_millis(25)), "not before the interval has passed");
        assert_eq!(fraction.alpha(), before);
    }

    #[test]
    fn marks_reduce_once_a_round_trip() {
        let mut response = MarkResponse::default();
        assert!(!response.reduces(&marked(20, 1, 0), Span::ZERO));
        assert!(response.reduces(&marked(40, 2, 1), Span::ZERO));
        assert!(!response.reduces(&Ack { delivered_when_sent: 25, ..marked(50, 2, 5) }, Span::ZERO));
        assert!(!response.reduces(&marked(60, 3, 1), Span::from_millis(25)));
        assert!(response.reduces(&marked(80, 4, 1), Span::from_millis(25)));
    }
}
