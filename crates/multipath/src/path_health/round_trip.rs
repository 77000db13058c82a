use kumade_units::{Span, Time};

/// Round-trip times of a path, without the time that the far end waited with its report.
#[derive(Debug, Clone)]
pub(crate) struct RoundTrips {
    smoothed: Option<Span>,
    variation: Span,
    /// Least of this period and of the one before.
    least: [Option<Span>; 2],
    rotated: Time,
}

const PERIOD: Span = Span::from_secs(10);

impl RoundTrips {
    pub fn new(now: Time) -> Self {
        RoundTrips { smoothed: None, variation: Span::ZERO, least: [None; 2], rotated: now }
    }

    /// Takes a sample (RFC 6298, section 2).
    pub fn sample(&mut self, sample: Span, now: Time) {
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
        if now - self.rotated > PERIOD {
            self.rotated = now;
            self.least = [None, self.least[0]];
        }
        self.least[0] = Some(self.least[0].map_or(sample, |least| least.min(sample)));
    }

    pub fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    pub fn variation(&self) -> Span {
        self.variation
    }

    /// Least of the last 10 to 20 s.
    pub fn least(&self) -> Option<Span> {
        self.least.iter().flatten().min().copied()
    }
}
