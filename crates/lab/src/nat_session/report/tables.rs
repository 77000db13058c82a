//! The tables of a report on NAT sessions, the same for terminal and HTML.

use super::document::NatSessionReport;
use crate::nat_session::summary::{CaseSummary, Spread};
use crate::report::{Column, Table};

/// A line for each case in each: the steps of the paper's Fig. 3, what became of sessions, and of packets.
pub(super) fn report_tables(report: &NatSessionReport) -> Vec<Table> {
    vec![step_table(report), session_table(report), packet_table(report)]
}

fn step_table(report: &NatSessionReport) -> Table {
    let columns: [Column<'_, CaseSummary>; 7] = [
        ("case", &|case| case.case.clone()),
        ("3: NAT sent, ms", &|case| format_millis(case.asked_seconds)),
        ("4: rule there, ms", &|case| format_millis(case.granted_seconds)),
        ("6: divided, ms", &|case| format_millis(case.opened_seconds)),
        ("7: FIN, idle times", &|case| format_spread(case.idle_ratio, 1.0, 2)),
        ("8: rule removed, ms", &|case| format_millis(case.removed_seconds)),
        ("10: ended, ms", &|case| format_millis(case.forgotten_seconds)),
    ];
    let caption = "The steps of the paper's Fig. 3, by its numbers: 3, 4 and 6 since the flow's first packet, 7 since its last one, 8 \
                   and 10 since 7; median of all flows, and the maximum";
    Table::from_items(caption, &report.summary.cases, &columns)
}

fn session_table(report: &NatSessionReport) -> Table {
    let columns: [Column<'_, CaseSummary>; 8] = [
        ("case", &|case| case.case.clone()),
        ("flows", &|case| case.flows.to_string()),
        ("sessions", &|case| case.sessions.to_string()),
        ("opened", &|case| case.opened.to_string()),
        ("idle", &|case| case.idle.to_string()),
        ("gateway lost", &|case| case.lost.to_string()),
        ("requests, most", &|case| case.max_requests.to_string()),
        ("new one after kill, ms", &|case| format_millis(case.recovered_seconds)),
    ];
    let caption = "Sessions of all runs: how many were opened, how they ended, how often one was asked for, and how long after a \
                   gateway was killed flows had their next session (median, and the maximum)";
    Table::from_items(caption, &report.summary.cases, &columns)
}

fn packet_table(report: &NatSessionReport) -> Table {
    let columns: [Column<'_, CaseSummary>; 6] = [
        ("case", &|case| case.case.clone()),
        ("sent", &|case| case.sent_packets.to_string()),
        ("divided", &|case| case.divided_packets.to_string()),
        ("lost", &|case| case.lost_packets.to_string()),
        ("from another address", &|case| case.altered_packets.to_string()),
        ("first one waited, ms", &|case| format_spread(case.first_packet_wait_seconds, 1e-3, 2)),
    ];
    let caption = "Packets of all runs: those of flows while they were divided, those that did not reach their host, those that reached it \
                   from another address than their sender's; and how long a flow's first one waited (median, and the maximum)";
    Table::from_items(caption, &report.summary.cases, &columns)
}

fn format_millis(spread: Option<Spread>) -> String {
    format_spread(spread, 1e-3, 0)
}

/// The median, and the maximum where it differs.
fn format_spread(spread: Option<Spread>, unit: f64, decimals: usize) -> String {
    let Some(Spread { median, max, .. }) = spread else { return "–".into() };
    let [median, max] = [median, max].map(|value| format!("{:.decimals$}", value / unit));
    if median == max { median } else { format!("{median} / {max}") }
}
