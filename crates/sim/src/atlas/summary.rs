//! Results on many paths, summed up.

use super::draw::DrawnPath;
use super::measure::AtlasMeasurement;
use super::truth::{EstimateError, EstimateFault, PathTruth};
use crate::elastic::{FlowImpact, ImpactSummary};
use kumade_measurement::report::{DirectionReport, Warning};
use kumade_probe_train::Estimate;
use kumade_probe_train::statistics::{mean, median};
use kumade_units::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What became of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// Of the available bandwidth; none where there is no value.
    pub estimate_error: Option<EstimateError>,
    /// Why there is no value.
    pub refusal_reason: Option<String>,
    /// A false statement.
    pub fault: Option<EstimateFault>,
    /// What the measurement did to TCP connections, where these are the cross traffic.
    pub impact: Option<FlowImpact>,
    /// Whether the report says that a proxy ends the connections.
    pub reports_proxy: bool,
    /// Whether it says that a token bucket shapes the path, which has none.
    pub reports_absent_bucket: bool,
    /// IP bytes sent.
    pub bytes: u64,
    /// From the first train to the result.
    pub seconds: f64,
}

/// Many measurements. Parts of the runs are from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct KindResults {
    /// How many.
    pub runs: usize,
    /// Those that gave a value.
    pub runs_with_value: usize,
    /// Coverage: the part of the values whose interval contains the truth.
    pub coverage: f64,
    /// The mean absolute error, as a part of what the path carries without cross traffic.
    pub mean_absolute_error: f64,
    /// The median of the intervals' widths, as a part of the truth.
    pub median_width: f64,
    /// Runs with a statement that is wrong with confidence.
    pub runs_with_fault: usize,
    /// What they did to TCP connections, where these are the cross traffic.
    pub impact: Option<ImpactSummary>,
    /// Runs whose report says that a proxy ends the connections.
    pub runs_reporting_proxy: usize,
    /// Runs whose report says that a token bucket shapes a path which has none.
    pub runs_reporting_absent_bucket: usize,
    /// Runs without a value, by cause.
    pub refusals: BTreeMap<String, usize>,
    /// Mean IP bytes of a run.
    pub mean_bytes: f64,
    /// Mean seconds of a run.
    pub mean_seconds: f64,
}

fn reports_token_bucket(report: &DirectionReport) -> bool {
    let is_of_bucket =
        |warning: &Warning| matches!(warning, Warning::Estimate(kumade_estimate::Warning::BurstsPass(_)));
    report.capacity.as_ref().is_some_and(|capacity| capacity.shaper.is_some())
        || report.warnings.iter().any(is_of_bucket)
}

impl PathResult {
    /// Of a measurement of this path.
    pub fn evaluate(path: &DrawnPath, measured: &AtlasMeasurement) -> Self {
        let AtlasMeasurement { report, truth, impact } = measured;
        PathResult {
            estimate_error: report
                .available_bits_per_second
                .as_ref()
                .map(|found| evaluate_estimate(found, report, truth)),
            refusal_reason: report.reason.as_ref().map(ToString::to_string),
            fault: match &report.available_bits_per_second {
                Some(found) => {
                    evaluate_estimate(found, report, truth).fault().or(fault_over_connections(report, truth))
                }
                None => {
                    let share = report.fair_share_bits_per_second.zip(truth.fair_share);
                    let share =
                        share.and_then(|(found, share)| EstimateError::compare(&found, share, truth.carried).fault());
                    let bounds = (report.at_least_bits_per_second, report.at_most_bits_per_second);
                    share.or(EstimateFault::compare_bounds(bounds.0, bounds.1, truth.available))
                }
            },
            impact: *impact,
            reports_proxy: report.warnings.iter().any(|warning| matches!(warning, Warning::Proxy(_))),
            reports_absent_bucket: path.token_bucket.is_none() && reports_token_bucket(report),
            bytes: report.total_bytes_sent(),
            seconds: report.total_duration_seconds(),
        }
    }
}

/// Where links side by side were found, the value is what one flow can have whichever it takes.
fn evaluate_estimate(found: &Estimate<Rate>, report: &DirectionReport, truth: &PathTruth) -> EstimateError {
    match (truth.ecmp_link_range, &report.load_balancing) {
        (Some((worst, best)), Some(_)) => {
            let [worst, best] = [worst, best].map(|end| EstimateError::compare(found, end, truth.carried));
            let covers = worst.covers_truth && best.covers_truth;
            if worst.miss_ratio > best.miss_ratio {
                EstimateError { covers_truth: covers, ..worst }
            } else {
                EstimateError { covers_truth: covers, ..best }
            }
        }
        _ => EstimateError::compare(found, truth.available, truth.carried),
    }
}

/// Of what many flows can have on links side by side.
fn fault_over_connections(report: &DirectionReport, truth: &PathTruth) -> Option<EstimateFault> {
    let found = report.load_balancing.as_ref()?.many_flows_bits_per_second?;
    EstimateError::compare(&found, truth.available, truth.carried).fault()
}

impl KindResults {
    /// Of these.
    pub fn from_results(results: &[PathResult]) -> Self {
        let judged: Vec<&EstimateError> =
            results.iter().filter_map(|verdict| verdict.estimate_error.as_ref()).collect();
        let covers: Vec<f64> = judged.iter().map(|judgement| f64::from(u8::from(judgement.covers_truth))).collect();
        let errors: Vec<f64> = judged.iter().map(|judgement| judgement.error_ratio.abs()).collect();
        let widths: Vec<f64> = judged.iter().map(|judgement| judgement.width_ratio).collect();
        let impacts: Vec<FlowImpact> = results.iter().filter_map(|verdict| verdict.impact).collect();
        let mut refusals = BTreeMap::new();
        for reason in results.iter().filter_map(|verdict| verdict.refusal_reason.as_deref()) {
            *refusals.entry(refusal_cause(reason)).or_default() += 1;
        }
        KindResults {
            runs: results.len(),
            runs_with_value: judged.len(),
            coverage: mean(&covers),
            mean_absolute_error: mean(&errors),
            median_width: median(&widths).unwrap_or(0.0),
            impact: ImpactSummary::from_impacts(&impacts),
            runs_with_fault: results.iter().filter(|verdict| verdict.fault.is_some()).count(),
            runs_reporting_proxy: results.iter().filter(|verdict| verdict.reports_proxy).count(),
            runs_reporting_absent_bucket: results.iter().filter(|verdict| verdict.reports_absent_bucket).count(),
            refusals,
            mean_bytes: mean(&results.iter().map(|verdict| verdict.bytes as f64).collect::<Vec<_>>()),
            mean_seconds: mean(&results.iter().map(|verdict| verdict.seconds).collect::<Vec<_>>()),
        }
    }
}

/// A reason without its figures.
pub fn refusal_cause(reason: &str) -> String {
    let mut words = Vec::new();
    let mut after_figure = false;
    for word in reason.split_whitespace() {
        let is_figure = word.starts_with(|c: char| c.is_ascii_digit());
        let is_unit = after_figure && word.trim_end_matches([',', ':', ';']).ends_with("bit/s");
        after_figure = is_figure;
        if is_figure {
            words.push("…");
        } else if !is_unit {
            words.push(word);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_with_other_figures_are_one_cause() {
        let causes =
            ["8 trains lost, at most 3.5 Mbit/s lasts", "12 trains lost, at most 70 kbit/s lasts"].map(refusal_cause);
        assert_eq!(causes[0], "… trains lost, at most … lasts");
        assert_eq!(causes[0], causes[1]);
    }

    #[test]
    fn runs_are_summed_up() {
        let judgement = |error, covers, miss| {
            Some(EstimateError { error_ratio: error, covers_truth: covers, miss_ratio: miss, width_ratio: 0.1 })
        };
        let value = |error: f64, covers, miss| PathResult {
            estimate_error: judgement(error, covers, miss),
            refusal_reason: None,
            fault: judgement(error, covers, miss).and_then(|judgement| judgement.fault()),
            impact: None,
            reports_proxy: false,
            reports_absent_bucket: false,
            bytes: 1_000_000,
            seconds: 1.0,
        };
        let refused = PathResult { estimate_error: None, refusal_reason: Some("lost".into()), ..value(0.0, true, 0.0) };
        let summary = KindResults::from_results(&[
            value(0.01, true, 0.0),
            value(-0.03, false, 0.01),
            value(0.2, false, 0.1),
            refused,
        ]);
        assert_eq!((summary.runs, summary.runs_with_value, summary.runs_with_fault), (4, 3, 1));
        assert!(
            (summary.coverage - 1.0 / 3.0).abs() < 1e-9 && (summary.mean_absolute_error - 0.08).abs() < 1e-9,
            "{summary:?}"
        );
        assert_eq!(summary.refusals, [("lost".to_owned(), 1)].into());
    }
}
