/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What an observation says of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is beyond the limit.
    Bad,
    /// The estimate is within it.
    Good,
    /// Neither.
    Unsure,
}

impl Interval {
    /// A value that is known exactly.
    pub fn exact(value: f64) -> Self {
        Interval { value, low: value, high: value }
    }

    /// Whether it is above a limit.
    pub fn above(&self, limit: f64) -> Verdict {
        verdict(self.low > limit, self.value <= limit)
    }

    /// Whether it is below a limit.
    pub fn below(&self, limit: f64) -> Verdict {
        verdict(self.high < limit, self.value >= limit)
    }

    /// Whether it has nothing in common with the usual interval.
    pub fn disjoint_from(&self, usual: &Interval) -> Verdict {
        let is_bad = self.high < usual.low || self.low > usual.high;
        verdict(is_bad, !is_bad)
    }
}

fn verdict(is_bad: bool, is_good: bool) -> Verdict {
    match (is_bad, is_good) {
        (true, _) => Verdict::Bad,
        (false, true) => Verdict::Good,
        (false, false) => Verdict::Unsure,
    }
}
