use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value and the interval that holds the truth with the stated confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate<T> {
    /// The best single figure.
    pub value: T,
    /// Lower end of the interval.
    pub low: T,
    /// Upper end of the interval.
    pub high: T,
    /// The interval's coverage: in how many of many measurements it holds the truth, from 0 to 1. 1 is a bound; 0 says
    /// that the method promises nothing.
    pub confidence: f64,
}

impl<T> Estimate<T> {
    /// The same figures in another unit.
    pub fn map<U>(self, unit: impl Fn(T) -> U) -> Estimate<U> {
        Estimate { value: unit(self.value), low: unit(self.low), high: unit(self.high), confidence: self.confidence }
    }
}

impl<T: PartialOrd> Estimate<T> {
    /// Whether the interval holds `truth`; none where the method promises nothing.
    pub fn covers(&self, truth: T) -> Option<bool> {
        (self.confidence > 0.0).then(|| self.low <= truth && truth <= self.high)
    }
}
