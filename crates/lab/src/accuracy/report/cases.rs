//! Tables and plots of experiments that vary more than the level of cross traffic: one line for each path and traffic.

use super::Report;
use super::plots::{Drawn, Plot, SERIES, chart_labelled, draw, legend, short};
use super::tables::{Table, Unit, size};
use crate::accuracy::row::Row;
use crate::accuracy::summary::PublishedFigure;
use crate::statistics::{mean, median};
use plotters::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use units::Rate;

/// What a row was measured on, in the order in which cases are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case<'a> {
    path: Path<'a>,
    direction: &'a str,
    kind: &'a str,
    cross: u64,
}

/// The links that a row was measured over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Path<'a> {
    /// Rate, others' rate and their kind of traffic.
    later: Option<(u64, u64, &'a str)>,
    /// Burst and peak rate.
    shaper: Option<(u64, u64)>,
    bottleneck: u64,
}

impl<'a> Path<'a> {
    fn of(row: &'a Row) -> Self {
        let traffic = row.later_cross_bits_per_second.zip(row.later_cross_kind.as_deref());
        Path {
            later: row.later_bits_per_second.zip(traffic).map(|(rate, (cross, kind))| (rate, cross, kind)),
            shaper: row.burst_bytes.zip(row.peak_bits_per_second),
            bottleneck: row.bottleneck_bits_per_second,
        }
    }

    /// What there is besides a plain bottleneck.
    fn besides(&self) -> Option<String> {
        match (self.later, self.shaper) {
            (Some((rate, cross, kind)), _) => Some(format!("then {} with {} {kind}", write(rate), write(cross))),
            (_, Some((burst, peak))) => Some(format!("after {} at {}", size(burst), write(peak))),
            _ => None,
        }
    }
}

impl<'a> Case<'a> {
    /// Headings of its cells.
    pub(super) const COLUMNS: [&'static str; 4] = ["bottleneck", "way", "traffic", "cross"];

    pub(super) fn of(row: &'a Row) -> Self {
        let (direction, kind, cross) = (&row.direction, &row.cross_kind, row.cross_bits_per_second);
        Case { path: Path::of(row), direction, kind, cross }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let kind = if self.cross == 0 { "none" } else { self.kind };
        let bottleneck = [Some(write(self.path.bottleneck)), self.path.besides()].into_iter().flatten();
        let bottleneck = bottleneck.collect::<Vec<_>>().join(" ");
        vec![bottleneck, self.direction.to_owned(), kind.to_owned(), write(self.cross)]
    }

    /// The unit that fits the bottleneck.
    pub(super) fn unit(&self) -> Unit {
        Unit::fitting(self.path.bottleneck)
    }
}

fn write(bits_per_second: u64) -> String {
    Rate::from_bits_per_second(bits_per_second).to_string()
}

/// Whether more than the level of cross traffic was varied.
pub(super) fn vary(report: &Report) -> bool {
    let different = |row| (Path::of(row), row.cross_kind.as_str());
    report.rows.iter().map(different).collect::<BTreeSet<_>>().len() > 1
}

/// What each estimator found in each case, and what that cost.
pub(super) fn tables(report: &Report) -> Vec<Table> {
    let found = |rows: &[&Row]| {
        let values: Vec<_> = rows.iter().filter_map(|r| Some(r.available_bits_per_second?.value as f64)).collect();
        let errors: Vec<_> = rows.iter().filter_map(|row| row.error_of_rate()).collect();
        let capacity = rows.first().map_or(0, |row| row.bottleneck_bits_per_second);
        let unit = Unit::fitting(capacity);
        match (median(&values), mean(&errors)) {
            (Some(value), Some(error)) => format!("{} ({:.1} %)", unit.of(value), error * 100.0),
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
        table(report, "Median estimate in the unit of the bottleneck, and mean of |error| / bottleneck's rate", found),
        table(report, "Mean time and IP bytes of one direction", cost),
    ]
}

fn table(report: &Report, caption: &str, cell: impl Fn(&[&Row]) -> String) -> Table {
    let combinations = report.combinations();
    let mut cases: BTreeMap<Case<'_>, Vec<&Row>> = BTreeMap::new();
    for row in &report.rows {
        cases.entry(Case::of(row)).or_default().push(row);
    }
    let mut columns: Vec<_> = Case::COLUMNS.iter().chain(&["truth"]).map(|&column| column.to_owned()).collect();
    columns.extend(combinations.iter().map(|(transport, method)| format!("{transport} {method}")));
    let line = |(case, rows): (Case<'_>, Vec<&Row>)| {
        let truth = mean(&rows.iter().map(|row| row.truth_bits_per_second as f64).collect::<Vec<_>>()).unwrap_or(0.0);
        let mut cells = case.cells();
        cells.push(case.unit().of(truth));
        cells.extend(combinations.iter().map(|(transport, method)| {
            let own = |row: &&&Row| row.transport == *transport && row.estimator() == *method;
            cell(&rows.iter().filter(own).copied().collect::<Vec<_>>())
        }));
        cells
    };
    Table { caption: caption.to_owned(), columns, rows: cases.into_iter().map(line).collect() }
}

/// The published figures, beside what the same estimator and the default one came to here; none where there are none.
pub(super) fn published(report: &Report) -> Option<Table> {
    let figures = report.summary.published.as_ref().map(|published| &published.figures).filter(|f| !f.is_empty())?;
    let unit = Unit::fitting(report.bottleneck.rate_bits_per_second);
    let write = |available: Option<f64>, truth: f64, seconds: Option<f64>| {
        let value = available.map(|bits| format!("{} ({})", unit.of(bits), unit.signed(bits - truth)));
        let parts = [value, seconds.map(|seconds| format!("{seconds:.1} s"))];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(" in ") }
    };
    let here = |figure: &PublishedFigure, is_by: &dyn Fn(&Row) -> bool| {
        let rows: Vec<_> = report.rows.iter().filter(|row| figure.is_about(row) && is_by(row)).collect();
        let all = |of: &dyn Fn(&Row) -> Option<f64>| rows.iter().filter_map(|row| of(row)).collect::<Vec<_>>();
        let value = median(&all(&|row| Some(row.available_bits_per_second?.value as f64)));
        let truth = mean(&all(&|row| Some(row.truth_bits_per_second as f64))).unwrap_or(0.0);
        let seconds = if figure.whole { all(&|row| row.whole_seconds) } else { all(&|row| Some(row.duration_seconds)) };
        write(value, truth, mean(&seconds))
    };
    let line = |figure: &PublishedFigure| {
        let truth = report.bottleneck.rate_bits_per_second - figure.cross_bits_per_second.unwrap_or(0);
        vec![
            figure.series.clone(),
            figure.cross_bits_per_second.map_or("–".to_owned(), |cross| unit.of(cross as f64)),
            write(figure.available_bits_per_second.map(|bits| bits as f64), truth as f64, figure.seconds),
            here(figure, &|row| figure.is_by(row)),
            here(figure, &|row| row.method == "primed"),
        ]
    };
    let columns = ["published", "cross", "there", "the same here", "primed here"].map(str::to_owned).to_vec();
    let caption = format!("Published estimates (error) in their time, and those made here, {}", unit.name);
    Some(Table { caption, columns, rows: figures.iter().map(line).collect() })
}

/// The error of each estimator over the bottleneck's rate, and over the load, and that of the capacity where it was
/// measured, for each transport.
pub(super) fn plots(report: &Report) -> Drawn<Vec<Plot>> {
    let transports: BTreeSet<_> = report.rows.iter().map(|row| row.transport.as_str()).collect();
    let of_rate = |exponent: &f64| Rate::from_f64(10f64.powf(*exponent)).to_string();
    let rate =
        Axis { name: "bottleneck's rate", of: &|row| (row.bottleneck_bits_per_second as f64).log10(), label: &of_rate };
    let load = Axis {
        name: "cross traffic, % of the bottleneck's rate",
        of: &|row| row.cross_bits_per_second as f64 / row.bottleneck_bits_per_second as f64 * 100.0,
        label: &short,
    };
    let mut plots = Vec::new();
    for transport in transports {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.transport == transport).collect();
        plots.push(errors(transport, "estimate", Row::error_of_rate, &rate, &rows)?);
        if rows.iter().any(|row| row.cross_bits_per_second > 0) {
            plots.push(errors(transport, "estimate", Row::error_of_rate, &load, &rows)?);
        }
        if rows.iter().any(|row| row.sought_capacity()) {
            plots.push(errors(transport, "capacity", Row::capacity_error, &rate, &rows)?);
        }
    }
    Ok(plots)
}

/// What errors are drawn over.
struct Axis<'a> {
    name: &'a str,
    of: &'a dyn Fn(&Row) -> f64,
    label: &'a dyn Fn(&f64) -> String,
}

/// The mean error of `what`, as a part of the bottleneck's rate.
fn errors(transport: &str, what: &str, error: fn(&Row) -> Option<f64>, axis: &Axis<'_>, rows: &[&Row]) -> Drawn<Plot> {
    let Axis { name: axis, of: x, label } = axis;
    let mut points: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut grouped: Vec<(String, f64, Vec<f64>)> = Vec::new();
    for row in rows {
        let Some(error) = error(row) else { continue };
        match grouped.iter_mut().find(|(method, at, _)| *method == row.estimator() && *at == x(row)) {
            Some((_, _, errors)) => errors.push(error),
            None => grouped.push((row.estimator(), x(row), vec![error])),
        }
    }
    for (method, at, errors) in grouped {
        points.entry(method).or_default().push((at, mean(&errors).unwrap_or(0.0) * 100.0));
    }
    points.values_mut().for_each(|line| line.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let all = || points.values().flatten();
    let (first, last) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let (first, last) = if first < last { (first, last) } else { (0.0, 1.0) };
    let top = all().map(|p| p.1).fold(1.0, f64::max) * 1.05;
    let axes = [(*axis).to_owned(), "mean |error|, % of the bottleneck's rate".to_owned()];
    let svg = draw(|area| {
        let margin = (last - first) * 0.04;
        let mut chart = chart_labelled(area, first - margin..last + margin, 0.0..top, &axes, 5, label)?;
        for ((method, line), colour) in points.iter().zip(SERIES.iter().cycle()) {
            chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
            chart
                .draw_series(line.iter().map(|&at| Circle::new(at, 4, colour.filled())))?
                .label(method)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    })?;
    let caption = format!("Mean of |{what} − truth| as a part of the bottleneck's rate, over the {axis}.");
    Ok(Plot { title: transport.to_owned(), caption, svg })
}
