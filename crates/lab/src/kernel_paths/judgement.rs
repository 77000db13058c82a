//! What a report says of a path, beside what was true of it.

use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Estimate;
use kumade_sim::atlas::EstimateFault;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An interval that misses the truth by more than this part of it is wrong, …
const MAX_MISS_RATIO: f64 = 0.05;
/// … if that is also more than this part of its width on that side, from the value to the end.
const MAX_MISS_PER_SIDE: f64 = 0.5;

/// What a report comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathVerdict {
    /// A value or bound misses the truth by far more than it admits.
    Wrong,
    /// The interval contains the truth.
    Covered,
    /// It misses it, by little.
    Near,
    /// There is no value, but a bound that holds.
    Bound,
    /// There is neither.
    None,
}

/// What was true while a path was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KernelPathTruth {
    /// What is sustained, less cross traffic: of the shaper that leaves least.
    pub(super) available: Rate,
    /// What one more flow could have, where flows have queues of their own.
    pub(super) fair_share: Option<Rate>,
    /// Of the narrow link; none where it passes bursts at another rate, or changes.
    pub(super) capacity: Option<Rate>,
}

impl PathVerdict {
    /// As reports call it.
    pub fn word(self) -> &'static str {
        match self {
            PathVerdict::Wrong => "wrong",
            PathVerdict::Covered => "covered",
            PathVerdict::Near => "near",
            PathVerdict::Bound => "bound",
            PathVerdict::None => "none",
        }
    }
}

/// Whether the interval, at the side where the truth is, misses it by more than half of itself and 5 % of the truth.
fn is_wrong(found: &Estimate<Rate>, truth: Rate) -> bool {
    let [value, low, high, truth] = [found.value, found.low, found.high, truth].map(Rate::as_f64);
    let (miss, side) = if truth < low { (low - truth, value - low) } else { (truth - high, high - value) };
    miss > MAX_MISS_PER_SIDE * side && miss > MAX_MISS_RATIO * truth
}

/// The verdict on a report, and the statement that is wrong.
pub(super) fn judge_report(report: &DirectionReport, truth: &KernelPathTruth) -> (PathVerdict, Option<String>) {
    let bounds = (report.at_least_bits_per_second, report.at_most_bits_per_second);
    let verdict = match &report.available_bits_per_second {
        Some(found) if is_wrong(found, truth.available) => PathVerdict::Wrong,
        Some(found) if (found.low..=found.high).contains(&truth.available) => PathVerdict::Covered,
        Some(_) => PathVerdict::Near,
        None if EstimateFault::compare_bounds(bounds.0, bounds.1, truth.available).is_some() => PathVerdict::Wrong,
        None if bounds != (None, None) => PathVerdict::Bound,
        None => PathVerdict::None,
    };
    let share = report.fair_share_bits_per_second.zip(truth.fair_share);
    let capacity = report.capacity.as_ref().and_then(|capacity| capacity.bottleneck_bits_per_second);
    let is_wrong_one =
        |pair: Option<(Estimate<Rate>, Rate)>| pair.is_some_and(|(found, truth)| is_wrong(&found, truth));
    let fault = match verdict {
        PathVerdict::Wrong => Some("available"),
        _ if is_wrong_one(share) => Some("fair share"),
        _ if is_wrong_one(capacity.zip(truth.capacity)) => Some("capacity"),
        _ => None,
    };
    let verdict = if fault.is_some() { PathVerdict::Wrong } else { verdict };
    (verdict, fault.map(|statement| format!("{statement}: {report}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: u64, value: u64, high: u64) -> Estimate<Rate> {
        let [low, value, high] = [low, value, high].map(Rate::from_mbit);
        Estimate { value, low, high, confidence: 0.95 }
    }

    #[test]
    fn an_interval_is_wrong_by_more_than_half_a_side_and_a_twentieth() {
        let is_wrong = |found, truth| is_wrong(&found, Rate::from_mbit(truth));
        assert!(!is_wrong(interval(80, 100, 120), 100) && !is_wrong(interval(80, 100, 120), 130));
        assert!(is_wrong(interval(80, 100, 120), 131) && is_wrong(interval(80, 100, 120), 69));
        assert!(!is_wrong(interval(80, 100, 120), 70) && !is_wrong(interval(100, 100, 100), 105));
        assert!(is_wrong(interval(100, 100, 100), 95) && !is_wrong(interval(100, 100, 100), 96));
    }
}
