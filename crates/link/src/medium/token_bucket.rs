use crate::exact_time::ExactTime;
use kumade_units::ConfigError;
use kumade_units::{Rate, Span, Time};

/// A token bucket.
///
/// As a [`Medium`](crate::Medium) it is a shaper, as `tc tbf` and many access links have it: packets pass at the peak rate
/// as long as there are tokens for them, and at the committed rate when the tokens are used up. The peak rate is
/// [`LinkConfig::rate`](crate::LinkConfig::rate). A packet larger than the bucket passes when the bucket is full, and owes
/// the rest. The packet that waits for tokens counts as in service, not as queued.
///
/// As [`LinkConfig::policer`](crate::LinkConfig::policer) it drops packets for which there are no tokens, as `tc police`
/// does, and one larger than the bucket never passes.
///
/// The bucket is full at first, and again when either setting is changed on a running link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// The committed rate, at which tokens are added.
    pub rate: Rate,
    /// The bucket's size in bytes: what passes at the peak rate after an idle period.
    pub burst_bytes: u64,
}

/// The bucket of a shaper at work.
#[derive(Debug)]
pub(crate) struct ShaperState {
    tokens: TokenLevel,
    /// The rate behind the bucket, if it is limited.
    line_rate: Option<Rate>,
}

/// The bucket of a policer at work: a packet for which there are no tokens is dropped, and nothing waits.
#[derive(Debug)]
pub(crate) struct PolicerState {
    tokens: TokenLevel,
}

/// What a bucket holds.
#[derive(Debug)]
struct TokenLevel {
    bucket: TokenBucket,
    /// In bits times 10⁹; below zero is owed.
    level: i128,
    /// When that was so.
    as_of: Time,
}

const WORK_PER_BYTE: i128 = 8_000_000_000;

impl TokenBucket {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("token bucket");
        if self.rate == Rate::ZERO {
            let remedy = "give a rate of at least 1 bit/s";
            return Err(error("rate", self.rate.to_string(), "which lets nothing pass once it is empty", remedy));
        }
        if self.burst_bytes == 0 {
            return Err(error(
                "burst",
                "0 bytes".into(),
                "in which no token has room",
                "give at least a packet's size",
            ));
        }
        Ok(())
    }

    fn capacity(&self) -> i128 {
        i128::from(self.burst_bytes) * WORK_PER_BYTE
    }
}

impl ShaperState {
    pub(crate) fn new(bucket: TokenBucket, line: Option<Rate>, now: Time) -> Self {
        ShaperState { tokens: TokenLevel::new_full(bucket, now), line_rate: line }
    }

    pub(crate) fn matches_config(&self, bucket: &TokenBucket, line: Option<Rate>) -> bool {
        self.tokens.bucket == *bucket && self.line_rate == line
    }

    /// When the service of a packet ends that may begin at `from`.
    pub(crate) fn serve(&mut self, from: ExactTime, size: u32) -> ExactTime {
        let TokenLevel { bucket, .. } = self.tokens;
        let work = i128::from(size) * WORK_PER_BYTE;
        self.tokens.refill(from.ceil());
        let missing = work.min(bucket.capacity()) - self.tokens.level;
        if missing <= 0 {
            self.tokens.level -= work;
            return self.consume_tokens(from, size);
        }
        let wait = (missing as u128).div_ceil(u128::from(bucket.rate.bits_per_second()));
        let start = self.tokens.as_of + Span::from_nanos(i64::try_from(wait).unwrap_or(i64::MAX));
        self.tokens.refill(start);
        self.tokens.level -= work;
        self.consume_tokens(ExactTime::from_time(start), size)
    }

    fn consume_tokens(&self, start: ExactTime, size: u32) -> ExactTime {
        self.line_rate.map_or(start, |line| start.after_bytes(size, line))
    }
}

impl PolicerState {
    pub(crate) fn new(bucket: TokenBucket, now: Time) -> Self {
        PolicerState { tokens: TokenLevel::new_full(bucket, now) }
    }

    /// Whether there are tokens for a packet that arrives now; then it takes them.
    pub(crate) fn conforms(&mut self, size: u32, now: Time) -> bool {
        let work = i128::from(size) * WORK_PER_BYTE;
        self.tokens.refill(now);
        let passes = work <= self.tokens.level;
        self.tokens.level -= if passes { work } else { 0 };
        passes
    }
}

impl TokenLevel {
    fn new_full(bucket: TokenBucket, now: Time) -> Self {
        TokenLevel { bucket, level: bucket.capacity(), as_of: now }
    }

    fn refill(&mut self, now: Time) {
        let elapsed = i128::from(now.as_nanos()) - i128::from(self.as_of.as_nanos());
        let tokens = elapsed.max(0).saturating_mul(self.bucket.rate.bits_per_second().into());
        self.level = self.level.saturating_add(tokens).min(self.bucket.capacity());
        self.as_of = self.as_of.max(now);
    }
}
