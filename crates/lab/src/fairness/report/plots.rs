//! The plots of a report on fairness: as in the papers, shares and Jain's index against the added delay; then utilisation
//! and queueing delay. A case without a value leaves a gap.

use super::document::FairnessReport;
use crate::fairness::published::{PublishedMix, PublishedShare};
use crate::fairness::summary::PointSummary;
use crate::report::cases::{CaseAxis, CaseSeries, PlotFrame, case_plot, without_interval};
use crate::report::plot::{Plot, PlotResult, series_colour};
use crate::statistics::distinct;
use kumade_probe_train::Estimate;
use plotters::style::RGBColor;

/// Index, shares for each discipline, then utilisation and delay of all disciplines.
pub(super) fn draw_plots(report: &FairnessReport) -> PlotResult<Vec<Plot>> {
    let cases = distinct(report.summary.points.iter().map(|point| &*point.case));
    let mut plots = vec![index_plot(report, &cases)?];
    plots.extend(goodput_plots(report, &cases)?);
    plots.push(utilisation_plot(report, &cases)?);
    plots.push(queueing_delay_plot(report, &cases)?);
    Ok(plots)
}

/// The goodputs of the groups, a plot for each discipline. Where groups differ between cases there is none: the table shows
/// more than lines could.
fn goodput_plots(report: &FairnessReport, cases: &[&str]) -> PlotResult<Vec<Plot>> {
    let points = &report.summary.points;
    let names = |point: &PointSummary| point.groups.iter().map(|group| group.group.clone()).collect::<Vec<_>>();
    if points.windows(2).any(|pair| names(&pair[0]) != names(&pair[1])) {
        return Ok(Vec::new());
    }
    let goodputs = points.iter().flat_map(|point| &point.groups).filter_map(|group| group.goodput_bits_per_second);
    let max = goodputs.map(|mean| mean.high / 1e6).fold(0.0, f64::max);
    let of_discipline = |name: &str| {
        let frame = PlotFrame {
            title: name,
            caption: "Mean goodput of the connections of each group, Mbit/s.",
            y_axis: "goodput per connection, Mbit/s",
            y_range: (0.0, max * 1.04),
        };
        fairness_plot(report, cases, &frame, share_series(points, name, cases))
    };
    report.summary.discipline_names().into_iter().map(of_discipline).collect()
}

fn utilisation_plot(report: &FairnessReport, cases: &[&str]) -> PlotResult<Plot> {
    let frame = PlotFrame {
        title: "utilisation",
        caption: "Utilisation of the bottleneck, %.",
        y_axis: "utilisation, %",
        y_range: (80.0, 100.5),
    };
    let percent = |point: &PointSummary| point.utilisation_ratio.map(|mean| scale_estimate(mean, 100.0));
    fairness_plot(report, cases, &frame, discipline_series(report, cases, &percent))
}

fn queueing_delay_plot(report: &FairnessReport, cases: &[&str]) -> PlotResult<Plot> {
    let frame = PlotFrame {
        title: "queueing delay",
        caption: "Median queueing delay at the bottleneck, ms.",
        y_axis: "median queueing delay, ms",
        y_range: (0.0, 1.0),
    };
    let millis = |point: &PointSummary| point.queueing_median_seconds.map(|seconds| without_interval(seconds * 1e3));
    fairness_plot(report, cases, &frame, discipline_series(report, cases, &millis))
}

/// What is published of a mix: the discipline that is the same here, where there is one, its name there, and its figures.
type PublishedSeries = (Option<&'static str>, &'static str, fn(&PublishedMix) -> PublishedShare);
const PUBLISHED_SERIES: [PublishedSeries; 3] = [
    (Some("tail-drop"), "FIFO", |mix| mix.fifo),
    (Some("fq-codel"), "FQ-CoDel", |mix| mix.fq_codel),
    (None, "Cebinae", |mix| mix.cebinae),
];

/// Those of the same disciplines here, or else those that follow.
fn published_colours(disciplines: &[&str]) -> [RGBColor; PUBLISHED_SERIES.len()] {
    let mut free = disciplines.len()..;
    PUBLISHED_SERIES.map(|(same, ..)| {
        let own = same.and_then(|same| disciplines.iter().position(|name| *name == same));
        series_colour(own.or_else(|| free.next()).unwrap_or_default())
    })
}

/// Jain's index, beside the published values where there are some.
fn index_plot(report: &FairnessReport, cases: &[&str]) -> PlotResult<Plot> {
    let points = &report.summary.points;
    let mut series = discipline_series(report, cases, &|point| point.jain_index.map(clamp_to_one));
    let published = |case: &&str| points.iter().find(|point| point.case == **case)?.published;
    if cases.iter().any(|case| published(case).is_some()) {
        let colours = published_colours(&report.summary.discipline_names());
        for ((_, name, share), colour) in PUBLISHED_SERIES.into_iter().zip(colours) {
            series.push(CaseSeries {
                name: format!("published: {name}"),
                values: cases.iter().map(|case| Some(without_interval(share(&published(case)?).jain_index))).collect(),
                colour,
                is_published: true,
            });
        }
    }
    let frame = PlotFrame {
        title: "Jain's index",
        caption: "Of all connections' goodputs: 1 where all are equal.",
        y_axis: "Jain's index",
        y_range: (0.8, 1.01),
    };
    fairness_plot(report, cases, &frame, series)
}

fn share_series(points: &[PointSummary], discipline: &str, cases: &[&str]) -> Vec<CaseSeries> {
    let own: Vec<_> = points.iter().filter(|point| point.discipline == discipline).collect();
    let groups = own.first().map_or(&[][..], |point| &point.groups);
    let series = groups.iter().enumerate().map(|(index, group)| {
        let value = |case: &&str| {
            let point = own.iter().find(|point| point.case == **case)?;
            point.groups.get(index)?.goodput_bits_per_second.map(|mean| scale_estimate(mean, 1e-6))
        };
        let values = cases.iter().map(value).collect();
        CaseSeries { name: group.group.clone(), values, colour: series_colour(index), is_published: false }
    });
    series.collect()
}

fn discipline_series(
    report: &FairnessReport,
    cases: &[&str],
    value: &dyn Fn(&PointSummary) -> Option<Estimate<f64>>,
) -> Vec<CaseSeries> {
    let points = &report.summary.points;
    let series = report.summary.discipline_names().into_iter().enumerate().map(|(index, name)| {
        let of_case = |case: &&str| points.iter().find(|p| p.discipline == name && p.case == **case).and_then(value);
        let values = cases.iter().map(of_case).collect();
        CaseSeries { name: name.to_owned(), values, colour: series_colour(index), is_published: false }
    });
    series.collect()
}

/// An index is 1 at most, whatever the interval of a mean of few runs says.
fn clamp_to_one(index: Estimate<f64>) -> Estimate<f64> {
    index.map(|value| value.min(1.0))
}

fn scale_estimate(value: Estimate<f64>, factor: f64) -> Estimate<f64> {
    value.map(|value| value * factor)
}

/// Cases are side by side, joined by lines where they differ by an added delay.
fn fairness_plot(
    report: &FairnessReport,
    cases: &[&str],
    frame: &PlotFrame<'_>,
    series: Vec<CaseSeries>,
) -> PlotResult<Plot> {
    let swept = report.summary.points.iter().any(|point| point.added_delay_seconds > 0.0);
    let label = |case: &&str| {
        let number = case.strip_prefix("row ").and_then(|case| Some(case.split_once(':')?.0));
        number.unwrap_or(case.trim_end_matches(" ms")).to_owned()
    };
    let axis = CaseAxis {
        name: if swept { "added round-trip delay, ms" } else { "row of the table" },
        labels: cases.iter().map(label).collect(),
        is_swept: swept,
    };
    case_plot(&axis, frame, &series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::SERIES_COLOURS;

    /// Finding 10 of the review by a new user: all that is published of disciplines that were not run was one grey.
    #[test]
    fn published_disciplines_have_colours_of_their_own() {
        assert_eq!(published_colours(&["fair-share"]), [SERIES_COLOURS[1], SERIES_COLOURS[2], SERIES_COLOURS[3]]);
        assert_eq!(
            published_colours(&["fq-codel", "tail-drop"]),
            [SERIES_COLOURS[1], SERIES_COLOURS[0], SERIES_COLOURS[2]]
        );
    }
}
