//! The plots of a report on several paths: goodput by case, or, as in the paper, the order of packets.

use super::document::{MultipathReport, WorkloadName};
use super::fixed_ratios::is_fixed_ratio;
use super::{blocks, trace};
use crate::multipath::row::MultipathRow;
use crate::multipath::summary::PointSummary;
use crate::report::cases::{CaseAxis, CaseSeries, PlotFrame, case_plot, without_interval};
use crate::report::heat_map::{HeatAxis, heat_map};
use crate::report::plot::{Plot, PlotResult, SERIES_COLOURS, draw_chart, draw_plot, series_colour};
use kumade_probe_train::Estimate;
use plotters::prelude::*;
use std::collections::BTreeSet;

/// All plots of a report.
pub(super) fn draw_plots(report: &MultipathReport) -> PlotResult<Vec<Plot>> {
    match report.workload {
        WorkloadName::Transfer => {
            let by_case = [
                figure_plot(report, &SHARE_FRAME, &|point| scale_estimate(point.share_of_framing_ratio, 100.0))?,
                goodput_plot(report)?,
            ];
            Ok(by_case.into_iter().chain(setting_plots(report)?).chain(trace::trace_plots(&report.rows)?).collect())
        }
        WorkloadName::Blocks => blocks::block_plots(report),
        WorkloadName::Flood => Ok(vec![goodput_plot(report)?]),
        WorkloadName::Numbered => {
            // In virtual time the order itself is not kept.
            let shown = |row: &&MultipathRow| row.run == 1 && !row.arrival_order.is_empty();
            report.rows.iter().filter(shown).map(arrival_plot).collect()
        }
    }
}

const SHARE_FRAME: PlotFrame<'_> = PlotFrame {
    title: "share of the paths",
    caption: "Goodput in % of what the framing leaves of the sum of the paths' rates.",
    y_axis: "of what the framing leaves, %",
    y_range: (0.0, 104.0),
};
const GOODPUT_FRAME: PlotFrame<'_> =
    PlotFrame { title: "goodput", caption: "Goodput, Mbit/s.", y_axis: "goodput, Mbit/s", y_range: (0.0, 1.0) };

fn scale_estimate(value: Option<Estimate<f64>>, factor: f64) -> Option<Estimate<f64>> {
    value.map(|value| value.map(|value| value * factor))
}

fn figure_plot(
    report: &MultipathReport,
    frame: &PlotFrame<'_>,
    value: &dyn Fn(&PointSummary) -> Option<Estimate<f64>>,
) -> PlotResult<Plot> {
    cases_plot(report, frame, measured_series(report, value))
}

/// With what is published of the same contenders on such paths.
fn goodput_plot(report: &MultipathReport) -> PlotResult<Plot> {
    let mut series = measured_series(report, &|point| scale_estimate(point.goodput_bits_per_second, 1e-6));
    series.extend(published_series(report));
    cases_plot(report, &GOODPUT_FRAME, series)
}

fn measured_series(
    report: &MultipathReport,
    value: &dyn Fn(&PointSummary) -> Option<Estimate<f64>>,
) -> Vec<CaseSeries> {
    let cases = report.summary.cases();
    let best = |case: &str, members: &[&str]| {
        let values = members.iter().filter_map(|member| report.summary.point(case, member).and_then(value));
        values.max_by(|one, other| one.value.total_cmp(&other.value))
    };
    let series = contender_groups(report).into_iter().enumerate().map(|(index, (name, members))| CaseSeries {
        name,
        values: cases.iter().map(|case| best(case, &members)).collect(),
        colour: series_colour(index),
        is_published: false,
    });
    series.collect()
}

/// The contenders, each by its name. Where colours would not do, all fixed ratios are one: the best of them in each case.
fn contender_groups(report: &MultipathReport) -> Vec<(String, Vec<&str>)> {
    let contenders = report.summary.contenders();
    let are_many = contenders.len() > SERIES_COLOURS.len();
    let (fixed, others): (Vec<_>, Vec<_>) = contenders.into_iter().partition(|name| are_many && is_fixed_ratio(name));
    let best = (!fixed.is_empty()).then(|| ("best fixed ratio".to_owned(), fixed));
    others.into_iter().map(|name| (name.to_owned(), vec![name])).chain(best).collect()
}

fn published_series(report: &MultipathReport) -> Vec<CaseSeries> {
    let cases = report.summary.cases();
    let of = |case: &str, name: &str, source: &str| {
        let point = report.summary.point(case, name)?;
        let found = point.published.iter().find(|found| found.source == source)?;
        // The sum of the paths' rates.
        let sum = || Some(point.goodput_bits_per_second?.value / point.share_of_sum_ratio?.value);
        let rate = found.goodput_bits_per_second.or_else(|| Some(found.share_of_sum_ratio? * sum()?))?;
        Some(without_interval(rate / 1e6))
    };
    let mut series = Vec::new();
    for (index, name) in report.summary.contenders().into_iter().enumerate() {
        let points = cases.iter().filter_map(|case| report.summary.point(case, name));
        let sources: BTreeSet<_> = points.flat_map(|point| &point.published).map(|found| &found.source).collect();
        series.extend(sources.into_iter().map(|source| CaseSeries {
            name: format!("{source}: {name}"),
            values: cases.iter().map(|case| of(case, name, source)).collect(),
            colour: series_colour(index),
            is_published: true,
        }));
    }
    series.retain(|series| series.values.iter().any(Option::is_some));
    series
}

fn cases_plot(report: &MultipathReport, frame: &PlotFrame<'_>, series: Vec<CaseSeries>) -> PlotResult<Plot> {
    let cases = report.summary.cases();
    let labels = (1..=cases.len()).map(|number| number.to_string()).collect();
    let caption = format!("{} The cases: {}.", frame.caption, numbered(&cases));
    case_plot(&CaseAxis { name: "case", labels, is_swept: false }, &PlotFrame { caption: &caption, ..*frame }, &series)
}

/// What the numbers along an axis stand for.
fn numbered(names: &[&str]) -> String {
    let numbered = names.iter().enumerate().map(|(index, name)| format!("{}: {name}", index + 1));
    numbered.collect::<Vec<_>>().join("; ")
}

/// As the paper's Fig. 8: for each tunnel that is run with different settings of its connections, a line for each case.
fn setting_plots(report: &MultipathReport) -> PlotResult<Vec<Plot>> {
    let mut plots = Vec::new();
    let contenders = report.summary.contenders();
    for plane in contenders.iter().filter(|name| !name.contains(SETTING_SEPARATOR)) {
        let is_tuned = |name: &&&str| name.strip_prefix(*plane).is_some_and(|rest| rest.starts_with(SETTING_SEPARATOR));
        let tuned: Vec<_> = contenders.iter().filter(is_tuned).copied().collect();
        if !tuned.is_empty() {
            let goodput = |point: &PointSummary| Some(point.goodput_bits_per_second?.value / 1e6);
            plots.push(setting_plot(report, plane, &tuned, "goodput, Mbit/s", &goodput)?);
            if tuned.len().min(report.summary.cases().len()) >= MIN_MAP_SIDE {
                plots.push(setting_map(report, plane, &tuned, &goodput)?);
            }
            if report.rows.iter().any(|row| row.echo.is_some()) {
                let echo = |point: &PointSummary| Some(point.echo_p99_seconds? * 1e3);
                plots.push(setting_plot(report, plane, &tuned, "echo p99, ms", &echo)?);
            }
        }
    }
    Ok(plots)
}

/// What stands between a plane and the name of a setting.
const SETTING_SEPARATOR: &str = ", ";

fn setting_plot(
    report: &MultipathReport,
    plane: &str,
    tuned: &[&str],
    y_axis: &str,
    value: &dyn Fn(&PointSummary) -> Option<f64>,
) -> PlotResult<Plot> {
    let series = report.summary.cases().into_iter().enumerate().map(|(index, case)| {
        let values =
            tuned.iter().map(|name| report.summary.point(case, name).and_then(value).map(without_interval)).collect();
        CaseSeries { name: case.to_owned(), values, colour: series_colour(index), is_published: false }
    });
    let series: Vec<_> = series.filter(|series| series.values.iter().any(Option::is_some)).collect();
    let caption = format!("The settings: {}.", numbered(tuned));
    let title = format!("{plane} by setting");
    let frame = PlotFrame { title: &title, caption: &caption, y_axis, y_range: (0.0, 1.0) };
    let labels = (1..=tuned.len()).map(|number| number.to_string()).collect();
    case_plot(&CaseAxis { name: "setting", labels, is_swept: true }, &frame, &series)
}

/// Fewer settings or cases are read better as lines.
const MIN_MAP_SIDE: usize = 6;

/// Goodput by setting and case.
fn setting_map(
    report: &MultipathReport,
    plane: &str,
    tuned: &[&str],
    value: &dyn Fn(&PointSummary) -> Option<f64>,
) -> PlotResult<Plot> {
    let cases = report.summary.cases();
    let row = |case: &&str| tuned.iter().map(|name| report.summary.point(case, name).and_then(value)).collect();
    let rows: Vec<Vec<_>> = cases.iter().map(row).collect();
    let ([x_form, y_form], [x_labels, y_labels]) = {
        let (x, y) = (without_common_parts(tuned), without_common_parts(&cases));
        ([x.0, y.0], [x.1, y.1])
    };
    let title = format!("{plane} by setting and case");
    let frame = PlotFrame { title: &title, caption: "Goodput, Mbit/s.", y_axis: "", y_range: (0.0, 0.0) };
    heat_map(
        &frame,
        [HeatAxis { name: &x_form, labels: x_labels }, HeatAxis { name: &y_form, labels: y_labels }],
        &rows,
    )
}

/// What all names have in common, with dots in place of the rest; and that rest of each.
fn without_common_parts(names: &[&str]) -> (String, Vec<String>) {
    let common = |one: &str, other: &str| one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let reversed: Vec<String> = names.iter().map(|name| name.chars().rev().collect()).collect();
    let first = names.first().copied().unwrap_or_default();
    let before = names.iter().map(|name| common(first, name)).min().unwrap_or(0);
    let shortest = names.iter().map(|name| name.chars().count()).min().unwrap_or(0);
    let after = reversed.iter().map(|name| common(&reversed[0], name)).min().unwrap_or(0).min(shortest - before);
    let part = |name: &str| name.chars().take(name.chars().count() - after).skip(before).collect::<String>();
    let (head, tail) = (first.chars().take(before), first.chars().skip(first.chars().count() - after));
    (head.chain(['…']).chain(tail).collect(), names.iter().map(|name| part(name)).collect())
}

/// As the paper's Fig. 6: the numbers of packets in the order of their arrival.
fn arrival_plot(row: &MultipathRow) -> PlotResult<Plot> {
    let first = row.arrival_order.iter().copied().min().unwrap_or(0);
    let numbers: Vec<_> = row.arrival_order.iter().map(|number| (number - first) as f64).collect();
    let highest = numbers.iter().copied().fold(1.0, f64::max);
    let svg = draw_plot(&[], |area| {
        let axes = ["place in the order of arrival".to_owned(), "number of the packet".to_owned()];
        let mut chart = draw_chart(area, 0.0..numbers.len().max(1) as f64, 0.0..highest, &axes)?;
        let marks = numbers
            .iter()
            .enumerate()
            .map(|(place, number)| Circle::new((place as f64, *number), 2, SERIES_COLOURS[0].filled()));
        chart.draw_series(marks)?;
        Ok(())
    })?;
    Ok(Plot {
        title: format!("{}, {}", row.case, row.contender),
        caption: "Packets from the middle of the first run, numbered as they were sent.".to_owned(),
        svg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_map_are_what_differs() {
        let (form, labels) = without_common_parts(&["tcp, RTO 1 s", "tcp, RTO 10 s", "tcp, RTO 2 s"]);
        assert_eq!((&*form, &labels[..]), ("tcp, RTO … s", &["1".to_owned(), "10".to_owned(), "2".to_owned()][..]));
        assert_eq!(without_common_parts(&["one"]), ("one…".to_owned(), vec![String::new()]));
        assert_eq!(without_common_parts(&["aa", "a"]), ("a…".to_owned(), vec!["a".to_owned(), String::new()]));
    }
}
