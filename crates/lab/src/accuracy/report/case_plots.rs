//! Plots of experiments that vary more than the level of cross traffic.

use super::document::Report;
use crate::accuracy::row::Row;
use crate::report::plot::{
    Axis, LegendEntry, LegendMark, Plot, PlotResult, SERIES_COLOURS, Y_LABEL_COUNT, draw_labelled_chart, draw_plot,
    format_short, measured_mark,
};
use crate::statistics::mean;
use kumade_units::Rate;
use plotters::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// For each transport: the error of each method over the bottleneck's rate and over the load, and the error of the capacity
/// where it was measured.
pub(super) fn draw_plots(report: &Report) -> PlotResult<Vec<Plot>> {
    let transports: BTreeSet<_> = report.rows.iter().map(|row| row.transport.word()).collect();
    let of_rate = |exponent: &f64| Rate::from_f64(10f64.powf(*exponent)).to_string();
    let rate = ErrorAxis {
        name: "bottleneck's rate",
        value_of: &|row| (row.bottleneck_bits_per_second as f64).log10(),
        format_label: &of_rate,
    };
    let load = ErrorAxis {
        name: "cross traffic, % of the bottleneck's rate",
        value_of: &|row| row.cross_bits_per_second as f64 / row.bottleneck_bits_per_second as f64 * 100.0,
        format_label: &format_short,
    };
    let mut plots = Vec::new();
    for transport in transports {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.transport.word() == transport).collect();
        plots.push(error_plot(transport, "estimate", Row::rate_error, &rate, &rows)?);
        if rows.iter().any(|row| row.cross_bits_per_second > 0) {
            plots.push(error_plot(transport, "estimate", Row::rate_error, &load, &rows)?);
        }
        if rows.iter().any(|row| row.has_capacity_measurement()) {
            plots.push(error_plot(transport, "capacity", Row::capacity_error, &rate, &rows)?);
        }
    }
    Ok(plots)
}

/// With kumade's own method first, so that it has the same colour in every report.
pub(super) fn own_method_first<P>(points: &BTreeMap<String, P>) -> Vec<(&String, &P)> {
    let mut methods: Vec<_> = points.iter().collect();
    methods.sort_by_key(|(method, _)| !method.starts_with("primed"));
    methods
}

/// What errors are drawn over.
struct ErrorAxis<'a> {
    name: &'a str,
    value_of: &'a dyn Fn(&Row) -> f64,
    format_label: &'a dyn Fn(&f64) -> String,
}

/// The mean error of `what`, relative to the bottleneck's rate.
fn error_plot(
    transport: &str,
    what: &str,
    error: fn(&Row) -> Option<f64>,
    axis: &ErrorAxis<'_>,
    rows: &[&Row],
) -> PlotResult<Plot> {
    let ErrorAxis { name: axis, value_of: x, format_label: label } = *axis;
    let mut points: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut grouped: Vec<(String, f64, Vec<f64>)> = Vec::new();
    for row in rows {
        let Some(error) = error(row) else { continue };
        match grouped.iter_mut().find(|(method, at, _)| *method == row.method && *at == x(row)) {
            Some((_, _, errors)) => errors.push(error),
            None => grouped.push((row.method.clone(), x(row), vec![error])),
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
    let coloured = || own_method_first(&points).into_iter().zip(SERIES_COLOURS.iter().cycle());
    let entry = |((method, _), colour): ((&String, _), &RGBColor)| LegendEntry {
        name: method.clone(),
        colour: *colour,
        mark: LegendMark::Point,
    };
    let legend: Vec<_> = coloured().map(entry).collect();
    let svg = draw_plot(&legend, |area| {
        let margin = (last - first) * 0.04;
        let axes = [
            Axis { name: axis, label_count: 5, format_label: label },
            Axis {
                name: "mean |error|, % of the bottleneck's rate",
                label_count: Y_LABEL_COUNT,
                format_label: &format_short,
            },
        ];
        let mut chart = draw_labelled_chart(area, first - margin..last + margin, -0.02 * top..top, axes)?;
        // The first on top, where lines coincide.
        for ((_, line), colour) in coloured().collect::<Vec<_>>().into_iter().rev() {
            chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
            chart.draw_series(line.iter().map(|&at| measured_mark(at, *colour)))?;
        }
        Ok(())
    })?;
    let caption = format!("Mean of |{what} − truth| relative to the bottleneck's rate, over the {axis}.");
    Ok(Plot { title: transport.to_owned(), caption, svg })
}
