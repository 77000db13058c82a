//! The default method on paths of many kinds, over both transports: how far off, how often its interval holds the truth,
//! and how often it is wrong with confidence.
//!
//! The table is a committed snapshot, of paths drawn from seeds that nothing was tuned with. `cargo run -p kumade-sim --example
//! atlas` shows the same of those that may tune.

use estimate::MethodSettings;
use sim::atlas::{DrawnPath, PathKind, Seeds, Summary, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;
use train::Transport;

const PATHS: u32 = 100;

#[test]
fn paths_of_all_kinds_come_to_this() {
    let mut table = format!("{PATHS} paths of each kind; errors in percent of what the path carries\n\n");
    let columns = ["values", "coverage %", "error", "width %", "wrong", "MB", "seconds"];
    let titles: String = columns.iter().map(|title| format!("{title:>11}")).collect();
    writeln!(table, "{:<20}{titles}", "").unwrap();
    let summaries = summaries();
    let all = PathKind::ALL.into_iter().flat_map(|kind| [Transport::Udp, Transport::Rake].map(|t| (kind, t)));
    for (kind, transport) in all.filter(|(kind, transport)| kind.passes(*transport)) {
        let summary = &summaries[&(kind, name(transport))];
        assert_eq!(summary.values + summary.refusals.values().sum::<usize>(), PATHS as usize);
        let cells = [
            format!("{}", summary.values),
            format!("{:.1}", summary.coverage * 100.0),
            format!("{:.2}", summary.error * 100.0),
            format!("{:.1}", summary.median_width * 100.0),
            format!("{}", summary.wrong),
            format!("{:.2}", summary.bytes / 1e6),
            format!("{:.2}", summary.seconds),
        ];
        let row: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        writeln!(table, "{:<20}{row}", format!("{kind} {}", name(transport))).unwrap();
        if let Some(impact) = summary.impact {
            writeln!(table, "    {impact}").unwrap();
        }
        // A proxy is named where there is one only.
        assert!(summary.proxies_named == 0 || kind == PathKind::Proxy, "{kind}: {}", summary.proxies_named);
        if kind == PathKind::Proxy {
            writeln!(table, "    {} name a proxy", summary.proxies_named).unwrap();
        }
        for (cause, count) in &summary.refusals {
            writeln!(table, "    {count} without a value: {cause}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// Of all kinds that pass a transport, over both at once.
fn summaries() -> BTreeMap<(PathKind, &'static str), Summary> {
    let over = |transport| {
        let kinds = PathKind::ALL.into_iter().filter(move |kind| kind.passes(transport));
        kinds.map(move |kind| ((kind, name(transport)), measure(kind, transport))).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let both = [Transport::Udp, Transport::Rake].map(|transport| scope.spawn(move || over(transport)));
        both.into_iter().flat_map(|measured| measured.join().unwrap()).collect()
    })
}

fn measure(kind: PathKind, transport: Transport) -> Summary {
    let verdict = |number| {
        let path = DrawnPath::new(kind, Seeds::Judging.seed(number));
        Verdict::of(&path, &path.measure(transport, &MethodSettings::default()).expect("it can be measured"))
    };
    Summary::of(&(0..PATHS).map(verdict).collect::<Vec<_>>())
}

fn name(transport: Transport) -> &'static str {
    if transport == Transport::Udp { "udp" } else { "rake" }
}
