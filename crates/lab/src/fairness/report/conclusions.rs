//! The results in sentences, and what the numbers do not show.

use super::document::FairnessReport;
use crate::fairness::summary::PointSummary;
use crate::report::describe_disturbances;

/// The discipline that the paper's is less fair than at small delays, and that ours must not be.
const BASELINE_DISCIPLINE: &str = "codel";
/// Differences of the index below this vary from run to run.
const NOTICEABLE_INDEX_DIFFERENCE: f64 = 0.005;

/// The results of each discipline in one sentence.
pub(super) fn conclusions(report: &FairnessReport) -> Vec<String> {
    report.summary.discipline_names().into_iter().filter_map(|name| discipline_conclusion(report, name)).collect()
}

fn discipline_conclusion(report: &FairnessReport, name: &str) -> Option<String> {
    let summary = report.summary.disciplines.get(name)?;
    let points: Vec<_> = report.summary.points.iter().filter(|point| point.discipline == name).collect();
    let indices = points.iter().filter_map(|point| Some((point.min_jain_index?, &point.case)));
    let (min, case) = indices.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let mut text = format!(
        "{name}: Jain's index {:.3} on average, minimum {min:.3} ({case}); utilisation at least {:.1} %",
        summary.mean_jain_index?,
        summary.min_utilisation_ratio? * 100.0
    );
    let behind: Vec<_> = points.iter().filter(|point| is_behind_baseline(report, point)).map(|p| &*p.case).collect();
    if !behind.is_empty() {
        text += &format!("; less fair than {BASELINE_DISCIPLINE} at {}", behind.join(", "));
    }
    Some(text)
}

/// Whether the baseline is fairer in that case.
fn is_behind_baseline(report: &FairnessReport, point: &PointSummary) -> bool {
    let baseline =
        report.summary.points.iter().find(|other| other.discipline == BASELINE_DISCIPLINE && other.case == point.case);
    let baseline = baseline.and_then(|baseline| baseline.jain_index);
    point
        .jain_index
        .zip(baseline)
        .is_some_and(|(index, baseline)| index.value < baseline.value - NOTICEABLE_INDEX_DIFFERENCE)
}

/// Disturbed and repeated runs, and those without data.
pub(super) fn run_notes(report: &FairnessReport) -> Vec<String> {
    let silent = report.rows.iter().filter(|row| row.jain_index.is_none()).count();
    let mut notes = describe_disturbances(report.rows.iter().map(|row| (row.repeats, row.disturbed)));
    if silent > 0 {
        notes.push(format!("no data arrived in {silent} runs"));
    }
    notes
}
