//! The tables of a report on NAT sessions, the same for terminal and HTML.

use super::document::NatSessionReport;
use crate::nat_session::summary::{CaseSummary, Spread};
use crate::report::Table;

/// A line for each case in each: the steps of the paper's Fig. 3, what became of sessions, and of packets.
pub(super) fn all(report: &NatSessionReport) -> Vec<Table> {
    vec![steps(report), sessions(report), packets(report)]
}

/// One column: its heading, and what stands there.
type Column<'a> = (&'a str, &'a dyn Fn(&CaseSummary) -> String);

fn lines(report: &NatSessionReport, caption: &str, columns: &[Column<'_>]) -> Table {
    let of = |case: &CaseSummary| {
        std::iter::once(case.case.clone()).chain(columns.iter().map(|(_, cell)| cell(case))).collect()
    };
    let names = ["case"].into_iter().chain(columns.iter().map(|(name, _)| *name));
    Table {
        caption: caption.to_owned(),
        columns: names.map(str::to_owned).collect(),
        rows: report.summary.cases.iter().map(of).collect(),
    }
}

fn steps(report: &NatSessionReport) -> Table {
    let columns: [Column<'_>; 6] = [
        ("3: NAT sent, ms", &|case| millis(case.asked_seconds)),
        ("4: rule there, ms", &|case| millis(case.granted_seconds)),
        ("6: divided, ms", &|case| millis(case.opened_seconds)),
        ("7: FIN, idle times", &|case| shown(case.idle_ratio, 1.0, 2)),
        ("8: rule removed, ms", &|case| millis(case.removed_seconds)),
        ("10: ended, ms", &|case| millis(case.forgotten_seconds)),
    ];
    let caption = "The steps of the paper's Fig. 3, by its numbers: 3, 4 and 6 since the flow's first packet, 7 since its last one, 8 \
                   and 10 since 7; median of all flows, and the maximum";
    lines(report, caption, &columns)
}

fn sessions(report: &NatSessionReport) -> Table {
    let columns: [Column<'_>; 7] = [
        ("flows", &|case| case.flows.to_string()),
        ("sessions", &|case| case.sessions.to_string()),
        ("opened", &|case| case.opened.to_string()),
        ("idle", &|case| case.idle.to_string()),
        ("gateway lost", &|case| case.lost.to_string()),
        ("requests, most", &|case| case.max_requests.to_string()),
        ("new one after kill, ms", &|case| millis(case.recovered_seconds)),
    ];
    let caption = "Sessions of all runs: how many were opened, how they ended, how often one was asked for, and how long after a \
                   gateway was killed flows had their next session (median, and the maximum)";
    lines(report, caption, &columns)
}

fn packets(report: &NatSessionReport) -> Table {
    let columns: [Column<'_>; 5] = [
        ("sent", &|case| case.sent_packets.to_string()),
        ("divided", &|case| case.divided_packets.to_string()),
        ("lost", &|case| case.lost_packets.to_string()),
        ("from another address", &|case| case.altered_packets.to_string()),
        ("first one waited, ms", &|case| shown(case.first_packet_wait_seconds, 1e-3, 2)),
    ];
    let caption = "Packets of all runs: those of flows while they were divided, those that did not reach their host, those that reached it \
                   from another address than their sender's; and how long a flow's first one waited (median, and the maximum)";
    lines(report, caption, &columns)
}

fn millis(spread: Option<Spread>) -> String {
    shown(spread, 1e-3, 0)
}

/// The median, and the maximum where it differs.
fn shown(spread: Option<Spread>, unit: f64, decimals: usize) -> String {
    let Some(Spread { median, max, .. }) = spread else { return "–".into() };
    let [median, max] = [median, max].map(|value| format!("{:.decimals$}", value / unit));
    if median == max { median } else { format!("{median} / {max}") }
}
