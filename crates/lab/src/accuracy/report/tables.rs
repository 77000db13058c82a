//! The tables of a report, the same for terminal and HTML.

use super::document::Report;
use super::format::RateUnit;
use super::{case, case_tables, full_tables, summary_table};
use crate::accuracy::row::Row;
use crate::report::Table;
use crate::statistics::{mean, median};
use std::collections::{BTreeMap, BTreeSet};

/// All tables of a report: what was measured, then the summary.
pub(super) fn report_tables(report: &Report) -> Vec<Table> {
    let levels: BTreeSet<_> = report.rows.iter().map(|row| row.cross_bits_per_second).collect();
    let unit = RateUnit::for_rate(report.bottleneck.rate_bits_per_second);
    let mut tables = match () {
        () if case::cases_vary(report) => case_tables::case_tables(report),
        () if levels.len() > 1 => vec![level_table(report, unit)],
        () => vec![run_table(report, unit)],
    };
    tables.extend(case_tables::published_table(report));
    tables.extend(full_tables::full_tables(report));
    tables.push(summary_table::summary_table(report, unit));
    tables
}

/// One line for each level of cross traffic, a column for each transport and method.
fn level_table(report: &Report, unit: RateUnit) -> Table {
    let combinations = report.combinations();
    let mut columns = vec!["cross traffic".to_owned(), "truth".to_owned()];
    columns.extend(combinations.iter().map(|(transport, method)| format!("{transport} {method}")));
    let mut levels: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    for row in &report.rows {
        levels.entry(row.cross_bits_per_second).or_default().push(row);
    }
    let rows = levels.into_iter().map(|(cross, rows)| {
        let truths: Vec<_> = rows.iter().map(|row| row.truth_bits_per_second as f64).collect();
        let mut cells = vec![
            unit.format_rate(cross as f64),
            mean(&truths).map_or_else(String::new, |truth| unit.format_rate(truth)),
        ];
        cells.extend(combinations.iter().map(|(transport, method)| {
            let own = rows.iter().filter(|row| row.transport.word() == *transport && row.method == *method);
            median_and_error(own, unit)
        }));
        cells
    });
    let rows = rows.collect();
    let caption = format!(
        "Median estimate of the runs and, in parentheses, the median of their errors, {}; beside the mean of the truth, to which these need \
         not add up",
        unit.name
    );
    Table { caption, columns, rows }
}

fn median_and_error<'a>(rows: impl Iterator<Item = &'a &'a Row> + Clone, unit: RateUnit) -> String {
    let values: Vec<_> = rows.clone().filter_map(|r| r.available_bits_per_second.map(|i| i.value as f64)).collect();
    let errors: Vec<_> = rows.filter_map(|row| row.error_bits_per_second.map(|error| error as f64)).collect();
    match (median(&values), median(&errors)) {
        (Some(value), Some(error)) => format!("{} ({})", unit.format_rate(value), unit.format_signed(error)),
        _ => "none".to_owned(),
    }
}

/// One line for each run: for experiments with one level of cross traffic.
fn run_table(report: &Report, unit: RateUnit) -> Table {
    let columns =
        ["run", "transport", "method", "direction", "truth", "estimate", "interval", "error", "sent, kB", "time, s"];
    let rows = report.rows.iter().map(|row| {
        let none = || "none".to_owned();
        let estimate = row.available_bits_per_second;
        vec![
            row.run.to_string(),
            row.transport.to_string(),
            row.method.clone(),
            row.direction.to_string(),
            unit.format_rate(row.truth_bits_per_second as f64),
            estimate.map_or_else(none, |i| unit.format_rate(i.value as f64)),
            match estimate {
                Some(i) if i.confidence > 0.0 => {
                    format!("{} … {}", unit.format_rate(i.low as f64), unit.format_rate(i.high as f64))
                }
                _ => none(),
            },
            row.error_bits_per_second.map_or_else(none, |error| unit.format_signed(error as f64)),
            format!("{:.0}", row.bytes_sent as f64 / 1e3),
            format!("{:.2}", row.duration_seconds),
        ]
    });
    let rows = rows.collect();
    let columns = columns.map(str::to_owned).to_vec();
    Table {
        caption: format!("Every run: the estimate beside the truth at the bottleneck, {}", unit.name),
        columns,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports;

    #[test]
    fn the_papers_rule_has_a_column_of_its_own() {
        let table = &report_tables(&sample_reports::accuracy_report())[0];
        assert_eq!(
            table.columns,
            ["cross traffic", "truth", "rake primed", "rake linear-scan", "udp primed", "udp linear-scan"]
        );
        assert_eq!(table.rows[1][..4], ["60.00", "40.00", "40.10 (+0.100)", "50.10 (+10.10)"]);
    }

    #[test]
    fn the_papers_error_stands_beside_ours() {
        let table = &report_tables(&sample_reports::accuracy_report())[1];
        // Ours is not the rule of the paper.
        assert_eq!(table.rows[0][..4], ["rake", "primed", "0.200", "–"]);
        assert_eq!(table.rows[1][..4], ["rake", "linear-scan", "10.07", "15.60"]);
        assert_eq!(table.rows[3][..4], ["udp", "linear-scan", "10.07", "18.20"]);
    }

    #[test]
    fn every_row_has_as_many_cells_as_there_are_columns() {
        for report in [
            sample_reports::accuracy_report(),
            sample_reports::firewall_report(),
            sample_reports::cwnd_report(),
            sample_reports::full_report(),
        ] {
            for table in report_tables(&report) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.caption);
            }
        }
    }
}
