//! How much of what an agent says is taken. Pure.

use kumade_units::{Span, Time};

/// A token bucket: so many at once, and so many a second in the long run.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    rate_per_second: f64,
    capacity: f64,
    left: f64,
    updated: Time,
}

impl Budget {
    /// A full one.
    pub(crate) fn new(rate_per_second: f64, capacity: f64, now: Time) -> Self {
        Budget { rate_per_second, capacity, left: capacity, updated: now }
    }

    /// Takes so many, or none of them.
    pub(crate) fn take(&mut self, count: f64, now: Time) -> bool {
        let passed = (now - self.updated).max(Span::ZERO).as_secs_f64();
        self.left = (self.left + passed * self.rate_per_second).min(self.capacity);
        self.updated = now;
        let is_there = count <= self.left;
        if is_there {
            self.left -= count;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_and_then_the_rate() {
        let after = |seconds| Time::ZERO + Span::from_secs(seconds);
        let mut budget = Budget::new(2.0, 10.0, after(0));
        assert!(budget.take(10.0, after(0)) && !budget.take(1.0, after(0)));
        assert!(budget.take(4.0, after(2)) && !budget.take(1.0, after(2)));
        assert!(!budget.take(11.0, after(1000)) && budget.take(10.0, after(1000)));
        assert!(!budget.take(1.0, after(5)), "a clock that went back gives nothing");
    }
}
