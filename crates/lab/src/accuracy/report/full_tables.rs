//! Tables of experiments with full measurements: capacity, token buckets, delay.

use super::case::Case;
use super::document::Report;
use super::format::{Unit, hundredths, percent, written};
use crate::accuracy::full::{CapacitySummary, DelaySummary, ShaperSummary};
use crate::accuracy::row::{DelayRow, Row};
use crate::report::Table;
use crate::statistics::median;
use std::collections::BTreeMap;

/// Those that have lines.
pub(super) fn all(report: &Report) -> Vec<Table> {
    if report.summary.full.is_empty() {
        return Vec::new();
    }
    let capacity = table(
        report,
        "Capacity beside the truth, in the bottleneck's unit",
        &["truth", "capacity", "median error", "worst error", "no result", "coverage"],
        Row::measured_capacity,
        capacity,
    );
    let shaper = table(
        report,
        "Token bucket: median values and worst errors, rates in the bottleneck's unit",
        &["sustained rate", "worst error", "burst, bytes", "worst error", "peak rate", "undetected"],
        |row| row.measured_capacity() && row.burst_bytes.is_some(),
        shaper,
    );
    [capacity, shaper, delays(report)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// One line for each path, traffic and transport; `cells` fills in the figures.
fn table(
    report: &Report,
    caption: &str,
    figures: &[&str],
    wanted: impl Fn(&Row) -> bool,
    cells: impl Fn(&[&Row], Unit) -> Vec<String>,
) -> Table {
    let mut cases: BTreeMap<(Case<'_>, &str), Vec<&Row>> = BTreeMap::new();
    for row in report.rows.iter().filter(|row| wanted(row)) {
        cases.entry((Case::of(row), row.transport.word())).or_default().push(row);
    }
    let columns = Case::COLUMNS.iter().chain(&["transport"]).chain(figures).map(|&column| column.to_owned());
    let line = |((case, transport), rows): ((Case<'_>, &str), Vec<&Row>)| {
        let mut line = case.cells();
        line.push(transport.to_owned());
        line.extend(cells(&rows, case.unit()));
        line
    };
    Table { caption: caption.to_owned(), columns: columns.collect(), rows: cases.into_iter().map(line).collect() }
}

fn capacity(rows: &[&Row], unit: Unit) -> Vec<String> {
    let found = CapacitySummary::of(rows);
    let values = rows.iter().filter_map(|row| row.capacity_bits_per_second).map(|capacity| capacity.value as f64);
    vec![
        rows.first().map_or_else(String::new, |row| unit.of(row.bottleneck_bits_per_second as f64)),
        written(median(&values.collect::<Vec<_>>()), |bits| unit.of(bits)),
        written(found.median_error_ratio, hundredths),
        written(found.worst_error_ratio, hundredths),
        format!("{} of {}", found.refusals, found.runs),
        written(found.interval_coverage_ratio, percent),
    ]
}

fn shaper(rows: &[&Row], unit: Unit) -> Vec<String> {
    let found = ShaperSummary::of(rows);
    let medians = |of: &dyn Fn(&Row) -> Option<u64>| {
        median(&rows.iter().filter_map(|row| of(row)).map(|value| value as f64).collect::<Vec<_>>())
    };
    let rate = medians(&|row| Some(row.shaper?.committed_rate.value.bits_per_second()));
    let burst = medians(&|row| Some(row.shaper?.burst_bytes.value));
    let line = medians(&|row| Some(row.shaper?.peak_rate?.value.bits_per_second()));
    vec![
        written(rate, |bits| unit.of(bits)),
        written(found.worst_rate_error_ratio, hundredths),
        written(burst, |bytes| format!("{bytes:.0}")),
        written(found.worst_burst_error_ratio, hundredths),
        written(line, |bits| unit.of(bits)),
        format!("{} of {}", found.undetected, found.runs),
    ]
}

/// One line for each true delay, to the microsecond.
fn delays(report: &Report) -> Table {
    let mut groups: BTreeMap<(&str, u64), Vec<DelayRow>> = BTreeMap::new();
    for row in &report.rows {
        for (direction, delay) in [("up", row.up_delay_seconds), ("down", row.down_delay_seconds)] {
            let Some(delay) = delay else { continue };
            groups.entry((direction, (delay.truth * 1e6).round() as u64)).or_default().push(delay);
        }
    }
    let milliseconds = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let line = |((direction, truth), delays): ((&str, u64), Vec<DelayRow>)| {
        let found = DelaySummary::of(&delays);
        vec![
            direction.to_owned(),
            milliseconds(truth as f64 / 1e6),
            written(median(&delays.iter().map(|delay| delay.value).collect::<Vec<_>>()), milliseconds),
            written(found.median_error_ratio, hundredths),
            written(found.worst_error_ratio, hundredths),
            written(found.median_bound_width_seconds, milliseconds),
            written(found.bound_coverage_ratio, percent),
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
    use crate::accuracy::report::verdicts;
    use crate::accuracy::{BottleneckKind, VirtualTime, run};
    use crate::report::aligned;
    use crate::scenario::{Overrides, load};

    /// How right capacity and delay are: a change of an estimator or of a link shows here.
    #[test]
    fn the_experiment_on_capacity_comes_to_this() {
        let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        let experiment = load("tester-capacity", &overrides).unwrap().accuracy().unwrap();
        let rows = run(&experiment, &mut VirtualTime, &mut |_| (), &|| false).unwrap();
        let report = Report::new(&experiment, "2026-11-20T12:00:00Z".into(), rows);
        let tables = all(&report).iter().map(aligned).collect::<Vec<_>>().join("\n");
        let verdicts = verdicts::full_measurements(&report).join("\n");
        assert!(!verdicts.contains("exceeds the limit"), "{verdicts}");
        insta::assert_snapshot!(format!("{tables}\n{verdicts}"));
    }
}
