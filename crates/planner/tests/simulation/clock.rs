//! A host's clocks: one that nobody sets, of its own speed and epoch, and one on the wall.

use kumade_units::{Span, Time};
use rand::{Rng, RngExt};

/// Slewed clocks run at most this fast or slow (`adjtimex`).
const MAX_DRIFT_PPB: i64 = 500_000;

pub struct Clock {
    offset: i64,
    drift_ppb: i64,
    /// What the wall clock was set forward by.
    pub wall_step: Span,
}

impl Clock {
    pub fn random(random: &mut impl Rng) -> Self {
        Clock {
            offset: random.random_range(0..1_000_000_000_000),
            drift_ppb: random.random_range(-MAX_DRIFT_PPB..=MAX_DRIFT_PPB),
            wall_step: Span::ZERO,
        }
    }

    /// `CLOCK_BOOTTIME` at the true time.
    pub fn boot_time(&self, truth: Time) -> Time {
        let drift = i128::from(truth.as_nanos()) * i128::from(self.drift_ppb) / 1_000_000_000;
        Time::from_nanos(truth.as_nanos() + self.offset + drift as i64)
    }

    /// The true time at which the clock will show this, or a little later.
    pub fn true_time(&self, boot: Time) -> Time {
        let since = i128::from(boot.as_nanos() - self.offset);
        let truth = since * 1_000_000_000 / i128::from(1_000_000_000 + self.drift_ppb);
        Time::from_nanos(truth as i64 + 2)
    }

    /// `CLOCK_REALTIME` at the true time, in 2027 unless it was set.
    pub fn wall_time(&self, truth: Time) -> Time {
        Time::from_nanos(1_800_000_000_000_000_000) + (truth - Time::ZERO) + self.wall_step
    }
}
