use crate::statistics::{mean, standard_deviation, student_t_95};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A point estimate with an interval of stated confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Estimate_{T}")]
pub struct Estimate<T> {
    /// The point estimate.
    pub value: T,
    /// Lower end of the interval.
    pub low: T,
    /// Upper end of the interval.
    pub high: T,
    /// Confidence level of the interval, from 0 to 1: its nominal coverage of the true value. 1 means a hard bound; 0 means
    /// that the method states no confidence.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
}

impl<T> Estimate<T> {
    /// The same estimate in another unit.
    pub fn map<U>(self, unit: impl Fn(T) -> U) -> Estimate<U> {
        Estimate { value: unit(self.value), low: unit(self.low), high: unit(self.high), confidence: self.confidence }
    }
}

impl<T: PartialOrd> Estimate<T> {
    /// Whether the interval covers `truth`; none if no confidence is stated.
    pub fn covers(&self, truth: T) -> Option<bool> {
        (self.confidence > 0.0).then(|| self.low <= truth && truth <= self.high)
    }
}

impl Estimate<f64> {
    /// The mean of independent values and its 95 % interval (Student's t), which a single value does not have; none for no
    /// values.
    pub fn from_mean(values: &[f64]) -> Option<Self> {
        let value = mean(values);
        match values.len() {
            0 => None,
            1 => Some(Estimate { value, low: value, high: value, confidence: 0.0 }),
            n => {
                let margin = student_t_95(n) * standard_deviation(values) / (n as f64).sqrt();
                Some(Estimate { value, low: value - margin, high: value + margin, confidence: 0.95 })
            }
        }
    }

    /// By how much the interval extends above the value; none if no confidence is stated.
    pub fn margin(&self) -> Option<f64> {
        (self.confidence > 0.0).then_some(self.high - self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // Five values with a standard deviation of 1: 2.776 / sqrt(5).
        let values = [9.0, 9.5, 10.0, 10.5, 11.0].map(|v| (v - 10.0) / 0.625f64.sqrt());
        let mean = Estimate::from_mean(&values).unwrap();
        assert!(mean.value.abs() < 1e-9 && (mean.margin().unwrap() - 1.2415).abs() < 1e-3, "{mean:?}");
        let single = Estimate::from_mean(&[3.0]).unwrap();
        assert_eq!((single.value, single.margin()), (3.0, None));
        assert_eq!(Estimate::from_mean(&[]), None);
    }
}
