use kumade_units::Time;

/// For so many round trips at least, and twice as many at most, an excess counts.
const FILTER_ROUNDS: u32 = 5;
/// An epoch ends after so many segments.
const MAX_EPOCH_SEGMENTS: f64 = 1_048_576.0;
/// No more is allowed for than the path carries in this time, in seconds.
const MAX_SILENCE_SECONDS: f64 = 0.1;

/// How many segments more than the bandwidth explains are acknowledged at once: so many more must be in flight for the
/// sender not to run dry while acknowledgements are held back.
#[derive(Debug, Clone, Default)]
pub(super) struct AckAggregation {
    epoch: Option<Time>,
    /// Segments delivered since.
    delivered: f64,
    /// The greatest excess of the present rounds and of those before.
    max_excess: [f64; 2],
    rounds: u32,
}

impl AckAggregation {
    /// `bandwidth` is in segments per second; the `window` is the most that can be in excess.
    pub(super) fn record_delivered(
        &mut self,
        now: Time,
        segments: u32,
        round_began: bool,
        bandwidth: f64,
        window: u32,
    ) {
        if round_began {
            self.rounds += 1;
            if self.rounds >= FILTER_ROUNDS {
                self.rounds = 0;
                self.max_excess = [0.0, self.max_excess[0]];
            }
        }
        let segments = f64::from(segments);
        let epoch = *self.epoch.get_or_insert(now);
        let mut expected = (bandwidth * (now - epoch).as_secs_f64()).max(0.0);
        if self.delivered <= expected || self.delivered + segments >= MAX_EPOCH_SEGMENTS {
            self.epoch = Some(now);
            self.delivered = 0.0;
            expected = 0.0;
        }
        self.delivered += segments;
        let excess = (self.delivered - expected).floor().min(f64::from(window));
        self.max_excess[0] = self.max_excess[0].max(excess);
    }

    /// Segments to add to the window.
    pub(super) fn extra_segments(&self, bandwidth: f64) -> f64 {
        self.max_excess[0].max(self.max_excess[1]).min((bandwidth * MAX_SILENCE_SECONDS).floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    #[test]
    fn what_comes_in_bursts_is_allowed_for_until_it_is_long_past() {
        let mut aggregation = AckAggregation::default();
        // 1000 segments per second, in bursts of ten.
        for burst in 0..40 {
            let now = Time::ZERO + Span::from_millis(10) * burst;
            aggregation.record_delivered(now, 10, false, 1000.0, 100);
        }
        assert_eq!(aggregation.extra_segments(1000.0), 10.0);
        assert_eq!(aggregation.extra_segments(50.0), 5.0, "no more than a tenth of a second's worth");
        for round in 0..10 {
            let now = Time::ZERO + Span::from_millis(1000 + 100 * round);
            aggregation.record_delivered(now, 1, true, 1000.0, 100);
        }
        assert_eq!(aggregation.extra_segments(1000.0), 1.0);
    }
}
