//! The plots of a report on fairness: as in the papers, shares and Jain's index against the added delay; then utilisation
//! and queueing delay. A case without a value leaves a gap.

use super::document::FairnessReport;
use crate::fairness::summary::PointSummary;
use crate::report::plot::{Drawn, GREY, Plot, SERIES, chart_labelled, draw, legend};
use plotters::prelude::*;
use train::Estimate;

/// One line or row of marks: a name, and a value for each case.
struct Series {
    name: String,
    values: Vec<Option<Estimate<f64>>>,
    colour: RGBColor,
}

/// What all series of a plot have in common.
struct Frame<'a> {
    title: &'a str,
    caption: &'a str,
    y_axis: &'a str,
    /// The smallest and largest value that must be in view.
    range: (f64, f64),
    legend: SeriesLabelPosition,
}

/// Index, shares for each discipline, then utilisation and delay of all disciplines.
pub(super) fn all(report: &FairnessReport) -> Drawn<Vec<Plot>> {
    let cases = cases(&report.summary.points);
    let mut plots = vec![index(report, &cases)?];
    plots.extend(goodputs(report, &cases)?);
    plots.push(utilisation(report, &cases)?);
    plots.push(queueing_delay(report, &cases)?);
    Ok(plots)
}

/// The goodputs of the groups, a plot for each discipline. Where groups differ between cases there is none: the table shows
/// more than lines could.
fn goodputs(report: &FairnessReport, cases: &[&str]) -> Drawn<Vec<Plot>> {
    let points = &report.summary.points;
    let names = |point: &PointSummary| point.groups.iter().map(|group| group.group.clone()).collect::<Vec<_>>();
    if points.windows(2).any(|pair| names(&pair[0]) != names(&pair[1])) {
        return Ok(Vec::new());
    }
    let goodputs = points.iter().flat_map(|point| &point.groups).filter_map(|group| group.goodput_bits_per_second);
    let max = goodputs.map(|mean| mean.high / 1e6).fold(0.0, f64::max);
    let of_discipline = |name: &str| {
        let frame = Frame {
            title: name,
            caption: "Mean goodput of the connections of each group, Mbit/s, with 95 % intervals over the runs.",
            y_axis: "goodput per connection, Mbit/s",
            range: (0.0, max * 1.04),
            legend: SeriesLabelPosition::LowerLeft,
        };
        plot(report, cases, &frame, shares(points, name, cases))
    };
    report.summary.discipline_names().into_iter().map(of_discipline).collect()
}

fn utilisation(report: &FairnessReport, cases: &[&str]) -> Drawn<Plot> {
    let frame = Frame {
        title: "utilisation",
        caption: "Utilisation of the bottleneck, %.",
        y_axis: "utilisation, %",
        range: (80.0, 100.5),
        legend: SeriesLabelPosition::LowerLeft,
    };
    let percent = |point: &PointSummary| point.utilisation_ratio.map(|mean| scaled(mean, 100.0));
    plot(report, cases, &frame, by_discipline(report, cases, &percent))
}

fn queueing_delay(report: &FairnessReport, cases: &[&str]) -> Drawn<Plot> {
    let frame = Frame {
        title: "queueing delay",
        caption: "Median queueing delay at the bottleneck, ms.",
        y_axis: "median queueing delay, ms",
        range: (0.0, 1.0),
        legend: SeriesLabelPosition::UpperLeft,
    };
    let millis = |point: &PointSummary| point.queueing_median_seconds.map(|seconds| alone(seconds * 1e3));
    plot(report, cases, &frame, by_discipline(report, cases, &millis))
}

/// Jain's index, with the published values in grey where there are some.
fn index(report: &FairnessReport, cases: &[&str]) -> Drawn<Plot> {
    let points = &report.summary.points;
    let mut series = by_discipline(report, cases, &|point| point.jain_index);
    let published = |case: &&str| points.iter().find(|point| point.case == **case)?.published;
    if cases.iter().any(|case| published(case).is_some()) {
        let value = |case: &&str| Some(alone(published(case)?.cebinae.jain_index));
        series.push(Series { name: "paper: Cebinae".into(), values: cases.iter().map(value).collect(), colour: GREY });
    }
    let frame = Frame {
        title: "Jain's index",
        caption: "Of all connections' goodputs: 1 where all are equal; with 95 % intervals over the runs.",
        y_axis: "Jain's index",
        range: (0.8, 1.01),
        legend: SeriesLabelPosition::LowerLeft,
    };
    plot(report, cases, &frame, series)
}

fn cases(points: &[PointSummary]) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for point in points {
        if !cases.contains(&&*point.case) {
            cases.push(&point.case);
        }
    }
    cases
}

fn shares(points: &[PointSummary], discipline: &str, cases: &[&str]) -> Vec<Series> {
    let own: Vec<_> = points.iter().filter(|point| point.discipline == discipline).collect();
    let groups = own.first().map_or(&[][..], |point| &point.groups);
    let series = groups.iter().enumerate().map(|(index, group)| {
        let value = |case: &&str| {
            let point = own.iter().find(|point| point.case == **case)?;
            point.groups.get(index)?.goodput_bits_per_second.map(|mean| scaled(mean, 1e-6))
        };
        let values = cases.iter().map(value).collect();
        Series { name: group.group.clone(), values, colour: SERIES[index % SERIES.len()] }
    });
    series.collect()
}

fn by_discipline(
    report: &FairnessReport,
    cases: &[&str],
    value: &dyn Fn(&PointSummary) -> Option<Estimate<f64>>,
) -> Vec<Series> {
    let points = &report.summary.points;
    let series = report.summary.discipline_names().into_iter().enumerate().map(|(index, name)| {
        let of_case = |case: &&str| points.iter().find(|p| p.discipline == name && p.case == **case).and_then(value);
        let values = cases.iter().map(of_case).collect();
        Series { name: name.to_owned(), values, colour: SERIES[index % SERIES.len()] }
    });
    series.collect()
}

/// A value without an interval.
fn alone(value: f64) -> Estimate<f64> {
    Estimate { value, low: value, high: value, confidence: 0.0 }
}

fn scaled(value: Estimate<f64>, factor: f64) -> Estimate<f64> {
    value.map(|value| value * factor)
}

/// Cases are side by side, joined by lines where they differ by an added delay.
fn plot(report: &FairnessReport, cases: &[&str], frame: &Frame<'_>, series: Vec<Series>) -> Drawn<Plot> {
    let swept = report.summary.points.iter().any(|point| point.added_delay_seconds > 0.0);
    let values = || series.iter().flat_map(|series| series.values.iter().flatten());
    let low = values().map(|value| value.low).fold(frame.range.0, f64::min);
    let high = values().map(|value| value.high).fold(frame.range.1, f64::max);
    let label = |x: &f64| {
        let whole = (x - x.round()).abs() < 0.01 && *x > -0.01;
        let case = cases.get(x.round() as usize).filter(|_| whole);
        case.map_or(String::new(), |case| case.trim_end_matches(" ms").trim_start_matches("row ").to_owned())
    };
    let x_axis = if swept { "added round-trip delay, ms" } else { "row of the table" };
    let svg = draw(|area| {
        let axes = [x_axis.to_owned(), frame.y_axis.to_owned()];
        let width = -0.4..cases.len() as f64 - 0.6;
        let mut chart = chart_labelled(area, width, low.max(0.0)..high, &axes, cases.len() + 1, &label)?;
        let count = series.len() as f64;
        for (index, Series { name, values, colour }) in series.iter().enumerate() {
            let colour = *colour;
            // Beside each other, so that none hides another.
            let aside = (index as f64 - (count - 1.0) / 2.0) * 0.06;
            let placed = || values.iter().enumerate().filter_map(move |(i, value)| Some((i as f64 + aside, (*value)?)));
            if swept {
                chart.draw_series(LineSeries::new(placed().map(|(x, v)| (x, v.value)), colour.stroke_width(2)))?;
            }
            let bars = placed().filter_map(|(x, v)| {
                v.margin()?;
                Some(PathElement::new([(x, v.low), (x, v.high)], colour.stroke_width(2)))
            });
            chart.draw_series(bars)?;
            chart
                .draw_series(placed().map(|(x, v)| Circle::new((x, v.value), 4, colour.filled())))?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        legend(&mut chart, frame.legend.clone())
    })?;
    Ok(Plot { title: frame.title.to_owned(), caption: frame.caption.to_owned(), svg })
}
