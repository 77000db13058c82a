//! What the bonded plane finds out by itself, beside the same plane in fixed ratios.

use super::document::MultipathReport;
use crate::multipath::summary::PointSummary;
use crate::statistics::{mean, min_and_max};

/// The plane that is told nothing, …
const ADAPTIVE_PLANE: &str = "bonded";
/// … and what it is compared with: `bonded-ratio 16:3`, or `bonded-ratio 1:0` for a path alone.
const FIXED_RATIO_PREFIX: &str = "bonded-ratio ";
/// The part of the best fixed ratio's goodput that is to be reached on average, …
const REQUIRED_MEAN_SHARE: f64 = 0.97;
/// … and in each case.
const REQUIRED_CASE_SHARE: f64 = 0.92;

/// One set of paths.
struct RatioComparison<'r> {
    case: &'r str,
    goodput: f64,
    best: &'r str,
    share_of_best: f64,
    share_of_single: f64,
}

/// A line for each case with several ratios and each path alone, and one for all of them.
pub(super) fn comparison_lines(report: &MultipathReport) -> Vec<String> {
    let compared: Vec<_> = report.summary.cases().into_iter().filter_map(|case| compare_case(report, case)).collect();
    compared.iter().map(RatioComparison::describe).chain(conclusion(&compared)).collect()
}

fn compare_case<'r>(report: &'r MultipathReport, case: &'r str) -> Option<RatioComparison<'r>> {
    let fixed = report.summary.points.iter().filter(|point| point.case == case);
    let fixed: Vec<(&str, f64)> =
        fixed.filter_map(|point| Some((point.contender.strip_prefix(FIXED_RATIO_PREFIX)?, goodput(point)?))).collect();
    let alone = fixed.iter().filter(|(ratio, _)| is_single_path(ratio)).map(|(_, goodput)| *goodput);
    let alone: Vec<f64> = alone.collect();
    let (best, most) = fixed.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (_, better_path) = min_and_max(&alone).filter(|_| alone.len() > 1 && fixed.len() > alone.len())?;
    let own = goodput(report.summary.point(case, ADAPTIVE_PLANE)?)?;
    Some(RatioComparison { case, goodput: own, best, share_of_best: own / most, share_of_single: own / better_path })
}

/// Whether that contender is the plane in a fixed ratio.
pub(super) fn is_fixed_ratio(contender: &str) -> bool {
    contender.starts_with(FIXED_RATIO_PREFIX)
}

fn goodput(point: &PointSummary) -> Option<f64> {
    point.goodput_bits_per_second.map(|goodput| goodput.value)
}

fn is_single_path(ratio: &str) -> bool {
    ratio.split(':').filter(|share| *share != "0").count() == 1
}

impl RatioComparison<'_> {
    fn describe(&self) -> String {
        format!(
            "{}: by itself {:.2} Mbit/s, {:.1} % of the best fixed ratio ({}), {:.1} % of the better path alone",
            self.case,
            self.goodput / 1e6,
            self.share_of_best * 100.0,
            self.best,
            self.share_of_single * 100.0
        )
    }
}

fn conclusion(compared: &[RatioComparison<'_>]) -> Option<String> {
    let of_best: Vec<f64> = compared.iter().map(|case| case.share_of_best).collect();
    let of_single: Vec<f64> = compared.iter().map(|case| case.share_of_single).collect();
    let (mean, (least, _), (least_of_single, _)) = (mean(&of_best)?, min_and_max(&of_best)?, min_and_max(&of_single)?);
    let met = |is_met: bool| if is_met { "met" } else { "not met" };
    Some(format!(
        "of the best fixed ratio {:.1} % on average, required {:.0} %: {}; {:.1} % at least, required {:.0} %: {}; of the \
         better path alone {:.1} % at least, required 100 %: {}",
        mean * 100.0,
        REQUIRED_MEAN_SHARE * 100.0,
        met(mean >= REQUIRED_MEAN_SHARE),
        least * 100.0,
        REQUIRED_CASE_SHARE * 100.0,
        met(least >= REQUIRED_CASE_SHARE),
        least_of_single * 100.0,
        met(least_of_single >= 1.0)
    ))
}
