use kumade_units::{Rate, Span, Time};

/// How much a path carries, from a count of what has left by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathLoad {
    interval_start: Time,
    bytes: u64,
    rate: Rate,
}

/// Over which a rate is taken.
const RATE_INTERVAL: Span = Span::from_secs(1);

impl PathLoad {
    /// Nothing yet; `bytes` is what has been counted so far.
    pub(super) fn new(bytes: u64, now: Time) -> Self {
        PathLoad { interval_start: now, bytes, rate: Rate::ZERO }
    }

    /// The rate of the last interval that is complete.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes what has been counted so far, and returns the rate of the last interval that is complete.
    pub(super) fn update(&mut self, bytes: u64, now: Time) -> Rate {
        if now - self.interval_start >= RATE_INTERVAL {
            let rate = Rate::from_bytes_over(bytes.saturating_sub(self.bytes), now - self.interval_start);
            *self = PathLoad { interval_start: now, bytes, rate };
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_whole_interval() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut load = PathLoad::new(500, at(0));
        assert_eq!(load.update(10_500, at(999)), Rate::ZERO);
        assert_eq!(load.update(10_500, at(1000)).bits_per_second(), 80_000);
        assert_eq!(load.update(90_500, at(1500)).bits_per_second(), 80_000);
        assert_eq!(load.update(90_500, at(3000)).bits_per_second(), 320_000);
        assert_eq!(load.update(0, at(4000)), Rate::ZERO, "counted anew");
    }
}
