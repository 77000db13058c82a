use kumade_probe_train::Estimate;
use kumade_units::Rate;
use std::cmp::Ordering;

/// A path's rate by which packets are divided: it follows what is measured, and not the noise of measurements.
///
/// **Rule.** The first measurement is taken as it is. Later ones that differ by more than 10 % in the same direction, one
/// after the other, replace it by their median: two, if their intervals lie beyond the 10 % as a whole; otherwise four.
#[derive(Debug, Clone, Default)]
pub struct SteadyRate {
    rate: Option<Rate>,
    /// The last measurements that differ, all in one direction.
    deviating: Vec<Estimate<Rate>>,
}

/// What differs by less is the same.
const TOLERANCE_RATIO: f64 = 1.1;
const MIN_CLEAR_MEASUREMENTS: usize = 2;
const MIN_UNCLEAR_MEASUREMENTS: usize = 4;

impl SteadyRate {
    /// The rate; none before the first measurement.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Whether more measurements are needed soon: there is none yet, or the last one differs.
    pub fn is_uncertain(&self) -> bool {
        self.rate.is_none() || !self.deviating.is_empty()
    }

    /// Takes a measurement; returns whether the rate is another one because of it.
    pub fn record_measurement(&mut self, measured: Estimate<Rate>) -> bool {
        let Some(rate) = self.rate else {
            self.rate = Some(measured.value);
            return true;
        };
        let direction = compare_rates(measured.value, rate);
        self.deviating.retain(|earlier| compare_rates(earlier.value, rate) == direction);
        if direction == Ordering::Equal {
            return false;
        }
        self.deviating.push(measured);
        let is_clear = |one: &&Estimate<Rate>| {
            one.confidence > 0.0 && [one.low, one.high].map(|end| compare_rates(end, rate)) == [direction; 2]
        };
        let clear = self.deviating.iter().filter(is_clear).count();
        let lasting = clear >= MIN_CLEAR_MEASUREMENTS || self.deviating.len() >= MIN_UNCLEAR_MEASUREMENTS;
        if lasting {
            self.rate = Some(median_rate(self.deviating.drain(..).map(|one| one.value).collect()));
        }
        lasting
    }
}

/// What differs by no more than the tolerance counts as equal.
fn compare_rates(one: Rate, other: Rate) -> Ordering {
    let (one, other) = (one.as_f64(), other.as_f64());
    if one > other * TOLERANCE_RATIO {
        Ordering::Greater
    } else if one * TOLERANCE_RATIO < other {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

/// Of an even number, the mean of the two in the middle. There is one at least.
fn median_rate(mut rates: Vec<Rate>) -> Rate {
    rates.sort();
    let (lower, upper) = (rates[(rates.len() - 1) / 2], rates[rates.len() / 2]);
    Rate::from_f64((lower.as_f64() + upper.as_f64()) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// In Mbit/s, with a margin.
    fn measured(mbit: f64, margin: f64) -> Estimate<Rate> {
        let rate = |mbit: f64| Rate::from_f64(mbit * 1e6);
        Estimate { value: rate(mbit), low: rate(mbit - margin), high: rate(mbit + margin), confidence: 0.95 }
    }

    fn after(measurements: &[(f64, f64)]) -> (f64, usize) {
        let mut steady = SteadyRate::default();
        let changes =
            measurements.iter().filter(|(mbit, margin)| steady.record_measurement(measured(*mbit, *margin))).count();
        (steady.rate().unwrap().as_f64() / 1e6, changes)
    }

    #[test]
    fn a_rate_changes_when_measurements_in_a_row_say_so() {
        assert_eq!(after(&[(100.0, 2.0), (109.0, 2.0), (92.0, 2.0)]), (100.0, 1));
        assert_eq!(
            after(&[(100.0, 2.0), (50.0, 2.0), (101.0, 2.0), (50.0, 2.0)]),
            (100.0, 1),
            "one alone is an outlier"
        );
        assert_eq!(after(&[(100.0, 2.0), (50.0, 2.0), (54.0, 2.0)]), (52.0, 2));
        assert_eq!(after(&[(100.0, 2.0), (50.0, 2.0), (150.0, 2.0), (50.0, 2.0)]), (100.0, 1), "directions differ");
        let unclear = [(100.0, 2.0), (115.0, 20.0), (116.0, 20.0), (118.0, 20.0), (117.0, 20.0)];
        assert_eq!(after(&unclear[..4]), (100.0, 1));
        assert_eq!(after(&unclear), (116.5, 2));
    }

    #[test]
    fn measurements_without_confidence_take_four() {
        let mut steady = SteadyRate::default();
        let vague = |mbit| Estimate { confidence: 0.0, ..measured(mbit, 0.0) };
        assert!(steady.record_measurement(vague(10.0)));
        assert_eq!([20.0; 4].map(|mbit| steady.record_measurement(vague(mbit))), [false, false, false, true]);
        assert!(!steady.is_uncertain());
    }

    proptest! {
        #[test]
        fn noise_within_the_tolerance_changes_nothing(
            noise in prop::collection::vec(-0.045f64..0.045, 2..200),
            mbit in 1.0f64..1000.0,
        ) {
            let measurements: Vec<_> = noise.iter().map(|noise| (mbit * (1.0 + noise), mbit * 0.02)).collect();
            prop_assert_eq!(after(&measurements).1, 1);
        }

        #[test]
        fn whatever_is_measured_no_two_measurements_in_a_row_change_it(
            rates in prop::collection::vec((1.0f64..1000.0, 0.0f64..1.0), 2..200),
        ) {
            let mut steady = SteadyRate::default();
            let mut changed_before = false;
            for (mbit, margin) in rates {
                let first = steady.rate().is_none();
                let changed = steady.record_measurement(measured(mbit, mbit * margin));
                prop_assert!(!(changed && changed_before && !first));
                changed_before = changed && !first;
            }
        }
    }
}
