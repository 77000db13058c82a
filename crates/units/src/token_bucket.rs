use crate::{Span, Time};

/// A rate, and how much may come at once, both as times: what one token takes to come, and what a whole bucket takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRate {
    interval: Span,
    burst: Span,
}

/// A token bucket, represented by the instant at which it will be full again (generic cell rate algorithm, ITU-T I.371). What is
/// taken is told as the time in which as much comes in, so that a token may be anything: a packet, a byte, a second of a thread.
///
/// **Contract.** Arithmetic saturates. A clock that goes back gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    full_at: Time,
}

/// A token bucket with its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimiter {
    rate: TokenRate,
    bucket: TokenBucket,
}

/// A bucket is full within half of all time, however slowly tokens come.
const MAX_FILLING_NANOS: i64 = i64::MAX / 2;

impl TokenRate {
    /// So many tokens a second in the long run, and `burst` of them at once. A rate of zero, or less, is the least that there is: then
    /// a whole bucket takes 146 years to come. So is what is no number.
    pub fn new(per_second: f64, burst: f64) -> Self {
        // Out of `max`, a number comes.
        let (per_second, burst) = (per_second.max(0.0), burst.max(0.0));
        let longest = Span::from_nanos((MAX_FILLING_NANOS as f64 / burst.max(1.0)) as i64);
        let interval = Span::from_secs_f64(1.0 / per_second).min(longest).max(Span::from_nanos(1));
        TokenRate { interval, burst: scale(interval, burst) }
    }

    /// In which so many tokens come.
    pub fn time_of(self, tokens: f64) -> Span {
        scale(self.interval, tokens)
    }

    /// In which one token comes.
    pub fn interval(self) -> Span {
        self.interval
    }

    /// In which an empty bucket becomes full.
    pub fn burst(self) -> Span {
        self.burst
    }

    /// How much of the bucket may be taken for one token to be left.
    pub fn tolerance(self) -> Span {
        self.burst - self.interval
    }
}

/// Whole numbers are exact.
fn scale(interval: Span, tokens: f64) -> Span {
    if tokens.fract() == 0.0 {
        interval * tokens as i64
    } else {
        Span::from_nanos((interval.as_nanos() as f64 * tokens) as i64)
    }
}

impl TokenBucket {
    /// A full one.
    pub const FULL: TokenBucket = TokenBucket { full_at: Time::from_nanos(i64::MIN) };

    /// What is not there, as the time until the bucket is full.
    pub fn missing(self, now: Time) -> Span {
        (self.full_at - now).max(Span::ZERO)
    }

    /// From when on no more than `tolerance` is missing; an instant that has passed, where that is so now.
    pub fn available_at(self, tolerance: Span) -> Time {
        self.full_at - tolerance
    }

    /// Takes so much, also where there is less.
    pub fn charge(&mut self, time: Span, now: Time) {
        self.full_at = self.full_at.max(now) + time.max(Span::ZERO);
    }

    /// Takes so many tokens, or none of them; whether it has.
    pub fn take(&mut self, tokens: f64, rate: TokenRate, now: Time) -> bool {
        let time = rate.time_of(tokens);
        let is_there = self.missing(now) + time <= rate.burst;
        if is_there {
            self.charge(time, now);
        }
        is_there
    }
}

impl RateLimiter {
    /// A full one: so many tokens a second in the long run, and `burst` of them at once. See [`TokenRate::new`].
    pub fn new(per_second: f64, burst: f64) -> Self {
        RateLimiter { rate: TokenRate::new(per_second, burst), bucket: TokenBucket::FULL }
    }

    /// Takes so many tokens, or none of them; whether it has.
    pub fn take(&mut self, tokens: f64, now: Time) -> bool {
        self.bucket.take(tokens, self.rate, now)
    }

    /// When there is a token again; an instant that has passed, if there is one now.
    pub fn available_at(&self) -> Time {
        self.bucket.available_at(self.rate.tolerance())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn a_burst_is_taken_and_then_the_rate() {
        let mut limiter = RateLimiter::new(2.0, 10.0);
        assert!(limiter.take(10.0, after(0)) && !limiter.take(1.0, after(0)));
        assert!(limiter.take(4.0, after(2)) && !limiter.take(1.0, after(2)));
        assert!(!limiter.take(11.0, after(1000)) && limiter.take(10.0, after(1000)));
        assert!(!limiter.take(1.0, after(5)), "a clock that went back gives nothing");
        assert_eq!(limiter.available_at(), after(1000) + Span::from_millis(500));
    }

    #[test]
    fn what_is_charged_beyond_the_bucket_is_owed() {
        let (mut bucket, rate) = (TokenBucket::FULL, TokenRate::new(1.0, 3.0));
        bucket.charge(rate.time_of(5.0), after(0));
        assert_eq!(bucket.missing(after(0)), Span::from_secs(5));
        assert!(!bucket.take(1.0, rate, after(2)) && bucket.take(1.0, rate, after(3)));
        bucket.charge(Span::from_secs(-100), after(3));
        assert!(!bucket.take(1.0, rate, after(3)), "a negative charge gives nothing");
    }

    #[test]
    fn a_rate_of_zero_gives_its_burst_and_nothing_more() {
        for (none, burst) in [(0.0, 256), (-1.0, 1), (f64::NAN, 3)] {
            let (mut bucket, rate) = (TokenBucket::FULL, TokenRate::new(none, f64::from(burst)));
            let taken = |bucket: &mut TokenBucket, now| (0..1000).filter(|_| bucket.take(1.0, rate, now)).count();
            assert_eq!(taken(&mut bucket, after(0)), burst as usize);
            assert_eq!(taken(&mut bucket, after(86_400)), 0);
        }
        let (mut bucket, none) = (TokenBucket::FULL, TokenRate::new(0.0, 0.0));
        assert!(bucket.take(0.0, none, after(0)) && !bucket.take(1.0, none, after(86_400)));
    }

    #[test]
    fn arithmetic_saturates_at_the_ends_of_time() {
        let rate = TokenRate::new(f64::MIN_POSITIVE, f64::MAX);
        let mut bucket = TokenBucket::FULL;
        for now in [Time::from_nanos(i64::MIN), Time::ZERO, Time::MAX] {
            bucket.take(f64::INFINITY, rate, now);
            bucket.charge(Span::MAX, now);
            assert!(bucket.missing(now) >= Span::ZERO && bucket.available_at(rate.tolerance()) <= Time::MAX);
        }
        assert!(!RateLimiter::new(1e300, 1.0).take(1e300, Time::ZERO), "more than the bucket has");
    }
}
