//! Round trips as programs tell them.

use crate::Outcome;

/// In seconds.
#[derive(Debug)]
pub struct Delays {
    pub median: f64,
    pub quantile_95: f64,
}

impl Delays {
    /// Of each target its own two figures: those in the middle of all targets.
    pub fn of_targets(medians: Vec<f64>, quantiles_95: Vec<f64>) -> Outcome<Self> {
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().ok_or("it tells no delays")
        };
        Ok(Delays { median: middle(medians)?, quantile_95: middle(quantiles_95)? })
    }
}

/// The values of all series of this name, in the text format of Prometheus.
pub fn metric_values<'t>(text: &'t str, name: &str) -> impl Iterator<Item = (&'t str, f64)> {
    let lines = text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    lines.filter_map(|(labels, value)| Some((labels, value.split(' ').next()?.parse().ok()?)))
}
