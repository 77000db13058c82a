use kumade_units::{Span, Time, TokenBucket};

/// A bounded part of a thread's time, such as for strangers: a token bucket of time.
#[derive(Debug, Clone, Copy)]
pub struct TimeBudget {
    /// One in so many seconds may be used.
    divisor: i64,
    /// What the bucket has, as the time in which it fills.
    burst: Span,
    bucket: TokenBucket,
}

impl TimeBudget {
    /// One in `divisor` seconds, at least one, and `burst` at once.
    pub fn new(divisor: u32, burst: Span) -> Self {
        let divisor = i64::from(divisor.max(1));
        TimeBudget { divisor, burst: burst * divisor, bucket: TokenBucket::FULL }
    }

    /// From when on there is some; an instant that has passed, if there is now.
    pub fn available_at(&self) -> Time {
        self.bucket.available_at(self.burst)
    }

    /// So much was used. It may be more than there was.
    pub fn charge(&mut self, time: Span, now: Time) {
        self.bucket.charge(time * self.divisor, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_a_burst_and_the_fraction_of_the_time() {
        let mut budget = TimeBudget::new(10, Span::from_millis(20));
        let cost = Span::from_micros(30);
        let (mut now, mut used) = (Time::ZERO + Span::from_secs(5), Span::ZERO);
        let end = now + Span::from_secs(10);
        while now < end {
            if budget.available_at() <= now {
                budget.charge(cost, now);
                (now, used) = (now + cost, used + cost);
            } else {
                now = budget.available_at();
            }
        }
        let allowed = Span::from_millis(1020);
        assert!(used <= allowed + cost && used >= allowed - cost, "{used}");
        assert!(budget.available_at() <= end + Span::from_secs(1));
    }
}
