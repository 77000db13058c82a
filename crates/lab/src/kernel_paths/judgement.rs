//! What a report says of a path, beside what was true of it.

use super::draw::{KernelHop, KernelPath};
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Estimate;
use kumade_sim::atlas::{EstimateError, EstimateFault};
use kumade_units::{Rate, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a report comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathVerdict {
    /// An interval or bound misses the truth by more than 5 % of it.
    Wrong,
    /// The interval contains the truth.
    Covered,
    /// It misses it, by little.
    Near,
    /// There is no value, but a bound that holds.
    Bound,
    /// There is neither.
    None,
    /// The measurement ended in an error.
    Failed,
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
    /// What the narrow link sustains.
    pub(super) narrow: Rate,
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
            PathVerdict::Failed => "failed",
        }
    }
}

impl KernelPathTruth {
    /// What was true on average of this time, in which the first shaper's rate may have changed, beside this traffic through each shaper.
    pub(super) fn new(path: &KernelPath, cross: &[Rate], (from, to): (Time, Time), changed: Option<Time>) -> Self {
        let later_part =
            changed.map_or(0.0, |changed| ((to - changed).as_secs_f64() / (to - from).as_secs_f64()).clamp(0.0, 1.0));
        let mean_rate = |(index, hop): (usize, &KernelHop)| match path.later_rate.filter(|_| index == 0) {
            Some((_, later)) => hop.rate.as_f64() * (1.0 - later_part) + later.as_f64() * later_part,
            None => hop.rate.as_f64(),
        };
        let rates = path.hops.iter().enumerate().map(mean_rate);
        let left = rates.zip(cross).map(|(rate, cross)| rate - cross.as_f64()).fold(f64::INFINITY, f64::min);
        let flows = path.hops.iter().map(|hop| hop.cross.len()).max().unwrap_or(0);
        let narrow = path.hops.iter().map(|hop| hop.rate).min().unwrap_or_default();
        let share = narrow.as_f64() / (flows + 1) as f64;
        KernelPathTruth {
            available: Rate::from_f64(left.max(0.0)),
            fair_share: path.has_flow_queueing.then(|| Rate::from_f64(left.max(share))),
            capacity: (!path.has_bucket && path.later_rate.is_none()).then_some(narrow),
            narrow,
        }
    }

    /// Whether an interval is wrong with confidence, as the atlas has it.
    fn refutes(&self, found: &Estimate<Rate>, truth: Rate) -> bool {
        EstimateError::compare(found, truth, self.narrow).fault().is_some()
    }
}

/// The verdict on a report, and the statement that is wrong.
pub(super) fn judge_report(report: &DirectionReport, truth: &KernelPathTruth) -> (PathVerdict, Option<String>) {
    let bounds = (report.at_least_bits_per_second, report.at_most_bits_per_second);
    let verdict = match &report.available_bits_per_second {
        Some(found) if truth.refutes(found, truth.available) => PathVerdict::Wrong,
        Some(found) if (found.low..=found.high).contains(&truth.available) => PathVerdict::Covered,
        Some(_) => PathVerdict::Near,
        None if EstimateFault::compare_bounds(bounds.0, bounds.1, truth.available).is_some() => PathVerdict::Wrong,
        None if bounds != (None, None) => PathVerdict::Bound,
        None => PathVerdict::None,
    };
    let share = report.fair_share_bits_per_second.zip(truth.fair_share);
    let capacity = report.capacity.as_ref().and_then(|capacity| capacity.bottleneck_bits_per_second);
    let is_wrong =
        |pair: Option<(Estimate<Rate>, Rate)>| pair.is_some_and(|(found, true_rate)| truth.refutes(&found, true_rate));
    let fault = match verdict {
        PathVerdict::Wrong => Some("available"),
        _ if is_wrong(share) => Some("fair share"),
        _ if is_wrong(capacity.zip(truth.capacity)) => Some("capacity"),
        _ => None,
    };
    let verdict = if fault.is_some() { PathVerdict::Wrong } else { verdict };
    (verdict, fault.map(|statement| format!("{statement}: {report}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_link::{CrossConfig, CrossKind};
    use kumade_units::Span;

    fn path(rates: &[u64], later: Option<u64>) -> KernelPath {
        let hop = |rate: &u64| KernelHop { rate: Rate::from_mbit(*rate), commands: Vec::new(), cross: Vec::new() };
        let later_rate = later.map(|rate| (Span::from_secs(1), Rate::from_mbit(rate)));
        KernelPath { hops: rates.iter().map(hop).collect(), later_rate, has_flow_queueing: false, has_bucket: false }
    }

    /// With this traffic through each shaper, from 10 s to 14 s, where the rate changes then.
    fn truth(path: &KernelPath, cross: &[u64], changed: Option<i64>) -> KernelPathTruth {
        let after = |seconds| Time::ZERO + Span::from_secs(seconds);
        let cross: Vec<_> = cross.iter().copied().map(Rate::from_mbit).collect();
        KernelPathTruth::new(path, &cross, (after(10), after(14)), changed.map(after))
    }

    #[test]
    fn the_truth_is_of_the_rate_in_the_window_and_of_the_hop_that_leaves_least() {
        let step = path(&[10], Some(30));
        let available = |changed| truth(&step, &[4], changed).available;
        assert_eq!([None, Some(15), Some(13), Some(9)].map(available), [6, 6, 11, 26].map(Rate::from_mbit));
        let tight = truth(&path(&[20, 60], None), &[0, 50], None);
        assert_eq!((tight.available, tight.capacity), (Rate::from_mbit(10), Some(Rate::from_mbit(20))));
        assert_eq!(truth(&path(&[60, 20], None), &[50, 0], None), tight);
        let kind = CrossKind::Jittered { rate: Rate::from_mbit(1), size: 1500, jitter: 0.0 };
        let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 0 };
        let mut shared = KernelPath { has_flow_queueing: true, ..path(&[30], None) };
        shared.hops[0].cross = vec![cross.clone(), cross];
        assert_eq!(truth(&shared, &[28], None).fair_share, Some(Rate::from_mbit(10)), "a third");
        assert_eq!(truth(&shared, &[10], None).fair_share, Some(Rate::from_mbit(20)), "what is left");
    }
}
