use units::Span;

/// No clock is slewed faster than this, as a part: 500 ppm (adjtimex(2)).
const MAX_SLEW: f64 = 500e-6;

/// What is known of one clock: it is ahead of the right time by at least `low` and at most `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// The least that it may be ahead; negative where it may be behind.
    pub low: Span,
    /// The most.
    pub high: Span,
}

impl ClockError {
    /// Right within `error` either way.
    pub fn within(error: Span) -> Self {
        ClockError { low: -error, high: error }
    }

    /// What is known of it still so long after, or was so long before: a clock is slewed by 500 ppm at most (adjtimex(2)).
    pub fn aged(self, age: Span) -> Self {
        let drift = Span::from_secs_f64((age.as_secs_f64() * MAX_SLEW).abs());
        ClockError { low: self.low - drift, high: self.high + drift }
    }

    /// What two sources know together; none where they contradict each other.
    pub fn and(self, other: ClockError) -> Option<ClockError> {
        let both = ClockError { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }
}
