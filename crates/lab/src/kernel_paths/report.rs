//! The report of an experiment on the kernel's shapers.

use super::judgement::PathVerdict;
use super::row::KernelPathRow;
use super::scenario::{KernelPathKind, KernelPaths};
use crate::report::{Column, ReportParts, Table, format_part, report_document};
use crate::statistics::{distinct, mean};
use crate::study::{Exclusion, Outcome};
use kumade_probe_train::statistics::median;
use kumade_sim::atlas::EstimateError;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

report_document! {
    /// What measurements of the kernel's shapers came to.
    KernelPathsReport, "kumade.lab.kernel-paths/1": |experiment: &KernelPaths, given: Outcome<KernelPathRow>|, KernelPathRow;
    /// Which paths were drawn, in words.
    setting: String = format!(
        "paths of seeds {} to {}, real time, the kernel's shapers between real hosts; full measurements, upwards",
        experiment.seed, experiment.seed.wrapping_add(u64::from(experiment.runs.max(1)) - 1)
    ),
    /// One for each measurement.
    rows: Vec<KernelPathRow> = given.rows,
    /// What could not be built or measured on this machine.
    left_out: Vec<Exclusion> = given.excluded,
    /// The rows summed up, by kind and transport, and of all kinds.
    summary: Vec<KernelKindSummary> = summarize_kinds(&rows),
}

/// The measurements of one kind over one transport. Ratios are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelKindSummary {
    /// The kind of the paths, or `all` but `tbf-unsent`, whose sustained rate no measurement can see.
    pub kind: String,
    /// What carried the trains.
    pub transport: String,
    /// How many were measured.
    pub runs: usize,
    /// Of these, wrong with confidence.
    pub wrong: usize,
    /// Wrong if they spoke of the whole measurement, which takes longer than the trains that a value follows from.
    pub wrong_of_whole: usize,
    /// Values whose interval contains the truth.
    pub covered: usize,
    /// Values that miss it by little.
    pub near: usize,
    /// Bounds that hold, without a value.
    pub bound: usize,
    /// Neither value nor bound.
    pub none: usize,
    /// Measurements that ended in an error.
    pub failed: usize,
    /// Mean absolute error of the values, as a part of what the path sustains; null without values.
    pub mean_error_ratio: Option<f64>,
    /// The worst one.
    pub worst_error_ratio: Option<f64>,
    /// Median width of the intervals as a part of the truth; null without values.
    pub median_width_ratio: Option<f64>,
}

fn summarize_kinds(rows: &[KernelPathRow]) -> Vec<KernelKindSummary> {
    let kinds = distinct(rows.iter().map(|row| (row.kind.as_str(), row.transport.as_str())));
    let transports = distinct(rows.iter().map(|row| row.transport.as_str()));
    let all = transports.into_iter().map(|transport| ("all", transport));
    kinds.into_iter().chain(all).map(|(kind, transport)| KernelKindSummary::from_rows(kind, transport, rows)).collect()
}

/// A bucket that is never empty hides what is sustained, which is the truth: a value that holds for all that was sent is called wrong.
fn is_counted(row: &KernelPathRow) -> bool {
    row.kind != KernelPathKind::TbfUnsent.name()
}

impl KernelKindSummary {
    fn from_rows(kind: &str, transport: &str, rows: &[KernelPathRow]) -> Self {
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| (row.kind == kind || kind == "all" && is_counted(row)) && row.transport == transport)
            .collect();
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        let compared = rows.iter().filter_map(|row| {
            let narrow = row.rates_bits_per_second.iter().min()?;
            Some(EstimateError::compare(&row.available_bits_per_second?, row.truth_bits_per_second, *narrow))
        });
        let compared: Vec<_> = compared.collect();
        let errors: Vec<f64> = compared.iter().map(|error| error.error_ratio.abs()).collect();
        let widths: Vec<f64> = compared.iter().map(|error| error.width_ratio).collect();
        KernelKindSummary {
            kind: kind.to_owned(),
            transport: transport.to_owned(),
            runs: rows.len(),
            wrong: count(PathVerdict::Wrong),
            wrong_of_whole: rows.iter().filter(|row| row.whole_verdict == PathVerdict::Wrong).count(),
            covered: count(PathVerdict::Covered),
            near: count(PathVerdict::Near),
            bound: count(PathVerdict::Bound),
            none: count(PathVerdict::None),
            failed: count(PathVerdict::Failed),
            mean_error_ratio: mean(&errors),
            worst_error_ratio: errors.iter().copied().reduce(f64::max),
            median_width_ratio: median(&widths),
        }
    }
}

const KIND_COLUMNS: [Column<'_, KernelKindSummary>; 13] = [
    ("kind", &|kind| kind.kind.clone()),
    ("transport", &|kind| kind.transport.clone()),
    ("paths", &|kind| kind.runs.to_string()),
    ("wrong", &|kind| kind.wrong.to_string()),
    ("of whole", &|kind| kind.wrong_of_whole.to_string()),
    ("covered", &|kind| kind.covered.to_string()),
    ("near", &|kind| kind.near.to_string()),
    ("bound", &|kind| kind.bound.to_string()),
    ("none", &|kind| kind.none.to_string()),
    ("failed", &|kind| kind.failed.to_string()),
    ("error", &|kind| format_part(kind.mean_error_ratio, 1)),
    ("worst", &|kind| format_part(kind.worst_error_ratio, 1)),
    ("width", &|kind| format_part(kind.median_width_ratio, 1)),
];

const ROW_COLUMNS: [Column<'_, KernelPathRow>; 7] = [
    ("kind", &|row| row.kind.clone()),
    ("transport", &|row| row.transport.clone()),
    ("seed", &|row| row.seed.to_string()),
    ("verdict", &|row| row.verdict.word().to_owned()),
    ("load", &|row| row.load_average.map_or("–".into(), |load| format!("{load:.1}"))),
    ("true", &|row| row.truth_bits_per_second.to_string()),
    ("found", &|row| describe_found(row)),
];

fn describe_found(row: &KernelPathRow) -> String {
    let value = row.available_bits_per_second.map(|found| format!("{} ({} … {})", found.value, found.low, found.high));
    let bound = |sign: &str, bound: Option<Rate>| bound.map(|bound| format!("{sign} {bound}"));
    let bounds = bound("≥", row.at_least_bits_per_second).or_else(|| bound("≤", row.at_most_bits_per_second));
    let rates: Vec<_> = row.rates_bits_per_second.iter().map(ToString::to_string).collect();
    let found = row.fault.clone().or(value).or(bounds).or_else(|| row.reason.clone()).unwrap_or_default();
    format!("{found}, of {}", rates.join(", "))
}

impl ReportParts for KernelPathsReport {
    const RATE_DEFINITION: &'static str = "Rates count IP packets.";
    const COLUMNS: &'static str = "\
        kind transport seed verdict whole_verdict truth_bits_per_second whole_truth_bits_per_second truth_fair_share_bits_per_second \
        available_bits_per_second=available_bits_per_second.value \
        available_low_bits_per_second=available_bits_per_second.low \
        available_high_bits_per_second=available_bits_per_second.high \
        fair_share_bits_per_second=fair_share_bits_per_second.value \
        capacity_bits_per_second=capacity_bits_per_second.value \
        at_least_bits_per_second at_most_bits_per_second sustained_bytes bytes_sent duration_seconds load_average reason fault";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        let kinds = "By kind of path: verdicts, and what would be wrong of the whole measurement; mean and worst error of the values in percent of what the path sustains; median width of \
                     the intervals in percent of the truth";
        vec![
            Table::from_items(kinds, &self.summary, &KIND_COLUMNS),
            Table::from_items("By path", &self.rows, &ROW_COLUMNS),
        ]
    }

    fn conclusions(&self) -> Vec<String> {
        let rows: Vec<_> = self.rows.iter().filter(|row| is_counted(row)).collect();
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        let [wrong, failed] = [PathVerdict::Wrong, PathVerdict::Failed].map(count);
        vec![format!(
            "{wrong} of {} measurements were wrong with confidence, and {failed} ended in an error; kinds or paths left out: {}; not counted, of tbf-unsent: {}",
            rows.len(),
            self.left_out.len(),
            self.rows.len() - rows.len()
        )]
    }

    fn notes(&self) -> Vec<String> {
        self.left_out.iter().map(|Exclusion { kind, reason }| format!("{kind} was left out: {reason}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::judgement::KernelPathTruth;
    use super::super::row::KernelPathMeasurement;
    use super::*;
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, Study};

    #[test]
    fn the_document_has_the_published_schema_and_reads_back() {
        let given = Overrides { seed: Some(7), runs: Some(2), ..Overrides::default() };
        let experiment = load("kernel-paths", &given).unwrap().into_scenario::<KernelPaths>().unwrap();
        let narrow = Rate::from_mbit(9);
        let truth = KernelPathTruth { available: Rate::from_mbit(5), fair_share: None, capacity: None, narrow };
        let row = |point| {
            let (rates, cross) = (vec![narrow], vec![Rate::from_mbit(4)]);
            let report = Err("no answer".to_owned());
            KernelPathRow::new(
                &point,
                KernelPathMeasurement {
                    report,
                    truth,
                    whole_truth: truth.available,
                    rates,
                    cross,
                    seconds: 3.0,
                    load_average: Some(0.5),
                },
            )
        };
        let rows: Vec<_> = experiment.points().into_iter().map(row).collect();
        let outcome =
            Outcome { rows, excluded: vec![Exclusion { kind: "sfq".into(), reason: "it is unknown".into() }] };
        let report = KernelPathsReport::new(&experiment, "2026-11-29T12:00:00Z".into(), outcome);
        let validator = schema::published_schema::<KernelPathsReport>("kumade.lab.kernel-paths.1");
        let json = report.to_json().unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        assert_eq!(KernelPathsReport::from_json(&json).unwrap(), report);
        assert_eq!(report.to_csv().unwrap().lines().count(), 1 + report.rows.len());
        assert!(
            report.to_text().contains("seeds 7 to 8")
                && report.to_text().contains("0 of 60 measurements were wrong with confidence, and 60 ended")
                && report.to_html().unwrap().contains("kernel-paths")
        );
    }
}
