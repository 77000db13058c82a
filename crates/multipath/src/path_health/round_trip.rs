use kumade_units::{Span, Time};

/// Round-trip times of a path, without the time that the far end waited with its report.
#[derive(Debug, Clone)]
pub(crate) struct RoundTripEstimator {
    smoothed: Option<Span>,
    variation: Span,
    /// Least of this period and of the one before.
    period_minima: [Option<Span>; 2],
    period_start: Time,
}

const MIN_FILTER_PERIOD: Span = Span::from_secs(10);

impl RoundTripEstimator {
    pub fn new(now: Time) -> Self {
        RoundTripEstimator { smoothed: None, variation: Span::ZERO, period_minima: [None; 2], period_start: now }
    }

    /// Takes a sample (RFC 6298, section 2).
    pub fn record_sample(&mut self, sample: Span, now: Time) {
        let sample = sample.max(Span::ZERO);
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                let error = sample - smoothed;
                self.variation += (error.max(-error) - self.variation) / 4;
                self.smoothed = Some(smoothed + error / 8);
            }
        }
        if now - self.period_start > MIN_FILTER_PERIOD {
            self.period_start = now;
            self.period_minima = [None, self.period_minima[0]];
        }
        self.period_minima[0] = Some(self.period_minima[0].map_or(sample, |least| least.min(sample)));
    }

    pub fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    pub fn variation(&self) -> Span {
        self.variation
    }

    /// Least of the last 10 to 20 s.
    pub fn min_round_trip(&self) -> Option<Span> {
        self.period_minima.iter().flatten().min().copied()
    }
}
