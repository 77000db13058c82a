use kumade_units::{Span, Time};

/// A rate, and how much may come at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenRate {
    pub(crate) interval: Span,
    /// How far ahead of the rate a bucket may be.
    pub(crate) tolerance: Span,
}

/// A token bucket, represented by the instant at which it will be full again (generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    full_at: Time,
}

impl TokenRate {
    /// A tenth of a second's worth, and one at least, may come at once.
    pub(crate) fn new(per_second: u32) -> Self {
        TokenRate::with_burst(per_second, per_second / 10)
    }

    /// So many besides one may come at once.
    pub(crate) fn with_burst(per_second: u32, burst: u32) -> Self {
        let interval = Span::from_secs(1) / i64::from(per_second.max(1));
        TokenRate { interval, tolerance: interval * i64::from(burst) }
    }
}

impl TokenBucket {
    pub(crate) const FULL: TokenBucket = TokenBucket { full_at: Time::from_nanos(i64::MIN) };

    /// Whether there is a token, where the bucket may be ahead of its rate by `tolerance`.
    pub(crate) fn has_token(self, tolerance: Span, now: Time) -> bool {
        self.full_at <= now + tolerance
    }

    /// Takes a token, also where there is none.
    pub(crate) fn charge(&mut self, rate: TokenRate, now: Time) {
        self.full_at = self.full_at.max(now) + rate.interval;
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, rate: TokenRate, now: Time) -> bool {
        let has_token = self.has_token(rate.tolerance, now);
        if has_token {
            self.charge(rate, now);
        }
        has_token
    }
}
