//! Tables of experiments with full measurements: capacity, token buckets, delay.

use super::case::ReportCase;
use super::document::Report;
use super::format::{RateUnit, format_or_dash, format_percent, format_small_percent};
use crate::accuracy::full_measurement::{CapacitySummary, DelaySummary, ShaperSummary};
use crate::accuracy::row::{DelayRow, Row};
use crate::report::Table;
use crate::statistics::median;
use std::collections::BTreeMap;

/// Those that have lines.
pub(super) fn full_tables(report: &Report) -> Vec<Table> {
    if report.summary.full.is_empty() {
        return Vec::new();
    }
    let capacity = case_table(
        report,
        "Capacity beside the truth, in the bottleneck's unit",
        &["truth", "capacity", "median error", "worst error", "no result", "coverage"],
        Row::has_capacity_measurement,
        capacity_cells,
    );
    let shaper = case_table(
        report,
        "Token bucket: median values and worst errors, rates in the bottleneck's unit",
        &["sustained rate", "worst error", "burst, bytes", "worst error", "peak rate", "undetected"],
        |row| row.has_capacity_measurement() && row.burst_bytes.is_some(),
        shaper_cells,
    );
    vec![capacity, shaper, delay_table(report)]
}

/// One line for each path, traffic and transport; `cells` fills in the figures.
fn case_table(
    report: &Report,
    caption: &str,
    figures: &[&str],
    wanted: impl Fn(&Row) -> bool,
    cells: impl Fn(&[&Row], RateUnit) -> Vec<String>,
) -> Table {
    let mut cases: BTreeMap<(ReportCase<'_>, &str), Vec<&Row>> = BTreeMap::new();
    for row in report.rows.iter().filter(|row| wanted(row)) {
        cases.entry((ReportCase::from_row(row), row.transport.word())).or_default().push(row);
    }
    let columns = ReportCase::COLUMNS.iter().chain(&["transport"]).chain(figures).map(|&column| column.to_owned());
    let line = |((case, transport), rows): ((ReportCase<'_>, &str), Vec<&Row>)| {
        let mut line = case.cells();
        line.push(transport.to_owned());
        line.extend(cells(&rows, case.rate_unit()));
        line
    };
    Table { caption: caption.to_owned(), columns: columns.collect(), rows: cases.into_iter().map(line).collect() }
}

fn capacity_cells(rows: &[&Row], unit: RateUnit) -> Vec<String> {
    let found = CapacitySummary::from_rows(rows);
    let values = rows.iter().filter_map(|row| row.capacity_bits_per_second).map(|capacity| capacity.value as f64);
    vec![
        rows.first().map_or_else(String::new, |row| unit.format_rate(row.bottleneck_bits_per_second as f64)),
        format_or_dash(median(&values.collect::<Vec<_>>()), |bits| unit.format_rate(bits)),
        format_or_dash(found.median_error_ratio, format_small_percent),
        format_or_dash(found.worst_error_ratio, format_small_percent),
        format!("{} of {}", found.refusals, found.runs),
        format_or_dash(found.interval_coverage_ratio, format_percent),
    ]
}

fn shaper_cells(rows: &[&Row], unit: RateUnit) -> Vec<String> {
    let found = ShaperSummary::from_rows(rows);
    let medians = |of: &dyn Fn(&Row) -> Option<u64>| {
        median(&rows.iter().filter_map(|row| of(row)).map(|value| value as f64).collect::<Vec<_>>())
    };
    let rate = medians(&|row| Some(row.shaper?.committed_rate.value.bits_per_second()));
    let burst = medians(&|row| Some(row.shaper?.burst_bytes.value));
    let line = medians(&|row| Some(row.shaper?.peak_rate?.value.bits_per_second()));
    vec![
        format_or_dash(rate, |bits| unit.format_rate(bits)),
        format_or_dash(found.worst_rate_error_ratio, format_small_percent),
        format_or_dash(burst, |bytes| format!("{bytes:.0}")),
        format_or_dash(found.worst_burst_error_ratio, format_small_percent),
        format_or_dash(line, |bits| unit.format_rate(bits)),
        format!("{} of {}", found.undetected, found.runs),
    ]
}

/// One line for each true delay, to the microsecond.
fn delay_table(report: &Report) -> Table {
    let mut groups: BTreeMap<(&str, u64), Vec<DelayRow>> = BTreeMap::new();
    for row in &report.rows {
        for (direction, delay) in [("up", row.up_delay_seconds), ("down", row.down_delay_seconds)] {
            let Some(delay) = delay else { continue };
            groups.entry((direction, (delay.truth * 1e6).round() as u64)).or_default().push(delay);
        }
    }
    let milliseconds = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let line = |((direction, truth), delays): ((&str, u64), Vec<DelayRow>)| {
        let found = DelaySummary::from_delays(&delays);
        vec![
            direction.to_owned(),
            milliseconds(truth as f64 / 1e6),
            format_or_dash(median(&delays.iter().map(|delay| delay.value).collect::<Vec<_>>()), milliseconds),
            format_or_dash(found.median_error_ratio, format_small_percent),
            format_or_dash(found.worst_error_ratio, format_small_percent),
            format_or_dash(found.median_bound_width_seconds, milliseconds),
            format_or_dash(found.bound_coverage_ratio, format_percent),
            found.values.to_string(),
        ]
    };
    let columns = ["direction", "truth", "estimate", "median error", "worst error", "bound width", "coverage", "runs"];
    let caption = "One-way delay of the idle path, ms; truth: propagation and transmission of a small packet; the bounds \
                   hold for any offset of the clocks";
    let rows = groups.into_iter().map(line).collect();
    Table { caption: caption.to_owned(), columns: columns.map(str::to_owned).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::report::conclusions;
    use crate::accuracy::{AccuracyExperiment, BottleneckKind};
    use crate::report::align_columns;
    use crate::scenario::load;
    use crate::study::{Overrides, run};

    /// How right capacity and delay are: a change of an estimator or of a link shows here.
    #[test]
    fn the_experiment_on_capacity_comes_to_this() {
        let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        let experiment = load("tester-capacity", &overrides).unwrap().into_scenario::<AccuracyExperiment>().unwrap();
        let rows = run(&experiment, &mut |_| (), &|| false).unwrap().rows;
        let report = Report::new(&experiment, "2026-11-20T12:00:00Z".into(), rows);
        let tables = full_tables(&report).iter().map(align_columns).collect::<Vec<_>>().join("\n");
        let verdicts = conclusions::full_measurement_conclusions(&report).join("\n");
        assert!(!verdicts.contains("exceeds the limit"), "{verdicts}");
        insta::assert_snapshot!(format!("{tables}\n{verdicts}"));
    }
}
