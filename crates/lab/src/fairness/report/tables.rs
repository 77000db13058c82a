//! The tables of a report on fairness, the same for terminal and HTML: a line for each case, a column for each discipline.

use super::document::FairnessReport;
use crate::fairness::published::{PublishedMix, PublishedShare};
use crate::fairness::summary::{DisciplineSummary, FairnessSummary, GroupSummary, PointSummary};
use crate::report::{Column, Table, format_mean, format_number};
use crate::statistics::distinct;
use kumade_link::queue::Ecn;
use kumade_sim::tcp::congestion::CongestionControl;
use std::collections::BTreeMap;

/// All tables of a report: shares first, then what they cost, then each discipline over all cases.
pub(super) fn report_tables(report: &FairnessReport) -> Vec<Table> {
    let has_worst = report.summary.points.iter().any(|point| describe_worst(point).is_some());
    let over_runs = if has_worst { ", the mean over the runs (and that of the worst)" } else { "" };
    vec![
        table_with_published(
            report,
            &format!("Jain's index of all connections' goodputs{over_runs}"),
            &describe_index,
            (1.0, 3),
            &|mix| mix.jain_index,
        ),
        table_with_published(
            report,
            "Sum of the goodputs, Mbit/s",
            &|point| format_mean(point.goodput_bits_per_second, 1e6, 1),
            (1e6, 1),
            &|share| share.goodput_bits_per_second,
        ),
        case_matrix(report, &format!("Mean goodput per connection of {}, Mbit/s", describe_groups(report)), &|point| {
            let groups = point.groups.iter().map(|group| format_mean(group.goodput_bits_per_second, 1e6, 2));
            groups.collect::<Vec<_>>().join(" / ")
        }),
        case_matrix(report, "Utilisation of the bottleneck, %", &|point| format_mean(point.utilisation_ratio, 0.01, 1)),
        case_matrix(
            report,
            "Queueing delay at the bottleneck, median / 95th percentile, ms; packets dropped",
            &|point| {
                let millis = |seconds: Option<f64>| seconds.map_or("–".into(), |s| format!("{:.1}", s * 1e3));
                let dropped = point.drop_ratio.map_or("–".into(), |ratio| format!("{:.2} %", ratio * 100.0));
                format!("{} / {}; {dropped}", millis(point.queueing_median_seconds), millis(point.queueing_p95_seconds))
            },
        ),
        group_delay_table(report),
        summary_table(report),
        parameter_table(report),
    ]
}

/// An index is 1 at most: the interval of a mean of few runs would go beyond.
fn describe_index(point: &PointSummary) -> String {
    format_number(point.jain_index.map(|index| index.value), 1.0, 3) + &describe_worst(point).unwrap_or_default()
}

fn describe_worst(point: &PointSummary) -> Option<String> {
    point.min_jain_index.filter(|_| point.runs > 1).map(|worst| format!(" ({worst:.3})"))
}

/// How long the packets of each group waited, where some senders expect to wait for less than others.
fn group_delay_table(report: &FairnessReport) -> Table {
    let is_l4s = |group: &GroupSummary| {
        let control = group.group.split(' ').next().unwrap_or_default().parse::<CongestionControl>();
        control.is_ok_and(|control| control.usual_ecn() == Ecn::Ect1)
    };
    let caption = format!("Queueing delay of {}, mean / 99th percentile, ms", describe_groups(report));
    if !report.summary.points.iter().flat_map(|point| &point.groups).any(is_l4s) {
        return Table { caption, columns: Vec::new(), rows: Vec::new() };
    }
    case_matrix(report, &caption, &|point| {
        let millis = |seconds: Option<f64>| seconds.map_or("–".into(), |s| format!("{:.2}", s * 1e3));
        let delays = |group: &GroupSummary| {
            format!("{} / {}", millis(group.queueing_mean_seconds), millis(group.queueing_p99_seconds))
        };
        point.groups.iter().map(delays).collect::<Vec<_>>().join("; ")
    })
}

/// A discipline's parameter, and the settings that differ from the discipline without settings in nothing else.
struct VariedParameter<'r> {
    discipline: &'r str,
    name: &'r str,
    /// With each one's index over all cases, that of the default first.
    settings: Vec<(&'r str, f64)>,
}

impl<'r> VariedParameter<'r> {
    /// The setting with the highest index, or the lowest where the sign is negative.
    fn extreme(&self, sign: f64) -> (&'r str, f64) {
        let found = self.settings.iter().copied().max_by(|one, other| (sign * one.1).total_cmp(&(sign * other.1)));
        found.unwrap_or_default()
    }
}

/// What each parameter matters: nothing where no discipline is run with and without settings.
fn parameter_table(report: &FairnessReport) -> Table {
    let setting = |(value, index): (&str, f64)| format!("{value} ({index:.3})");
    let columns: [Column<'_, VariedParameter<'_>>; 6] = [
        ("discipline", &|own| own.discipline.to_owned()),
        ("parameter", &|own| own.name.to_owned()),
        ("settings", &|own| own.settings.len().to_string()),
        ("best (mean index)", &|own| setting(own.extreme(1.0))),
        ("worst (mean index)", &|own| setting(own.extreme(-1.0))),
        ("difference", &|own| format!("{:.3}", own.extreme(1.0).1 - own.extreme(-1.0).1)),
    ];
    Table::from_items("What each parameter matters, the others as by default", &varied_parameters(report), &columns)
}

fn varied_parameters(report: &FairnessReport) -> Vec<VariedParameter<'_>> {
    let index = |name: &str| report.summary.disciplines.get(name)?.mean_jain_index;
    let mut varied: Vec<VariedParameter<'_>> = Vec::new();
    for text in report.summary.discipline_names() {
        let mut parts = text.split(':');
        let (Some(discipline), Some(given), None) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (Some((name, value)), Some(own)) = (given.split_once('='), index(text)) else { continue };
        let Some(default) = index(discipline) else { continue };
        match varied.iter_mut().find(|known| known.discipline == discipline && known.name == name) {
            Some(known) => known.settings.push((value, own)),
            None => {
                varied.push(VariedParameter { discipline, name, settings: vec![("default", default), (value, own)] })
            }
        }
    }
    varied
}

/// The groups whose figures stand side by side.
fn describe_groups(report: &FairnessReport) -> String {
    let names = |point: &PointSummary| point.groups.iter().map(|group| group.group.clone()).collect::<Vec<_>>();
    match &report.summary.points[..] {
        [first, rest @ ..] if rest.iter().all(|point| names(point) == names(first)) => names(first).join(" / "),
        _ => "each group, in the order of the case's name".to_owned(),
    }
}

/// A cell for each case and discipline, with what was published of each case, if anything, in this unit and with so many decimals.
fn table_with_published(
    report: &FairnessReport,
    caption: &str,
    figure: &dyn Fn(&PointSummary) -> String,
    (unit, decimals): (f64, usize),
    published: &dyn Fn(PublishedShare) -> f64,
) -> Table {
    let mut table = case_matrix(report, caption, figure);
    let mixes: BTreeMap<_, _> =
        report.summary.points.iter().filter_map(|point| Some((&*point.case, point.published?))).collect();
    if !mixes.is_empty() {
        table.columns.extend(["paper: FIFO", "paper: FQ-CoDel", "paper: Cebinae"].map(str::to_owned));
        for row in &mut table.rows {
            let shares = mixes.get(&*row[0]).map_or([None; 3], |mix| [mix.fifo, mix.fq_codel, mix.cebinae].map(Some));
            let cell = |share: PublishedShare| format!("{:.decimals$}", published(share) / unit);
            row.extend(shares.map(|share| share.map_or("–".into(), cell)));
        }
    }
    table
}

/// A line for each case, a column for each discipline.
fn case_matrix(report: &FairnessReport, caption: &str, cell: &dyn Fn(&PointSummary) -> String) -> Table {
    let points = &report.summary.points;
    let cases = distinct(points.iter().map(|point| &*point.case));
    let is_swept = points.iter().any(|point| point.added_delay_seconds > 0.0);
    let heading = if is_swept { "added delay" } else { "case" };
    let cell = |case: &str, name: &str| points.iter().find(|p| p.case == case && p.discipline == name).map(cell);
    Table::matrix(caption, heading, [&cases, &report.summary.discipline_names()], &cell)
}

fn summary_table(report: &FairnessReport) -> Table {
    let FairnessSummary { disciplines, .. } = &report.summary;
    let named = report.summary.discipline_names().into_iter().filter_map(|name| disciplines.get_key_value(name));
    let named: Vec<_> = named.collect();
    let columns: [Column<'_, (&String, &DisciplineSummary)>; 5] = [
        ("discipline", &|(name, _)| (*name).clone()),
        ("mean index", &|(_, own)| format_number(own.mean_jain_index, 1.0, 3)),
        ("minimum index", &|(_, own)| format_number(own.min_jain_index, 1.0, 3)),
        ("minimum utilisation", &|(_, own)| format_number(own.min_utilisation_ratio, 0.01, 1)),
        ("goodput loss against tail-drop", &|(_, own)| format_number(own.goodput_loss_ratio, 0.01, 1)),
    ];
    let mut table = Table::from_items("Each discipline over all cases; utilisation and goodput in %", &named, &columns);
    table.rows.extend(published_cells(report));
    table
}

/// The published disciplines over the same cases.
fn published_cells(report: &FairnessReport) -> Vec<Vec<String>> {
    let cases: BTreeMap<_, _> =
        report.summary.points.iter().filter_map(|point| Some((&*point.case, point.published?))).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let line = |name: &str, of: fn(&PublishedMix) -> PublishedShare| {
        let indices: Vec<_> = cases.values().map(|mix| of(mix).jain_index).collect();
        let sum = |of: &dyn Fn(&PublishedMix) -> f64| cases.values().map(of).sum::<f64>();
        let (own, fifo) = (sum(&|mix| of(mix).goodput_bits_per_second), sum(&|mix| mix.fifo.goodput_bits_per_second));
        let min = indices.iter().copied().fold(f64::INFINITY, f64::min);
        let mean = indices.iter().sum::<f64>() / indices.len() as f64;
        let lost = format!("{:.1}", (1.0 - own / fifo) * 100.0);
        vec![format!("paper: {name}"), format!("{mean:.3}"), format!("{min:.3}"), "–".into(), lost]
    };
    vec![line("FIFO", |mix| mix.fifo), line("FQ-CoDel", |mix| mix.fq_codel), line("Cebinae", |mix| mix.cebinae)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fairness::FairnessExperiment;
    use crate::scenario::load;
    use crate::study::Overrides;

    #[test]
    fn a_parameter_matters_as_much_as_its_settings_differ() {
        let experiment = load("fair-parameters", &Overrides::default()).unwrap();
        let experiment = experiment.into_scenario::<FairnessExperiment>().unwrap();
        let mut report = FairnessReport::new(&experiment, "2026-11-20T12:00:00Z".into(), Vec::new());
        assert!(parameter_table(&report).rows.is_empty());
        let names = ["fair-codel", "fair-codel:stat-int=1", "fair-codel:stat-int=9", "fair-codel:a=1:b=2", "red:min=1"];
        for (name, index) in names.into_iter().zip([0.98, 0.99, 0.9, 0.1, 0.2]) {
            let own = DisciplineSummary {
                mean_jain_index: Some(index),
                min_jain_index: None,
                min_utilisation_ratio: None,
                goodput_loss_ratio: None,
            };
            report.summary.disciplines.insert(name.to_owned(), own);
            let point = PointSummary { discipline: name.to_owned(), ..PointSummary::default() };
            report.summary.points.push(point);
        }
        let table = parameter_table(&report);
        assert_eq!(table.rows, [["fair-codel", "stat-int", "3", "1 (0.990)", "9 (0.900)", "0.090"].map(str::to_owned)]);
    }
}
