use crate::interval::Interval;
use std::collections::VecDeque;

/// What a figure of a pair usually is.
#[derive(Debug, Clone, Default)]
pub struct UsualInterval {
    estimates: VecDeque<Interval>,
}

/// Fewer estimates are no custom.
const MIN_ESTIMATES: usize = 8;
/// Estimates that are remembered: what has been otherwise for longer than for half of them is usual.
const MAX_ESTIMATES: usize = 50;

impl UsualInterval {
    /// Takes an estimate.
    pub fn record(&mut self, estimate: Interval) {
        self.estimates.push_back(estimate);
        self.estimates.drain(..self.estimates.len().saturating_sub(MAX_ESTIMATES));
    }

    /// The medians of estimates and of the ends of their intervals; none where too little is known.
    pub fn interval(&self) -> Option<Interval> {
        (self.estimates.len() >= MIN_ESTIMATES).then(|| Interval {
            value: self.median(|estimate| estimate.value),
            low: self.median(|estimate| estimate.low),
            high: self.median(|estimate| estimate.high),
        })
    }

    fn median(&self, part: fn(&Interval) -> f64) -> f64 {
        let mut values: Vec<f64> = self.estimates.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Verdict;

    #[test]
    fn a_change_is_an_interval_that_the_usual_one_does_not_touch() {
        let around = |value: f64| Interval { value, low: value - 2.0, high: value + 2.0 };
        let mut usual = UsualInterval::default();
        (0..7).for_each(|number| usual.record(around(48.0 + f64::from(number % 3))));
        assert_eq!(usual.interval(), None, "too few");
        usual.record(around(20.0));
        let known = usual.interval().unwrap();
        assert_eq!(known, around(49.0), "one that is far off changes nothing");
        assert_eq!(around(46.0).disjoint_from(&known), Verdict::Good);
        assert_eq!(around(44.0).disjoint_from(&known), Verdict::Bad);
        assert_eq!(around(54.0).disjoint_from(&known), Verdict::Bad);
        (0..30).for_each(|_| usual.record(around(20.0)));
        assert_eq!(usual.interval(), Some(around(20.0)), "what lasts becomes usual");
    }
}
