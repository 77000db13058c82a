use kumade_units::{Span, Time};

/// A token bucket: so many per second, and a burst at once.
#[derive(Debug)]
pub(super) struct MessageRateLimiter {
    /// What one costs.
    token_interval: Span,
    /// What a full bucket holds.
    capacity: Span,
    /// When the bucket will be full.
    full_at: Time,
}

impl MessageRateLimiter {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let interval = Span::from_secs(1) / i64::from(per_second);
        MessageRateLimiter { token_interval: interval, capacity: interval * i64::from(burst), full_at: Time::ZERO }
    }

    /// Takes one, if there is one.
    pub(super) fn take_token(&mut self, now: Time) -> bool {
        let is_there = now >= self.ready_at();
        if is_there {
            self.full_at = self.full_at.max(now) + self.token_interval;
        }
        is_there
    }

    /// When there is one again.
    pub(super) fn ready_at(&self) -> Time {
        self.full_at + self.token_interval - self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_at_once_and_then_so_many_per_second() {
        let mut limiter = MessageRateLimiter::new(10, 20);
        let mut taken = |now| (0..100).filter(|_| limiter.take_token(now)).count();
        let start = Time::ZERO + Span::from_secs(7);
        assert_eq!(taken(start), 20);
        assert_eq!(taken(start + Span::from_millis(500)), 5);
        assert_eq!(taken(start + Span::from_secs(60)), 20);
        assert_eq!(limiter.ready_at(), start + Span::from_secs(60) + Span::from_millis(100));
    }
}
