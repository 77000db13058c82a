//! Tables of experiments that vary more than the level of cross traffic: one line for each path and traffic.

use super::case::ReportCase;
use super::document::Report;
use super::format::RateUnit;
use crate::accuracy::row::Row;
use crate::accuracy::summary::PublishedFigure;
use crate::report::Table;
use crate::statistics::{mean, median};
use kumade_estimate::MethodSettings;
use std::collections::BTreeMap;

/// The estimates of each method in each case, and their cost.
pub(super) fn case_tables(report: &Report) -> Vec<Table> {
    let found = |rows: &[&Row]| {
        let values: Vec<_> = rows.iter().filter_map(|r| Some(r.available_bits_per_second?.value as f64)).collect();
        let errors: Vec<_> = rows.iter().filter_map(|row| row.rate_error()).collect();
        let capacity = rows.first().map_or(0, |row| row.bottleneck_bits_per_second);
        let unit = RateUnit::for_rate(capacity);
        match (median(&values), mean(&errors)) {
            (Some(value), Some(error)) => format!("{} ({:.1} %)", unit.format_rate(value), error * 100.0),
            _ => "none".to_owned(),
        }
    };
    let cost = |rows: &[&Row]| {
        let seconds = mean(&rows.iter().map(|row| row.duration_seconds).collect::<Vec<_>>());
        let bytes = mean(&rows.iter().map(|row| row.bytes_sent as f64).collect::<Vec<_>>());
        match (seconds, bytes) {
            (Some(seconds), Some(bytes)) => format!("{seconds:.2} s, {:.0} kB", bytes / 1e3),
            _ => "none".to_owned(),
        }
    };
    vec![
        case_table(
            report,
            "Median estimate in the bottleneck's unit, and mean |error| relative to the bottleneck's rate",
            found,
        ),
        case_table(report, "Mean time and IP bytes of one direction", cost),
    ]
}

fn case_table(report: &Report, caption: &str, cell: impl Fn(&[&Row]) -> String) -> Table {
    let combinations = report.combinations();
    let mut cases: BTreeMap<ReportCase<'_>, Vec<&Row>> = BTreeMap::new();
    for row in &report.rows {
        cases.entry(ReportCase::from_row(row)).or_default().push(row);
    }
    let mut columns: Vec<_> = ReportCase::COLUMNS.iter().chain(&["truth"]).map(|&column| column.to_owned()).collect();
    columns.extend(combinations.iter().map(|(transport, method)| format!("{transport} {method}")));
    let line = |(case, rows): (ReportCase<'_>, Vec<&Row>)| {
        let truth = mean(&rows.iter().map(|row| row.truth_bits_per_second as f64).collect::<Vec<_>>()).unwrap_or(0.0);
        let mut cells = case.cells();
        cells.push(case.rate_unit().format_rate(truth));
        cells.extend(combinations.iter().map(|(transport, method)| {
            let own = |row: &&&Row| row.transport.word() == *transport && row.method == *method;
            cell(&rows.iter().filter(own).copied().collect::<Vec<_>>())
        }));
        cells
    };
    Table { caption: caption.to_owned(), columns, rows: cases.into_iter().map(line).collect() }
}

/// The published figures, beside those of the same method and of the default one here; none where there are none.
pub(super) fn published_table(report: &Report) -> Option<Table> {
    let figures = report.summary.published.as_ref().map(|published| &published.figures).filter(|f| !f.is_empty())?;
    let unit = RateUnit::for_rate(report.bottleneck.rate_bits_per_second);
    let default = MethodSettings::default().to_string();
    let write = |available: Option<f64>, truth: Option<f64>, seconds: Option<f64>| {
        let error = |bits: f64| truth.map(|truth| format!(" ({})", unit.format_signed(bits - truth)));
        let value = available.map(|bits| unit.format_rate(bits) + &error(bits).unwrap_or_default());
        let parts = [value, seconds.map(|seconds| format!("{seconds:.1} s"))];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(" in ") }
    };
    let here = |figure: &PublishedFigure, is_by: &dyn Fn(&Row) -> bool| {
        let rows: Vec<_> = report.rows.iter().filter(|row| figure.is_same_path(row) && is_by(row)).collect();
        let all = |of: &dyn Fn(&Row) -> Option<f64>| rows.iter().filter_map(|row| of(row)).collect::<Vec<_>>();
        let value = median(&all(&|row| Some(row.available_bits_per_second?.value as f64)));
        let truth = mean(&all(&|row| Some(row.truth_bits_per_second as f64)));
        let seconds = if figure.full { all(&|row| row.full_seconds) } else { all(&|row| Some(row.duration_seconds)) };
        write(value, truth, mean(&seconds))
    };
    let line = |figure: &PublishedFigure| {
        let truth = figure.truth_bits_per_second.map(|bits| bits as f64);
        vec![
            figure.series.clone(),
            figure.cross_bits_per_second.map_or("–".to_owned(), |cross| unit.format_rate(cross as f64)),
            write(figure.available_bits_per_second.map(|bits| bits as f64), truth, figure.seconds),
            here(figure, &|row| figure.is_same_method(row)),
            here(figure, &|row| row.method == default),
        ]
    };
    let columns = ["series", "cross traffic", "published", "same method here"].map(str::to_owned);
    let columns = columns.into_iter().chain([format!("{default} here")]).collect();
    let caption = format!(
        "Published estimates and durations beside medians and means measured here, {}; in parentheses the error against the truth of \
         each, where that is known",
        unit.name
    );
    Some(Table { caption, columns, rows: figures.iter().map(line).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports::load_accuracy_experiment;

    /// The error of an estimate on an ADSL line was that against this lab's link.
    #[test]
    fn a_published_estimate_has_an_error_where_the_paper_knows_the_truth() {
        let published = |name: &str| {
            let report = Report::new(&load_accuracy_experiment(name), String::new(), Vec::new());
            let table = published_table(&report).unwrap();
            table.rows.into_iter().map(|mut row| row.swap_remove(2)).collect::<Vec<_>>()
        };
        assert_eq!(published("tester-time")[2], "0.985 in 92.0 s");
        assert_eq!(published("tester-pathload")[1], "1.83 (-2.67) in 76.0 s");
        assert!(published("tester-range").contains(&"100.00 (+0.00) in 52.0 s".to_owned()));
    }
}
