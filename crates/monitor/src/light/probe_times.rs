use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// When probes are sent: at random times, so that what happens at regular times is seen as often as it happens (RFC 2330 §11.1.1).
#[derive(Debug)]
pub(super) struct ProbeTimes {
    mean: Span,
    random: Pcg64Mcg,
}

/// Longer intervals than so many means are cut off: of e⁻⁴ of all, the mean is 1.9 % less.
const MAX_INTERVAL_MEANS: f64 = 4.0;

impl ProbeTimes {
    pub(super) fn new(mean: Span, seed: u64) -> Self {
        ProbeTimes { mean, random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Targets begin apart from each other.
    pub(super) fn first(&mut self, now: Time) -> Time {
        now + Span::from_secs_f64(self.mean.as_secs_f64() * self.random.random::<f64>())
    }

    /// The one after `due`; what was missed is not made up for.
    pub(super) fn next(&mut self, due: Time, now: Time) -> Time {
        let exponential = -(1.0 - self.random.random::<f64>()).ln();
        let interval = Span::from_secs_f64(self.mean.as_secs_f64() * exponential.min(MAX_INTERVAL_MEANS));
        if due + interval > now { due + interval } else { now + interval }
    }
}
