//! The tables of a report on several paths, the same for terminal and HTML.

use super::blocks;
use super::document::{MultipathReport, WorkloadName};
use crate::multipath::summary::PointSummary;
use crate::report::{Column, Table, format_mean, format_number};
use kumade_probe_train::Estimate;

/// All tables of a report: all cases beside each other, then a line for each case and contender.
pub(super) fn report_tables(report: &MultipathReport) -> Vec<Table> {
    match report.workload {
        WorkloadName::Transfer => vec![
            case_matrix(report, "Goodput in % of the sum of the paths' rates", &|point| {
                format_percent(point.share_of_sum_ratio)
            }),
            case_matrix(report, "Goodput in % of what the framing leaves of that sum", &|point| {
                format_percent(point.share_of_framing_ratio)
            }),
            transfer_table(report),
        ]
        .into_iter()
        .chain(tcp_tunnel_table(report))
        .collect(),
        WorkloadName::Blocks => blocks::block_tables(report),
        WorkloadName::Numbered => vec![numbered_packets_table(report)],
        WorkloadName::Flood => vec![flood_table(report)],
    }
}

/// A line for each case, a column for each contender.
fn case_matrix(report: &MultipathReport, caption: &str, cell: &dyn Fn(&PointSummary) -> String) -> Table {
    let MultipathReport { summary, .. } = report;
    let cell = |case: &str, contender: &str| summary.point(case, contender).map(cell);
    Table::matrix(caption, "case", [&summary.cases(), &summary.contenders()], &cell)
}

fn transfer_table(report: &MultipathReport) -> Table {
    let columns: [Column<'_, PointSummary>; 13] = [
        ("case", &|point| point.case.clone()),
        ("contender", &|point| point.contender.clone()),
        ("Mbit/s", &|point| format_mbit(point.goodput_bits_per_second)),
        ("minimum", &|point| format_number(point.min_goodput_bits_per_second, 1e6, 2)),
        ("minimum, % of sum", &|point| format_number(point.min_share_of_sum_ratio, 0.01, 1)),
        ("framing, %", &|point| format_number(point.framing_ratio, 0.01, 1)),
        ("minimum, % of framing", &|point| format_number(point.min_share_of_framing_ratio, 0.01, 1)),
        ("retransmitted", &|point| format_number(point.retransmitted_segments, 1.0, 0)),
        ("out of order", &|point| format_number(point.reordered_packets, 1.0, 0)),
        ("extent p95 / max", &describe_extents),
        ("longest gap, ms", &|point| format_number(point.longest_gap_seconds, 1e-3, 0)),
        ("sparse p99, ms added", &|point| format_number(point.sparse_added_p99_seconds, 1e-3, 1)),
        ("published; required", &describe_reference),
    ];
    let caption = "Goodput (mean, minimum of the runs), retransmitted segments and packets out of order at the receiver in a run, \
                   with the extent of reordering in packets; the longest time without an arrival; the 99th percentile of a \
                   sparse flow's delay above the shortest path's";
    let is_empty = |place: usize, table: &Table| table.rows.iter().all(|row| row[place] == "–");
    let mut table = Table::from_items(caption, &report.summary.points, &columns);
    // What was not measured in any case has no column.
    for place in (2..table.columns.len()).rev() {
        if is_empty(place, &table) {
            table.columns.remove(place);
            table.rows.iter_mut().for_each(|row| drop(row.remove(place)));
        }
    }
    table
}

/// Where tunnels over TCP are compared: what carries what, and what an echo and an outage make of it.
fn tcp_tunnel_table(report: &MultipathReport) -> Option<Table> {
    report.summary.points.iter().find(|point| point.lower_congestion_control.is_some())?;
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "–".into());
    let of_single = |point: &PointSummary| {
        let own = point.goodput_bits_per_second?.value;
        Some(own / report.summary.point(&point.case, "single")?.goodput_bits_per_second?.value)
    };
    let columns: [Column<'_, PointSummary>; 10] = [
        ("case", &|point| point.case.clone()),
        ("contender", &|point| point.contender.clone()),
        ("control", &|point| name(&point.congestion_control)),
        ("below", &|point| name(&point.lower_congestion_control)),
        ("Mbit/s", &|point| format_mbit(point.goodput_bits_per_second)),
        ("× single", &|point| format_number(of_single(point), 1.0, 2)),
        ("echo p50, ms", &|point| format_number(point.echo_median_seconds, 1e-3, 1)),
        ("echo p99, ms", &|point| format_number(point.echo_p99_seconds, 1e-3, 1)),
        ("unanswered, %", &|point| format_number(point.echo_unanswered_ratio, 0.01, 1)),
        ("recovery, ms", &|point| format_number(point.recovery_seconds, 1e-3, 0)),
    ];
    let caption = "Tunnels: the congestion control of the flow and of the connections below it, goodput, round trips of an echo of \
                   128 bytes beside it, and the time until data arrives again after an outage";
    Some(Table::from_items(caption, &report.summary.points, &columns))
}

fn numbered_packets_table(report: &MultipathReport) -> Table {
    let columns: [Column<'_, PointSummary>; 8] = [
        ("case", &|point| point.case.clone()),
        ("contender", &|point| point.contender.clone()),
        ("received", &|point| format_number(point.received_packets, 1.0, 0)),
        ("lost", &|point| format_number(point.lost_packets, 1.0, 0)),
        ("out of order", &|point| format_number(point.reordered_packets, 1.0, 0)),
        ("%", &|point| {
            let part = point.reordered_packets.zip(point.received_packets);
            part.map_or("–".into(), |(reordered, received)| format!("{:.1}", reordered / received.max(1.0) * 100.0))
        }),
        ("extent p95 / max", &describe_extents),
        ("Mbit/s", &|point| format_mbit(point.goodput_bits_per_second)),
    ];
    let caption = "Packets that arrived after a later one, and the extent of that in packets (RFC 4737)";
    Table::from_items(caption, &report.summary.points, &columns)
}

fn flood_table(report: &MultipathReport) -> Table {
    let single = |point: &PointSummary| {
        report.summary.point(&point.case, "single").and_then(|single| Some(single.goodput_bits_per_second?.value))
    };
    let of_single = move |point: &PointSummary| {
        let own = point.goodput_bits_per_second.map(|goodput| goodput.value);
        own.zip(single(point)).map_or("–".into(), |(own, single)| format!("{:.1}", own / single * 100.0))
    };
    let columns: [Column<'_, PointSummary>; 6] = [
        ("case", &|point| point.case.clone()),
        ("contender", &|point| point.contender.clone()),
        ("Mbit/s", &|point| format_mbit(point.goodput_bits_per_second)),
        ("minimum", &|point| format_number(point.min_goodput_bits_per_second, 1e6, 1)),
        ("% of single", &of_single),
        ("published", &describe_reference),
    ];
    Table::from_items("Payload that arrived at the far host's interface", &report.summary.points, &columns)
}

/// What was published, and what is to be reached.
fn describe_reference(point: &PointSummary) -> String {
    let required = point.required_share_ratio.map(|share| format!("≥ {:.0} % of framing", share * 100.0));
    let published = point.published.iter().map(|published| published.in_words());
    let all: Vec<_> = published.chain(required).collect();
    if all.is_empty() { "–".into() } else { all.join("; ") }
}

fn describe_extents(point: &PointSummary) -> String {
    // In virtual time the greatest alone is known.
    let p95 = point.p95_extent_packets.map_or("–".into(), |p95| format!("{p95:.0}"));
    point.max_extent_packets.map_or("–".into(), |max| format!("{p95} / {max}"))
}

fn format_percent(value: Option<Estimate<f64>>) -> String {
    format_mean(value, 0.01, 1)
}

fn format_mbit(value: Option<Estimate<f64>>) -> String {
    format_mean(value, 1e6, 2)
}
