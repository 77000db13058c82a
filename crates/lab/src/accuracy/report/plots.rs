//! The plots of a report.

use super::case;
use super::case_plots::{self, own_method_first};
use super::document::Report;
use super::format::RateUnit;
use crate::accuracy::row::{Row, TimelinePacket};
use crate::accuracy::summary::PublishedFigure;
use crate::report::plot::{
    GREY, LegendEntry, LegendMark, Plot, PlotResult, SERIES_COLOURS, draw_chart, draw_plot, measured_mark,
    published_mark,
};
use crate::statistics::{median, min_and_max};
use plotters::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type PacketTime = fn(&TimelinePacket) -> Option<f64>;

/// For each transport: the times of packets where the experiment shows them, else estimate against truth, or each run's
/// interval where there is a single level of cross traffic.
pub(super) fn draw_plots(report: &Report) -> PlotResult<Vec<Plot>> {
    if case::cases_vary(report) {
        return case_plots::draw_plots(report);
    }
    let unit = RateUnit::for_rate(report.bottleneck.rate_bits_per_second);
    let top = report.bottleneck.rate_bits_per_second as f64 / unit.bits_per_unit;
    let levels: BTreeSet<_> = report.rows.iter().map(|row| row.cross_bits_per_second).collect();
    let mut plots = Vec::new();
    let mut transports: Vec<_> = report.combinations().into_iter().map(|(transport, _)| transport).collect();
    transports.dedup();
    for transport in transports {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.transport.word() == transport).collect();
        let traced = rows.iter().find(|row| !row.timeline.is_empty());
        plots.push(match traced {
            Some(row) => timeline_plot(transport, &row.timeline)?,
            None if levels.len() > 1 => {
                let published = published_points(report, &rows, unit);
                scatter_plot(transport, &points_by_method(&rows, unit), &published, unit, top)?
            }
            None => interval_plot(transport, &rows, unit, top)?,
        });
    }
    Ok(plots)
}

/// Like the paper's Fig. 7 and 8: the median of the runs of each level of cross traffic, against the truth.
fn scatter_plot(
    transport: &str,
    points: &BTreeMap<String, Vec<PlotPoint>>,
    published: &[PublishedPoint],
    unit: RateUnit,
    top: f64,
) -> PlotResult<Plot> {
    let rings = if published.is_empty() { "" } else { "; rings: published, at the same cross traffic" };
    let caption = format!(
        "Estimate against truth, {}. Points: median of the runs at one level of cross traffic; bars: minimum to maximum; \
         line: estimate equals truth{rings}.",
        unit.name
    );
    let highest = points.values().flatten().map(|p| p.high).chain(published.iter().map(|p| p.estimate));
    let top_estimate = highest.fold(top, f64::max);
    let methods: Vec<_> = own_method_first(points).into_iter().zip(SERIES_COLOURS.iter().cycle()).collect();
    let colour_of = |method: Option<&str>| {
        let own = methods.iter().find(|((name, _), _)| Some(name.as_str()) == method);
        own.map_or(GREY, |(_, colour)| **colour)
    };
    let measured = methods.iter().map(|((method, _), colour)| (method.to_string(), **colour, LegendMark::Point));
    let mut named: Vec<_> = measured.collect();
    for PublishedPoint { series, method, .. } in published {
        let name = format!("published: {series}");
        if named.iter().all(|(known, ..)| *known != name) {
            named.push((name, colour_of(method.as_deref()), LegendMark::Ring));
        }
    }
    let legend: Vec<_> = named.into_iter().map(|(name, colour, mark)| LegendEntry { name, colour, mark }).collect();
    let svg = draw_plot(&legend, |area| {
        let axes = [format!("truth, {}", unit.name), format!("estimate, {}", unit.name)];
        let mut chart = draw_chart(area, 0.0..top * 1.04, 0.0..top_estimate * 1.04, &axes)?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (top, top)], GREY.stroke_width(1)))?;
        // The first on top, where marks coincide.
        for ((_, points), colour) in methods.iter().rev() {
            let bar = |p: &PlotPoint| PathElement::new([(p.truth, p.low), (p.truth, p.high)], colour.stroke_width(2));
            let bars = points.iter().map(bar);
            chart.draw_series(bars)?;
            chart.draw_series(points.iter().map(|p| measured_mark((p.truth, p.estimate), **colour)))?;
        }
        let rings = published.iter().map(|p| published_mark((p.truth, p.estimate), colour_of(p.method.as_deref())));
        chart.draw_series(rings)?;
        Ok(())
    })?;
    Ok(Plot { title: transport.to_owned(), caption, svg })
}

/// Each run's estimate with its interval beside the truth.
fn interval_plot(transport: &str, rows: &[&Row], unit: RateUnit, top: f64) -> PlotResult<Plot> {
    let caption = format!(
        "Each run's estimate with its interval and the truth at the bottleneck, {}; a run without a point gave no \
         estimate.",
        unit.name
    );
    let last = rows.len() as f64;
    let highest =
        rows.iter().filter_map(|row| row.available_bits_per_second.map(|i| i.high as f64 / unit.bits_per_unit));
    let top = highest.fold(top, f64::max) * 1.04;
    let entry = |name: &str, colour, mark| LegendEntry { name: name.to_owned(), colour, mark };
    let legend =
        [entry("truth", SERIES_COLOURS[1], LegendMark::Line), entry("estimate", SERIES_COLOURS[0], LegendMark::Point)];
    let svg = draw_plot(&legend, |area| {
        let axes = ["measurement, in the order of running".to_owned(), format!("available, {}", unit.name)];
        let mut chart = draw_chart(area, 0.0..last + 1.0, 0.0..top, &axes)?;
        let numbered = || rows.iter().enumerate().map(|(i, row)| (i as f64 + 1.0, row));
        let truth = |(x, row): (f64, &&Row)| {
            let y = row.truth_bits_per_second as f64 / unit.bits_per_unit;
            PathElement::new([(x - 0.3, y), (x + 0.3, y)], SERIES_COLOURS[1].stroke_width(2))
        };
        chart.draw_series(numbered().map(truth))?;
        for (x, row) in numbered() {
            let Some(interval) = row.available_bits_per_second else { continue };
            let at = |bits: u64| (x, bits as f64 / unit.bits_per_unit);
            let bar = PathElement::new([at(interval.low), at(interval.high)], SERIES_COLOURS[0].stroke_width(2));
            chart.draw_series([bar])?;
            chart.draw_series([measured_mark(at(interval.value), SERIES_COLOURS[0])])?;
        }
        Ok(())
    })?;
    Ok(Plot { title: transport.to_owned(), caption, svg })
}

/// Like the paper's Fig. 5: when each packet of a train was to be sent, was sent, and was received.
fn timeline_plot(transport: &str, packets: &[TimelinePacket]) -> PlotResult<Plot> {
    let caption =
        "When each packet of the first train was to be sent, was sent and was received, in milliseconds after the \
                   first one was sent. A packet sent or received together with others has no time stamp of its own."
            .to_owned();
    let kinds: [(&str, PacketTime, RGBColor); 3] = [
        ("planned", |packet| Some(packet.planned_seconds), GREY),
        ("sent", |packet| packet.sent_seconds, SERIES_COLOURS[0]),
        ("received", |packet| packet.received_seconds, SERIES_COLOURS[1]),
    ];
    let times = packets.iter().flat_map(|p| [Some(p.planned_seconds), p.sent_seconds, p.received_seconds]);
    let (first, last) = min_and_max(&times.flatten().map(|s| s * 1e3).collect::<Vec<_>>()).unwrap_or((0.0, 1.0));
    let legend = kinds.map(|(name, _, colour)| LegendEntry { name: name.to_owned(), colour, mark: LegendMark::Point });
    let svg = draw_plot(&legend, |area| {
        let axes = ["time, ms".to_owned(), "packet of the train".to_owned()];
        let margin = (last - first).max(1.0) * 0.03;
        let mut chart = draw_chart(area, first - margin..last + margin, 0.0..packets.len() as f64 * 1.04, &axes)?;
        for (_, time, colour) in kinds {
            let points = packets.iter().enumerate().filter_map(|(i, p)| time(p).map(|s| (s * 1e3, i as f64 + 1.0)));
            chart.draw_series(points.map(|at| Circle::new(at, 2, colour.filled())))?;
        }
        Ok(())
    })?;
    Ok(Plot { title: transport.to_owned(), caption, svg })
}

/// The runs of one method at one level of cross traffic.
struct PlotPoint {
    truth: f64,
    estimate: f64,
    low: f64,
    high: f64,
}

/// A published estimate, where the truth here was that at the same cross traffic.
struct PublishedPoint {
    series: String,
    method: Option<String>,
    truth: f64,
    estimate: f64,
}

fn published_points(report: &Report, rows: &[&Row], unit: RateUnit) -> Vec<PublishedPoint> {
    let figures = report.summary.published.iter().flat_map(|published| &published.figures);
    let point = |figure: &PublishedFigure| {
        let truths = rows
            .iter()
            .filter(|row| figure.is_same_path(row))
            .map(|row| row.truth_bits_per_second as f64 / unit.bits_per_unit);
        Some(PublishedPoint {
            series: figure.series.clone(),
            method: figure.method.clone(),
            truth: median(&truths.collect::<Vec<_>>())?,
            estimate: figure.available_bits_per_second? as f64 / unit.bits_per_unit,
        })
    };
    figures.filter(|figure| figure.cross_bits_per_second.is_some()).filter_map(point).collect()
}

fn points_by_method(rows: &[&Row], unit: RateUnit) -> BTreeMap<String, Vec<PlotPoint>> {
    let mut runs: BTreeMap<_, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for row in rows {
        let Some(interval) = row.available_bits_per_second else { continue };
        let (truths, estimates) = runs.entry((row.method.clone(), row.cross_bits_per_second)).or_default();
        truths.push(row.truth_bits_per_second as f64 / unit.bits_per_unit);
        estimates.push(interval.value as f64 / unit.bits_per_unit);
    }
    let mut points: BTreeMap<String, Vec<PlotPoint>> = BTreeMap::new();
    for ((method, _), (truths, estimates)) in runs {
        if let (Some(truth), Some(estimate), Some((low, high))) =
            (median(&truths), median(&estimates), min_and_max(&estimates))
        {
            points.entry(method).or_default().push(PlotPoint { truth, estimate, low, high });
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports;

    #[test]
    fn the_accuracy_experiment_has_a_plot_for_each_transport() {
        let plots = draw_plots(&sample_reports::accuracy_report()).unwrap();
        assert_eq!(plots.len(), 2);
        for (plot, transport) in plots.iter().zip(["rake", "udp"]) {
            assert!(plot.title == transport && plot.caption.contains("Mbit/s"), "{}: {}", plot.title, plot.caption);
            // Two levels for each of two methods, and a mark for each method in the legend.
            assert_eq!(plot.svg.matches("<circle").count(), 6);
            assert!(plot.svg.contains("linear-scan"));
        }
    }

    #[test]
    fn an_experiment_that_measures_everything_has_a_plot_of_the_capacity() {
        let plots = draw_plots(&sample_reports::full_report()).unwrap();
        let captions: Vec<_> = plots.iter().map(|plot| plot.caption.split(' ').nth(2).unwrap()).collect();
        assert_eq!(captions, ["|estimate", "|estimate", "|capacity"]);
    }

    #[test]
    fn points_are_medians_and_bars_reach_over_all_runs() {
        let report = sample_reports::accuracy_report();
        let rows: Vec<_> = report.rows.iter().filter(|row| row.transport.word() == "rake").collect();
        let points = &points_by_method(&rows, RateUnit::for_rate(100_000_000))["primed"];
        let at_40 = points.iter().find(|p| p.truth == 40.0).unwrap();
        let about = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        assert!(about(at_40.estimate, 40.1) && about(at_40.low, 39.8) && about(at_40.high, 40.3));
    }

    #[test]
    fn a_run_without_an_estimate_leaves_a_gap() {
        let plots = draw_plots(&sample_reports::firewall_report()).unwrap();
        let circles: Vec<_> = plots.iter().map(|plot| plot.svg.matches("<circle").count()).collect();
        assert_eq!(circles, [1, 2], "udp, then rake, each with a legend");
    }

    #[test]
    fn a_timeline_shows_planned_sent_and_received() {
        let plots = draw_plots(&sample_reports::cwnd_report()).unwrap();
        let circles: Vec<_> = plots.iter().map(|plot| plot.svg.matches("<circle").count()).collect();
        assert_eq!(circles, [2 * 120 + 10 + 3, 3 * 120 + 3], "single, then rake, each with a legend of three");
    }

    /// It was second wherever a method stood beside it whose name comes later, such as `ptr`.
    #[test]
    fn the_projects_own_method_has_the_first_colour() {
        let points = BTreeMap::from(["igi", "primed", "ptr"].map(|method| (method.to_owned(), ())));
        let order: Vec<_> = own_method_first(&points).into_iter().map(|(method, ())| method.as_str()).collect();
        assert_eq!(order, ["primed", "igi", "ptr"]);
    }
}
