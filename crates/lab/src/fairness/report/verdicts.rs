//! The results in sentences, and what the numbers do not show.

use super::document::FairnessReport;
use crate::fairness::row::FairnessRow;
use crate::fairness::summary::PointSummary;

/// The discipline that the paper's falls behind at small delays, and that ours must not.
const PLAIN: &str = "codel";
/// Differences of the index below this are the runs', not the disciplines'.
const NOTICEABLE: f64 = 0.005;

/// What each discipline came to, in a sentence.
pub(super) fn all(report: &FairnessReport) -> Vec<String> {
    let s = &report.summary;
    let verdict = |name: &str| {
        let own = s.disciplines.get(name)?;
        let points: Vec<_> = s.points.iter().filter(|point| point.discipline == name).collect();
        let least = points.iter().filter_map(|point| Some((point.jain_index?.mean, &point.case)));
        let (least, case) = least.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mut text =
            format!("{name}: Jain's index {:.3} in the mean, {least:.3} at least ({case})", own.mean_jain_index?);
        text += &format!(", and at least {:.1} % of the bottleneck used", own.least_utilisation_ratio? * 100.0);
        let behind: Vec<_> = points.iter().filter(|point| is_behind(report, point)).map(|p| &*p.case).collect();
        if !behind.is_empty() {
            text += &format!("; less fair than {PLAIN} at {}", behind.join(", "));
        }
        Some(text)
    };
    s.discipline_names().into_iter().filter_map(verdict).collect()
}

/// Whether plain CoDel is fairer in that case.
fn is_behind(report: &FairnessReport, point: &PointSummary) -> bool {
    let plain = report.summary.points.iter().find(|other| other.discipline == PLAIN && other.case == point.case);
    let plain = plain.and_then(|plain| plain.jain_index);
    point.jain_index.zip(plain).is_some_and(|(own, plain)| own.mean < plain.mean - NOTICEABLE)
}

/// What the numbers can't say.
pub(super) fn notes(report: &FairnessReport) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |what: &dyn Fn(&&FairnessRow) -> bool| report.rows.iter().filter(what).count();
    let (stalled, silent) = (count(&|row| row.stalled), count(&|row| row.jain_index.is_none()));
    let repeats: u32 = report.rows.iter().map(|row| row.stalled_repeats).sum();
    if stalled > 0 {
        notes.push(format!(
            "the machine stalled in {stalled} runs, and no repetition was left; their figures are in doubt"
        ));
    }
    if repeats > 0 {
        notes.push(format!("{repeats} runs were thrown away and repeated, because the machine stalled in them"));
    }
    if silent > 0 {
        notes.push(format!("in {silent} runs nothing arrived"));
    }
    notes
}
