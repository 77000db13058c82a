//! Quantiles of what is available, for one model and for all.

/// The probabilities of which quantiles are stated.
pub const PROBABILITIES: [f64; 7] = [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975];

/// How much of the probability the [central intervals](Quantiles::central_intervals) hold.
pub const NOMINAL_COVERAGE: [f64; 3] = [0.5, 0.8, 0.95];

/// Quantiles of a rate in bit/s, at [`PROBABILITIES`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles(pub [f64; 7]);

impl Quantiles {
    /// The middle.
    pub fn median(&self) -> f64 {
        self.0[3]
    }

    /// The central interval that holds 95 %.
    pub fn interval(&self) -> (f64, f64) {
        (self.0[0], self.0[6])
    }

    /// Those that hold so much: [`NOMINAL_COVERAGE`].
    pub fn central_intervals(&self) -> [(f64, f64); 3] {
        [2, 1, 0].map(|index| (self.0[index], self.0[6 - index]))
    }

    /// Which of these hold a value.
    pub fn cover(&self, value: f64) -> [bool; 3] {
        self.central_intervals().map(|(low, high)| (low..=high).contains(&value))
    }

    /// Of weighted values: the distribution rises by each weight in a straight line between the middles of two values.
    pub(crate) fn from_weighted(values: &mut [(f64, f64)]) -> Self {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = values.iter().map(|v| v.1).sum();
        let mut sum = 0.0;
        let steps: Vec<(f64, f64)> = values
            .iter()
            .map(|&(value, weight)| {
                sum += weight;
                ((sum - weight / 2.0) / total, value)
            })
            .collect();
        Quantiles(PROBABILITIES.map(|probability| {
            let above = steps.partition_point(|step| step.0 < probability);
            match (above.checked_sub(1).and_then(|below| steps.get(below)), steps.get(above)) {
                (Some(low), Some(high)) => {
                    low.1 + (high.1 - low.1) * (probability - low.0) / (high.0 - low.0).max(f64::MIN_POSITIVE)
                }
                (Some(only), None) | (None, Some(only)) => only.1,
                (None, None) => 0.0,
            }
        }))
    }
}

/// What has become of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelMass {
    /// Its name.
    pub name: &'static str,
    /// In words.
    pub description: &'static str,
    /// Its posterior probability.
    pub mass: f64,
    /// Whether it tells what is available, and not only a bound of that.
    pub tells_value: bool,
    /// What is available if it holds.
    pub quantiles: Quantiles,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn central_intervals_hold_what_they_say() {
        let found = Quantiles(PROBABILITIES);
        for ((low, high), nominal) in found.central_intervals().into_iter().zip(NOMINAL_COVERAGE) {
            assert!((high - low - nominal).abs() < 1e-9, "{nominal}");
        }
        assert_eq!(found.cover(0.2), [false, true, true]);
    }

    #[test]
    fn quantiles_of_equal_weights_lie_evenly() {
        let mut values: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), 2.0)).collect();
        let found = Quantiles::from_weighted(&mut values);
        for (value, probability) in found.0.iter().zip(PROBABILITIES) {
            assert!((value - (1000.0 * probability - 0.5)).abs() < 1e-6, "{value} at {probability}");
        }
    }
}
