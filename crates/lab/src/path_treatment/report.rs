//! The report of an experiment on what paths do to packets.

use super::judgement::Verdict;
use super::row::TreatmentRow;
use super::scenario::PathTreatmentExperiment;
use crate::accuracy::BottleneckKind;
use crate::report::{Column, ReportParts, Table, report_document};
use crate::statistics::mean;
use crate::study::{Exclusion, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

report_document! {
    /// What paths did to packets, and what measurements said of it.
    PathTreatmentReport, "kumade.lab.path-treatment/1": |experiment: &PathTreatmentExperiment, given: Outcome<TreatmentRow>|, TreatmentRow;
    /// What was built, in words.
    setting: String = describe_setting(experiment),
    /// One for each measurement.
    rows: Vec<TreatmentRow> = given.rows,
    /// Cases that were not measured.
    left_out: Vec<Exclusion> = given.excluded,
    /// The rows summed up.
    summary: TreatmentSummary = TreatmentSummary::from_rows(&rows),
}

/// All measurements summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreatmentSummary {
    /// Measurements of which all is right.
    pub right: usize,
    /// Measurements that are not sure of what is done to packets.
    pub not_sure: usize,
    /// Measurements of which a statement is wrong.
    pub wrong: usize,
    /// Mean duration; null without measurements.
    pub mean_seconds: Option<f64>,
}

impl TreatmentSummary {
    /// Of these rows.
    pub(super) fn from_rows(rows: &[TreatmentRow]) -> Self {
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        TreatmentSummary {
            right: count(Verdict::Right),
            not_sure: count(Verdict::NotSure),
            wrong: count(Verdict::Wrong),
            mean_seconds: mean(&rows.iter().map(|row| row.duration_seconds).collect::<Vec<_>>()),
        }
    }
}

impl ReportParts for PathTreatmentReport {
    const RATE_DEFINITION: &'static str = "There are no rates.";
    const COLUMNS: &'static str =
        "case version loss_ratio run verdict right not_sure wrong reason duration_seconds repeats disturbed";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        let caption = "By measurement: whether the report is right as a whole, and statements by their verdict; what is not right";
        vec![Table::from_items(caption, &self.rows, &COLUMNS)]
    }

    fn conclusions(&self) -> Vec<String> {
        let TreatmentSummary { right, not_sure, wrong, .. } = self.summary;
        vec![format!("{right} of {} measurements are right, {wrong} wrong, {not_sure} not sure", self.rows.len())]
    }

    fn notes(&self) -> Vec<String> {
        let reasons: BTreeSet<&str> = self.left_out.iter().map(|left_out| &*left_out.reason).collect();
        let note = |reason| {
            let cases = self.left_out.iter().filter(|left_out| left_out.reason == reason);
            let cases: Vec<_> = cases.map(|left_out| &*left_out.kind).collect();
            format!("left out, since {reason}: {}", cases.join("; "))
        };
        reasons.into_iter().map(note).collect()
    }
}

const COLUMNS: [Column<'_, TreatmentRow>; 8] = [
    ("case", &|row| row.case.clone()),
    ("IP", &|row| row.version.word().to_owned()),
    ("loss, %", &|row| format!("{:.0}", row.loss_ratio * 100.0)),
    ("verdict", &|row| row.verdict.word().to_owned()),
    ("right", &|row| row.right.to_string()),
    ("not sure", &|row| row.not_sure.to_string()),
    ("wrong", &|row| row.wrong.to_string()),
    ("fault", &|row| row.first_fault().unwrap_or_else(|| "none".into())),
];

fn describe_setting(experiment: &PathTreatmentExperiment) -> String {
    let link = experiment.link;
    match experiment.bottleneck {
        BottleneckKind::Htb => format!(
            "the kernel's routes and nftables in place of a middlebox, before its HTB of {}; runs of each case: {}",
            link.rate, experiment.runs
        ),
        _ => format!(
            "a middlebox before a link of {} with {} in each direction; runs of each case: {}",
            link.rate, link.delay, experiment.runs
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_treatment::{JudgedItem, TreatmentPoint};
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, Study};

    /// One row for each verdict, and one without a report.
    fn report() -> PathTreatmentReport {
        let experiment = load("path-treatment", &Overrides::default()).unwrap();
        let experiment = experiment.into_scenario::<PathTreatmentExperiment>().unwrap();
        let item = |verdict| JudgedItem {
            item: "mark up, ECT(1)".into(),
            is_treated: true,
            truth: "dropped".into(),
            found: "ECT(1): kept (12 of 12)".into(),
            verdict,
        };
        let judged = [Verdict::Right, Verdict::NotSure, Verdict::Wrong].map(|verdict| Ok(vec![item(verdict)]));
        let judged = judged.into_iter().chain([Err("no answer".to_owned())]);
        let points: Vec<TreatmentPoint<'_>> = experiment.points();
        let rows = points.iter().zip(judged).map(|(point, judged)| TreatmentRow::new(point, judged, 2.5)).collect();
        let excluded = vec![Exclusion { kind: "one case".into(), reason: "the kernel lacks it".into() }];
        PathTreatmentReport::new(&experiment, "2026-11-29T12:00:00Z".into(), Outcome { rows, excluded })
    }

    #[test]
    fn measurements_are_counted_by_their_verdict_with_what_is_not_right() {
        let report = report();
        let TreatmentSummary { right, not_sure, wrong, .. } = report.summary;
        assert_eq!((right, not_sure, wrong), (1, 2, 1));
        let text = report.to_text();
        assert!(text.contains("1 of 4 measurements are right, 1 wrong, 2 not sure"), "{text}");
        assert!(text.contains("mark up, ECT(1): dropped, found: ECT(1): kept (12 of 12)"), "{text}");
        assert!(text.contains("no answer") && text.contains("left out, since the kernel lacks it: one case"), "{text}");
    }

    #[test]
    fn the_document_has_the_published_schema_and_reads_back() {
        let report = report();
        let validator = schema::published_schema::<PathTreatmentReport>("kumade.lab.path-treatment.1");
        let json = report.to_json().unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        assert_eq!(PathTreatmentReport::from_json(&json).unwrap(), report);
        assert_eq!(report.to_csv().unwrap().lines().count(), 5);
        assert!(report.to_html().unwrap().contains("path-treatment"));
    }
}
