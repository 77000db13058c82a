//! What a measurement comes to.

use std::error::Error;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
