//! The results in sentences, and what the numbers do not show.

use super::document::FairnessReport;
use crate::fairness::summary::PointSummary;
use crate::report::disturbances;

/// The discipline that the paper's is less fair than at small delays, and that ours must not be.
const BASELINE: &str = "codel";
/// Differences of the index below this vary from run to run.
const NOTICEABLE: f64 = 0.005;

/// The results of each discipline in one sentence.
pub(super) fn all(report: &FairnessReport) -> Vec<String> {
    report.summary.discipline_names().into_iter().filter_map(|name| verdict(report, name)).collect()
}

fn verdict(report: &FairnessReport, name: &str) -> Option<String> {
    let summary = report.summary.disciplines.get(name)?;
    let points: Vec<_> = report.summary.points.iter().filter(|point| point.discipline == name).collect();
    let indices = points.iter().filter_map(|point| Some((point.min_jain_index?, &point.case)));
    let (min, case) = indices.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let mut text = format!(
        "{name}: Jain's index {:.3} on average, minimum {min:.3} ({case}); utilisation at least {:.1} %",
        summary.mean_jain_index?,
        summary.min_utilisation_ratio? * 100.0
    );
    let behind: Vec<_> = points.iter().filter(|point| is_behind(report, point)).map(|p| &*p.case).collect();
    if !behind.is_empty() {
        text += &format!("; less fair than {BASELINE} at {}", behind.join(", "));
    }
    Some(text)
}

/// Whether the baseline is fairer in that case.
fn is_behind(report: &FairnessReport, point: &PointSummary) -> bool {
    let baseline = report.summary.points.iter().find(|other| other.discipline == BASELINE && other.case == point.case);
    let baseline = baseline.and_then(|baseline| baseline.jain_index);
    point.jain_index.zip(baseline).is_some_and(|(index, baseline)| index.value < baseline.value - NOTICEABLE)
}

/// Disturbed and repeated runs, and those without data.
pub(super) fn notes(report: &FairnessReport) -> Vec<String> {
    let silent = report.rows.iter().filter(|row| row.jain_index.is_none()).count();
    let mut notes = disturbances(report.rows.iter().map(|row| (row.repeats, row.disturbed)));
    if silent > 0 {
        notes.push(format!("no data arrived in {silent} runs"));
    }
    notes
}
