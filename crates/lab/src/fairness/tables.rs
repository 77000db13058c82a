//! The tables of a report on fairness, the same for terminal and HTML: a line for each case, a column for each discipline.

use super::report::FairnessReport;
use super::row::FairnessRow;
use super::scenario::{AccessHop, Buffer, Fairness, Group};
use super::summary::{MeanWithMargin, PointSummary};
use crate::accuracy::report::tables::Table;
use crate::scenario::mixes::{PublishedMix, PublishedShare};
use std::collections::BTreeMap;
use units::Span;

/// The discipline that the paper's falls behind at small delays, and that ours must not.
const PLAIN: &str = "codel";
/// Differences of the index below this are the runs', not the disciplines'.
const NOTICEABLE: f64 = 0.005;

/// All tables of a report: shares first, then what they cost, then each discipline over all cases.
pub(super) fn all(report: &FairnessReport) -> Vec<Table> {
    vec![
        beside_published(
            report,
            "Jain's index of all connections' goodputs",
            &|point| point.jain_index,
            (1.0, 3),
            &|mix| mix.jain_index,
        ),
        beside_published(
            report,
            "Sum of the goodputs, Mbit/s",
            &|point| point.goodput_bits_per_second,
            (1e6, 1),
            &|share| share.goodput_bits_per_second,
        ),
        matrix(report, "Mean goodput per connection of each group, Mbit/s", &|point| {
            let mbits = |mean: MeanWithMargin| with_margin(mean, 1e6, 2);
            let groups = point.groups.iter().map(|group| group.goodput_bits_per_second.map_or("–".into(), mbits));
            groups.collect::<Vec<_>>().join(" / ")
        }),
        matrix(report, "Utilisation of the bottleneck, %", &|point| {
            point.utilisation_ratio.map_or("–".into(), |mean| with_margin(mean, 0.01, 1))
        }),
        matrix(report, "Waiting at the bottleneck: median / 95 of 100 packets, ms; packets dropped", &|point| {
            let millis = |seconds: Option<f64>| seconds.map_or("–".into(), |s| format!("{:.1}", s * 1e3));
            let dropped = point.drop_ratio.map_or("–".into(), |ratio| format!("{:.2} %", ratio * 100.0));
            format!("{} / {}; {dropped}", millis(point.queueing_median_seconds), millis(point.queueing_p95_seconds))
        }),
        summary(report),
    ]
}

/// What each discipline came to, in a sentence.
pub(super) fn verdicts(report: &FairnessReport) -> Vec<String> {
    let s = &report.summary;
    let verdict = |name: &str| {
        let own = s.disciplines.get(name)?;
        let points: Vec<_> = s.points.iter().filter(|point| point.discipline == name).collect();
        let least = points.iter().filter_map(|point| Some((point.jain_index?.mean, &point.case)));
        let (least, case) = least.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mut text =
            format!("{name}: Jain's index {:.3} in the mean, {least:.3} at least ({case})", own.mean_jain_index?);
        text += &format!(", and at least {:.1} % of the bottleneck used", own.least_utilisation_ratio? * 100.0);
        let behind: Vec<_> = points.iter().filter(|point| is_behind(report, point)).map(|p| &*p.case).collect();
        if !behind.is_empty() {
            text += &format!("; less fair than {PLAIN} at {}", behind.join(", "));
        }
        Some(text)
    };
    s.discipline_names().into_iter().filter_map(verdict).collect()
}

/// Whether plain CoDel is fairer in that case.
fn is_behind(report: &FairnessReport, point: &PointSummary) -> bool {
    let plain = report.summary.points.iter().find(|other| other.discipline == PLAIN && other.case == point.case);
    let plain = plain.and_then(|plain| plain.jain_index);
    point.jain_index.zip(plain).is_some_and(|(own, plain)| own.mean < plain.mean - NOTICEABLE)
}

/// What the numbers can't say.
pub(super) fn notes(report: &FairnessReport) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |what: &dyn Fn(&&FairnessRow) -> bool| report.rows.iter().filter(what).count();
    let (stalled, silent) = (count(&|row| row.stalled), count(&|row| row.jain_index.is_none()));
    let repeats: u32 = report.rows.iter().map(|row| row.stalled_repeats).sum();
    if stalled > 0 {
        notes.push(format!(
            "the machine stalled in {stalled} runs, and no repetition was left; their figures are in doubt"
        ));
    }
    if repeats > 0 {
        notes.push(format!("{repeats} runs were thrown away and repeated, because the machine stalled in them"));
    }
    if silent > 0 {
        notes.push(format!("in {silent} runs nothing arrived"));
    }
    notes
}

/// Network, connections and runs in a line.
pub(super) fn setting(scenario: &Fairness) -> String {
    let network = match &scenario.bottleneck {
        None => format!("{} mixes of connections, each with its own bottleneck", scenario.mixes.len()),
        Some(bottleneck) => {
            let queue = match bottleneck.queue {
                Buffer::Bytes(bytes) => format!("{bytes} bytes"),
                Buffer::Packets(packets) => format!("{packets} packets"),
                Buffer::RoundTrips(count) => {
                    format!("{count} × round trip × rate, at least {} packets", Buffer::LEAST_PACKETS)
                }
            };
            let groups: Vec<_> = scenario.groups.iter().map(describe).collect();
            format!(
                "bottleneck {}, {} each way and half of what is added, queue of {queue}; {}",
                bottleneck.rate,
                bottleneck.delay,
                groups.join(" against ")
            )
        }
    };
    let how = match scenario.virtual_time {
        true => format!(
            "virtual time, the simulator's TCP, segments of {} bytes payload, {} for each acknowledgement",
            scenario.segment_bytes, scenario.segments_per_ack
        ),
        false => "real time, the kernel's TCP".to_owned(),
    };
    let runs = if scenario.runs == 1 { "1 run".to_owned() } else { format!("{} runs", scenario.runs) };
    let after = match scenario.warm_up {
        Span::ZERO => String::new(),
        warm_up => format!(" after {warm_up}"),
    };
    format!("{network}; {how}; {runs} of {}{after} each", scenario.duration)
}

fn describe(group: &Group) -> String {
    let hops = match &group.hops[..] {
        [] => String::new(),
        hops => {
            let each = |hop: &AccessHop| hop.rate.map_or_else(|| "802.11ac".to_owned(), |rate| rate.to_string());
            format!(" behind {}", hops.iter().map(each).collect::<Vec<_>>().join(", "))
        }
    };
    format!("{} {}{hops}", group.connections, group.label())
}

/// A figure in this unit and to so many decimals, with what was published of each case if it was.
fn beside_published(
    report: &FairnessReport,
    caption: &str,
    figure: &dyn Fn(&PointSummary) -> Option<MeanWithMargin>,
    (unit, decimals): (f64, usize),
    published: &dyn Fn(PublishedShare) -> f64,
) -> Table {
    let mut table =
        matrix(report, caption, &|point| figure(point).map_or("–".into(), |mean| with_margin(mean, unit, decimals)));
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
fn matrix(report: &FairnessReport, caption: &str, cell: &dyn Fn(&PointSummary) -> String) -> Table {
    let disciplines = report.summary.discipline_names();
    let mut cases: Vec<&str> = Vec::new();
    for point in &report.summary.points {
        if !cases.contains(&&*point.case) {
            cases.push(&point.case);
        }
    }
    let added = report.summary.points.iter().any(|point| point.added_delay_seconds > 0.0);
    let mut columns = vec![if added { "added delay" } else { "case" }.to_owned()];
    columns.extend(disciplines.iter().map(|name| (*name).to_owned()));
    let rows = cases.into_iter().map(|case| {
        let of = |name: &&str| report.summary.points.iter().find(|p| p.case == case && p.discipline == **name);
        let cells = disciplines.iter().map(|name| of(name).map_or("–".into(), cell));
        std::iter::once(case.to_owned()).chain(cells).collect()
    });
    Table { caption: caption.to_owned(), columns, rows: rows.collect() }
}

fn summary(report: &FairnessReport) -> Table {
    let columns = ["discipline", "mean index", "least index", "least utilisation", "goodput lost against tail-drop"];
    let number = |value: Option<f64>, unit: f64, decimals: usize| {
        value.map_or("–".into(), |value| format!("{:.decimals$}", value / unit))
    };
    let mut rows: Vec<_> = report
        .summary
        .discipline_names()
        .into_iter()
        .filter_map(|name| {
            let own = report.summary.disciplines.get(name)?;
            Some(vec![
                name.to_owned(),
                number(own.mean_jain_index, 1.0, 3),
                number(own.least_jain_index, 1.0, 3),
                number(own.least_utilisation_ratio, 0.01, 1),
                number(own.goodput_loss_ratio, 0.01, 1),
            ])
        })
        .collect();
    rows.extend(published(report));
    let caption = "Each discipline over all cases; utilisation and goodput in %".to_owned();
    Table { caption, columns: columns.map(str::to_owned).to_vec(), rows }
}

/// The published disciplines over the same cases.
fn published(report: &FairnessReport) -> Vec<Vec<String>> {
    let cases: BTreeMap<_, _> =
        report.summary.points.iter().filter_map(|point| Some((&*point.case, point.published?))).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let line = |name: &str, of: fn(&PublishedMix) -> PublishedShare| {
        let indices: Vec<_> = cases.values().map(|mix| of(mix).jain_index).collect();
        let sum = |of: &dyn Fn(&PublishedMix) -> f64| cases.values().map(of).sum::<f64>();
        let (own, fifo) = (sum(&|mix| of(mix).goodput_bits_per_second), sum(&|mix| mix.fifo.goodput_bits_per_second));
        let least = indices.iter().copied().fold(f64::INFINITY, f64::min);
        let mean = indices.iter().sum::<f64>() / indices.len() as f64;
        let lost = format!("{:.1}", (1.0 - own / fifo) * 100.0);
        vec![format!("paper: {name}"), format!("{mean:.3}"), format!("{least:.3}"), "–".into(), lost]
    };
    vec![line("FIFO", |mix| mix.fifo), line("FQ-CoDel", |mix| mix.fq_codel), line("Cebinae", |mix| mix.cebinae)]
}

fn with_margin(value: MeanWithMargin, unit: f64, decimals: usize) -> String {
    let mean = format!("{:.decimals$}", value.mean / unit);
    value.margin.map_or(mean.clone(), |margin| format!("{mean}±{:.decimals$}", margin / unit))
}

/// A line for each run and group: the field names are JSON's.
pub(super) fn csv(rows: &[FairnessRow]) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "case",
        "added_delay_seconds",
        "discipline",
        "run",
        "jain_index",
        "utilisation_ratio",
        "goodput_bits_per_second",
        "group",
        "connections",
        "mean_goodput_bits_per_second",
        "queueing_median_seconds",
        "queueing_p95_seconds",
        "queueing_p99_seconds",
        "offered_packets",
        "queue_full_packets",
        "managed_packets",
        "marked_packets",
        "stalled_repeats",
        "stalled",
        "lateness_p99_seconds",
    ])?;
    for row in rows {
        for group in &row.groups {
            let (waits, drops) = (row.queueing, row.drops);
            writer.serialize((
                (&row.case, row.added_delay_seconds, &row.discipline, row.run),
                (row.jain_index, row.utilisation_ratio, row.goodput_bits_per_second),
                (&group.group, group.connections, group.mean_goodput_bits_per_second),
                (waits.map(|w| w.median_seconds), waits.map(|w| w.p95_seconds), waits.map(|w| w.p99_seconds)),
                (drops.offered_packets, drops.queue_full_packets, drops.managed_packets, drops.marked_packets),
                (row.stalled_repeats, row.stalled, row.lateness_p99_seconds),
            ))?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
