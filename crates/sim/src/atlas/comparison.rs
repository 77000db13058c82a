//! Today's rules against the posterior over path models, on the same trains of the same paths.

use super::measure::AtlasMeasurement;
use super::truth::PathTruth;
use kumade_evidence::{Evidence, Verdict};
use kumade_probe_train::Estimate;
use kumade_probe_train::statistics::median;
use kumade_units::Rate;
use std::collections::BTreeMap;

/// A statement is wrong with confidence if the truth lies beyond an end by more than this part of it, and by more than the interval is wide on that side.
const MAX_MISS_RATIO: f64 = 0.05;

/// What one side says of a path, and whether that is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statement {
    /// The interval's width as a part of the truth; none without a value.
    pub width_ratio: Option<f64>,
    /// Whether the value's interval covers the truth.
    pub covers_truth: bool,
    /// The value less the truth, as a part of the truth; none without a value.
    pub error_ratio: Option<f64>,
    /// Whether the value or the bound is wrong with confidence.
    pub is_wrong: bool,
}

/// Both sides on one path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathComparison {
    /// What the rules say.
    pub rules: Statement,
    /// What the posterior would.
    pub posterior: Statement,
    /// Whether the central intervals of the posterior cover the truth, at [`NOMINAL_COVERAGE`](kumade_evidence::NOMINAL_COVERAGE); none without a posterior.
    pub covers_truth: Option<[bool; 3]>,
    /// The most probable model.
    pub leading_model: Option<String>,
    /// How far the truth is from the posterior's median, in half widths of its 95 % interval on that side; none where no model fits.
    pub deviation: Option<f64>,
}

/// All paths of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct KindComparison {
    /// How many.
    pub runs: usize,
    /// What the rules say: see [`StatementSummary`].
    pub rules: StatementSummary,
    /// What the posterior would.
    pub posterior: StatementSummary,
    /// Coverage of the posterior's central intervals, whether or not there is a value, at [`NOMINAL_COVERAGE`](kumade_evidence::NOMINAL_COVERAGE).
    pub coverage: [f64; 3],
    /// Runs by leading model, most frequent first.
    pub leading_models: Vec<(String, usize)>,
}

/// Statements summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatementSummary {
    /// How many have a value.
    pub values: usize,
    /// The part of the values whose interval covers the truth.
    pub coverage: f64,
    /// Values and bounds that are wrong with confidence.
    pub wrong: usize,
    /// The median width of the intervals, as a part of the truth.
    pub median_width: f64,
    /// The median absolute error, as a part of the truth.
    pub median_error: f64,
}

impl Statement {
    /// Of a value, or else of an upper and a lower bound. `scale` is what misses are relative to: the truth, or a hundredth of the link.
    fn compare(found: Option<&Estimate<Rate>>, bounds: [Option<Rate>; 2], truth: f64, scale: f64) -> Self {
        let Some(found) = found else {
            let [at_least, at_most] = bounds.map(|bound| bound.map(Rate::as_f64));
            let is_wrong = at_least.is_some_and(|least| least - truth > MAX_MISS_RATIO * scale)
                || at_most.is_some_and(|most| truth - most > MAX_MISS_RATIO * scale);
            return Statement { width_ratio: None, covers_truth: false, error_ratio: None, is_wrong };
        };
        let [value, low, high] = [found.value, found.low, found.high].map(Rate::as_f64);
        let (miss, side) = if truth < low { (low - truth, value - low) } else { (truth - high, high - value) };
        Statement {
            width_ratio: Some((high - low) / scale),
            covers_truth: miss <= 0.0,
            error_ratio: Some((value - truth) / scale),
            is_wrong: miss > MAX_MISS_RATIO * scale && miss > side,
        }
    }
}

impl PathComparison {
    /// Of a measurement, and of the posterior that its trains come to, if they tell anything.
    pub fn new(measured: &AtlasMeasurement, evidence: Option<&Evidence>, sustained: Rate) -> Self {
        let AtlasMeasurement { report, truth: PathTruth { available, .. }, .. } = measured;
        let truth = available.as_f64();
        let scale = truth.max(0.01 * sustained.as_f64());
        let bounds = [report.at_least_bits_per_second, report.at_most_bits_per_second];
        let (value, bound) = evidence.map_or((None, None), |found| match found.verdict {
            Verdict::Value { value, low, high } => {
                let [value, low, high] = [value, low, high].map(Rate::from_f64);
                (Some(Estimate { value, low, high, confidence: 0.95 }), None)
            }
            Verdict::None { at_most, .. } => (None, Some(Rate::from_f64(at_most))),
        });
        PathComparison {
            rules: Statement::compare(report.available_bits_per_second.as_ref(), bounds, truth, scale),
            posterior: Statement::compare(value.as_ref(), [None, bound], truth, scale),
            covers_truth: evidence.map(|found| found.quantiles.cover(truth)),
            leading_model: evidence.and_then(|found| Some(found.models.first()?.name.to_owned())),
            deviation: evidence.filter(|found| found.has_fitting_model()).map(|found| {
                let (median, (low, high)) = (found.quantiles.median(), found.quantiles.interval());
                let side = if truth < median { median - low } else { high - median };
                (truth - median).abs() / side.max(f64::MIN_POSITIVE)
            }),
        }
    }

    /// For each leading model that fits: of how many of these paths, and by how much its distribution has to be widened so that 95 % of the
    /// truths are within its 95 % interval (split conformal; Vovk, Gammerman and Shafer: Algorithmic Learning in a Random World, 2005).
    pub fn needed_stretch(paths: &[PathComparison]) -> Vec<(String, usize, f64)> {
        let mut by_model: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for path in paths {
            if let (Some(model), Some(deviation)) = (&path.leading_model, path.deviation) {
                by_model.entry(model).or_default().push(deviation);
            }
        }
        let needed = |(model, mut deviations): (&str, Vec<f64>)| {
            deviations.sort_by(f64::total_cmp);
            // The ⌈0.95 (n + 1)⌉-th of them.
            let rank = ((deviations.len() + 1) as f64 * 0.95).ceil() as usize;
            let stretch = deviations.get(rank - 1).copied().unwrap_or(f64::INFINITY);
            (model.to_owned(), deviations.len(), stretch)
        };
        by_model.into_iter().map(needed).collect()
    }
}

impl KindComparison {
    /// Of these.
    pub fn from_paths(paths: &[PathComparison]) -> Self {
        let covered: Vec<[bool; 3]> = paths.iter().filter_map(|path| path.covers_truth).collect();
        let part =
            |index: usize| covered.iter().filter(|covers| covers[index]).count() as f64 / covered.len().max(1) as f64;
        let mut leading: Vec<(String, usize)> = Vec::new();
        for name in paths.iter().filter_map(|path| path.leading_model.as_deref()) {
            match leading.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => leading.push((name.to_owned(), 1)),
            }
        }
        leading.sort_by_key(|(_, count)| usize::MAX - count);
        KindComparison {
            runs: paths.len(),
            rules: StatementSummary::from_statements(paths.iter().map(|path| path.rules)),
            posterior: StatementSummary::from_statements(paths.iter().map(|path| path.posterior)),
            coverage: [0, 1, 2].map(part),
            leading_models: leading,
        }
    }
}

impl StatementSummary {
    fn from_statements(statements: impl Iterator<Item = Statement> + Clone) -> Self {
        let values: Vec<Statement> = statements.clone().filter(|one| one.width_ratio.is_some()).collect();
        let widths: Vec<f64> = values.iter().filter_map(|one| one.width_ratio).collect();
        let errors: Vec<f64> = values.iter().filter_map(|one| one.error_ratio).map(f64::abs).collect();
        StatementSummary {
            values: values.len(),
            coverage: values.iter().filter(|one| one.covers_truth).count() as f64 / values.len().max(1) as f64,
            wrong: statements.filter(|one| one.is_wrong).count(),
            median_width: median(&widths).unwrap_or(0.0),
            median_error: median(&errors).unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_with_confidence_is_far_outside_only() {
        let compare = |low: u64, value: u64, high: u64, truth: f64| {
            let [low, value, high] = [low, value, high].map(Rate::from_bits_per_second);
            let found = Estimate { value, low, high, confidence: 0.95 };
            Statement::compare(Some(&found), [None, None], truth, truth)
        };
        assert!(compare(95, 100, 105, 104.0).covers_truth);
        let near = compare(95, 100, 105, 109.0);
        assert!(!near.covers_truth && !near.is_wrong, "within as much as the interval is wide on that side");
        assert!(compare(95, 100, 105, 112.0).is_wrong && compare(95, 100, 105, 80.0).is_wrong);
        assert!(!compare(99, 100, 101, 105.0).is_wrong, "by less than 5 %");
        let bound = |most| Statement::compare(None, [None, Some(Rate::from_bits_per_second(most))], 100.0, 100.0);
        assert!(bound(94).is_wrong && !bound(96).is_wrong && bound(94).width_ratio.is_none());
    }
}
