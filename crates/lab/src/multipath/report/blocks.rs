//! What is said of goodput by the length of writes.

use super::document::MultipathReport;
use crate::multipath::block_spectrum::{PeriodPower, block_spectra, significant_power};
use crate::multipath::block_sweep::{BlockRate, period_ratio};
use crate::multipath::row::MultipathRow;
use crate::report::Table;
use crate::report::plot::{
    Axis, LegendEntry, LegendMark, Plot, PlotResult, Y_LABEL_COUNT, draw_labelled_chart, draw_plot, format_short,
    series_colour,
};
use crate::statistics::mean;
use plotters::prelude::*;
use serde::Serialize;

/// With what the others are compared.
const DIRECT_CONTENDER: &str = "single";
/// Lengths of which the share of the direct connection's goodput is stated, …
const STATED_BLOCK_BYTES: [u32; 2] = [16, 128];
/// … and what it is to be at least through this program's tunnels.
const REQUIRED_SHARE: f64 = 0.95;
const OWN_PREFIX: &str = "tunnel-";

/// For each case a table by length: a column for each contender, without and with TCP_NODELAY.
pub(super) fn block_tables(report: &MultipathReport) -> Vec<Table> {
    report.summary.cases().into_iter().map(|case| block_table(report, case)).collect()
}

fn block_table(report: &MultipathReport, case: &str) -> Table {
    let contenders = report.summary.contenders();
    let mut columns = vec!["bytes".to_owned()];
    for contender in &contenders {
        columns.extend([(*contender).to_owned(), format!("{contender}, no delay")]);
    }
    let mut lengths: Vec<u32> =
        case_rows(report, case).flat_map(|row| row.blocks.iter().map(|b| b.block_bytes)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let cell = |contender: &str, bytes: u32, no_delay: bool| {
        block_goodput(report, case, contender, bytes, no_delay)
            .map_or("–".into(), |rate| format!("{:.2}", rate / 1e6))
    };
    let line = |bytes: u32| {
        let cells = contenders.iter().flat_map(|name| [cell(name, bytes, false), cell(name, bytes, true)]);
        std::iter::once(bytes.to_string()).chain(cells).collect()
    };
    Table {
        caption: format!("{case}: goodput in Mbit/s by the length of each write, without and with TCP_NODELAY"),
        columns,
        rows: lengths.into_iter().map(line).collect(),
    }
}

fn case_rows<'a>(report: &'a MultipathReport, case: &str) -> impl Iterator<Item = &'a MultipathRow> {
    report.rows.iter().filter(move |row| row.case == case)
}

/// The mean over the runs.
fn block_goodput(report: &MultipathReport, case: &str, contender: &str, bytes: u32, no_delay: bool) -> Option<f64> {
    let is_it = |rate: &&BlockRate| rate.block_bytes == bytes && rate.no_delay == no_delay;
    let own = case_rows(report, case).filter(|row| row.contender == contender);
    let rates: Vec<_> =
        own.filter_map(|row| row.blocks.iter().find(is_it)).map(|rate| rate.goodput_bits_per_second).collect();
    mean(&rates)
}

/// Shares of the direct connection's goodput, and the period that the paper saw.
pub(super) fn conclusions(report: &MultipathReport) -> Vec<String> {
    let mut lines = Vec::new();
    for case in report.summary.cases() {
        for contender in report.summary.contenders() {
            if contender != DIRECT_CONTENDER {
                lines.extend(
                    STATED_BLOCK_BYTES.iter().filter_map(|bytes| goodput_share(report, case, contender, *bytes)),
                );
            }
            lines.extend(measured_period(report, case, contender));
            lines.extend(strongest_periods(report, case, contender));
        }
    }
    lines
}

fn goodput_share(report: &MultipathReport, case: &str, contender: &str, bytes: u32) -> Option<String> {
    let own = block_goodput(report, case, contender, bytes, false)?;
    let share = own / block_goodput(report, case, DIRECT_CONTENDER, bytes, false).filter(|direct| *direct > 0.0)?;
    let verdict = if share >= REQUIRED_SHARE { "met" } else { "not met" };
    let required = if contender.starts_with(OWN_PREFIX) {
        format!("; required {REQUIRED_SHARE}: {verdict}")
    } else {
        String::new()
    };
    Some(format!(
        "{case}: writes of {bytes} bytes: {contender} carries {share:.2} of what is carried directly{required}"
    ))
}

fn measured_period(report: &MultipathReport, case: &str, contender: &str) -> Option<String> {
    let own = case_rows(report, case).filter(|row| row.contender == contender);
    let gains: Vec<_> = own.filter_map(|row| period_ratio(&row.blocks)).collect();
    let gain = mean(&gains)? * 100.0;
    let seen = if contender == DIRECT_CONTENDER { "a clear period of 4 bytes" } else { "none in a tunnel" };
    Some(format!(
        "{case}: {contender}: writes of a multiple of 4 bytes carry {gain:+.1} % against their neighbours; the paper saw {seen}"
    ))
}

/// A period of a run.
#[derive(Debug, Serialize)]
pub(super) struct RunPeriod<'r> {
    case: &'r str,
    contender: &'r str,
    run: u32,
    #[serde(flatten)]
    period: PeriodPower,
}

/// The periods in all runs.
pub(super) fn spectra(report: &MultipathReport) -> Vec<RunPeriod<'_>> {
    let of_row = |row: &'_ MultipathRow| block_spectra(&row.blocks);
    report.rows.iter().flat_map(|row| of_row(row).into_iter().map(|period| RunPeriod::new(row, period))).collect()
}

impl<'r> RunPeriod<'r> {
    fn new(row: &'r MultipathRow, period: PeriodPower) -> Self {
        RunPeriod { case: &row.case, contender: &row.contender, run: row.run, period }
    }
}

/// For each run of consecutive lengths: the first run's.
fn strongest_periods(report: &MultipathReport, case: &str, contender: &str) -> Vec<String> {
    let own = case_rows(report, case).find(|row| row.contender == contender);
    let spectra = own.map(|row| block_spectra(&row.blocks)).unwrap_or_default();
    let strongest = |spectrum: &[PeriodPower]| {
        let PeriodPower { first_bytes, last_bytes, period_bytes, power } =
            spectrum.iter().copied().max_by(|one, other| one.power.total_cmp(&other.power))?;
        let verdict = if power > significant_power() { "told from noise" } else { "as noise has it" };
        Some(format!(
            "{case}: {contender}: of lengths of {first_bytes} to {last_bytes} bytes, the strongest period is of {period_bytes} bytes, \
             {power:.1} × what noise has on average: {verdict}"
        ))
    };
    spectra.chunk_by(|one, next| one.first_bytes == next.first_bytes).filter_map(strongest).collect()
}

/// Of the axis of lengths: a label for each power of two.
const X_LABEL_COUNT: usize = 12;

/// For each case a line for each contender, without TCP_NODELAY, over the logarithm of the length.
pub(super) fn block_plots(report: &MultipathReport) -> PlotResult<Vec<Plot>> {
    report.summary.cases().into_iter().map(|case| block_plot(report, case)).collect()
}

fn block_plot(report: &MultipathReport, case: &str) -> PlotResult<Plot> {
    let points = |contender: &str| -> Vec<(f64, f64)> {
        let own = case_rows(report, case).find(|row| row.contender == contender && row.run == 1);
        let rates = own.into_iter().flat_map(|row| &row.blocks).filter(|rate| !rate.no_delay);
        let point = |rate: &BlockRate| (f64::from(rate.block_bytes).log2(), rate.goodput_bits_per_second / 1e6);
        let mut points: Vec<_> = rates.map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let all: Vec<_> = report.summary.contenders().into_iter().map(|name| (name, points(name))).collect();
    let limit =
        |value: fn(&(f64, f64)) -> f64| all.iter().flat_map(|(_, points)| points).map(value).fold(1.0, f64::max);
    let legend = all.iter().enumerate().map(|(index, (name, _))| LegendEntry {
        name: (*name).to_owned(),
        colour: series_colour(index),
        mark: LegendMark::Line,
    });
    let svg = draw_plot(&legend.collect::<Vec<_>>(), |area| {
        let bytes = |exponent: &f64| format_short(&exponent.exp2());
        let axes = [
            Axis { name: "length of each write, bytes", label_count: X_LABEL_COUNT, format_label: &bytes },
            Axis { name: "goodput, Mbit/s", label_count: Y_LABEL_COUNT, format_label: &format_short },
        ];
        let limits = (limit(|point| point.0), limit(|point| point.1) * 1.05);
        let mut chart = draw_labelled_chart(area, 0.0..limits.0, 0.0..limits.1, axes)?;
        for (index, (_, points)) in all.iter().enumerate() {
            chart.draw_series(LineSeries::new(points.iter().copied(), series_colour(index).stroke_width(2)))?;
        }
        Ok(())
    })?;
    let caption = "Goodput of the first run by the length of each write, without TCP_NODELAY (the paper's Fig. 4 to 6 have the time \
                   for a given amount).";
    Ok(Plot { title: case.to_owned(), caption: caption.to_owned(), svg })
}
