use kumade_units::{Span, Time};

/// A token bucket, represented by the instant at which it will be full again (generic cell rate algorithm, ITU-T I.371).
#[derive(Debug)]
pub(crate) struct TokenBucket {
    full_at: Time,
    token_interval: Span,
    /// How far ahead `full_at` may be for one more token to be left.
    tolerance: Span,
}

impl TokenBucket {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let per_token = Span::from_secs(1) / i64::from(per_second);
        TokenBucket {
            full_at: Time::from_nanos(i64::MIN),
            token_interval: per_token,
            tolerance: per_token * (i64::from(burst) - 1),
        }
    }

    pub(crate) fn has_token(&self, now: Time) -> bool {
        self.full_at <= now + self.tolerance
    }

    pub(crate) fn take_token(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + self.token_interval;
    }
}
