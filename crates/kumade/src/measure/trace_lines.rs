//! The routers on the way up, for people: a row for each, and between which of them marks change.

use crate::text::TextGrid;
use kumade_measurement::report::{FarEndMarkReport, HopReport, MarkChangeReport, TraceReport};
use kumade_units::Span;
use std::collections::BTreeMap;

/// What is answered where all is as it should be.
const TIME_EXCEEDED: &str = "time exceeded";
const NOT_KNOWN: &str = "–";

/// The table.
pub fn grid(trace: &TraceReport) -> TextGrid {
    let mut grid = TextGrid::new(&["address", "round trip", "DSCP there", "ECN there"]);
    grid.push_row("sent", vec![NOT_KNOWN.to_owned(), NOT_KNOWN.to_owned(), trace.dscp.clone(), trace.ecn.clone()]);
    for hop in &trace.hops {
        let cells = vec![address_cell(hop), round_trip_cell(hop), marks_cell(&hop.dscp), marks_cell(&hop.ecn)];
        grid.push_row(&format!("hop {}", hop.hop), cells);
    }
    let FarEndMarkReport { sent, arrived, dscp, ecn } = &trace.far_end;
    let arrival = format!("{arrived} of {sent} arrived");
    grid.push_row("far end", vec![arrival, NOT_KNOWN.to_owned(), marks_cell(dscp), marks_cell(ecn)]);
    grid
}

/// Where marks change, or packets are lost.
pub fn conclusions(trace: &TraceReport) -> Vec<String> {
    let place = |hop: u8| match trace.hops.iter().find(|found| found.hop == hop).and_then(only_address) {
        _ if hop == 0 => "this host".to_owned(),
        Some(address) => format!("hop {hop} ({address})"),
        None => format!("hop {hop}"),
    };
    let sentence = |change: &MarkChangeReport| {
        let MarkChangeReport { field, from, to, after_hop, before_hop } = change;
        let before = before_hop.map_or_else(|| "the far end".to_owned(), place);
        format!("{field} changes from {from} to {to} between {} and {before}.", place(*after_hop))
    };
    let mut found: Vec<_> = trace.changes.iter().map(sentence).collect();
    if trace.far_end.arrived == 0 && trace.far_end.sent > 0 {
        let last = trace.hops.iter().rfind(|hop| hop.answered > 0).map_or(0, |hop| hop.hop);
        let (dscp, ecn) = (&trace.dscp, &trace.ecn);
        let last =
            if last == 0 { "No router answered".to_owned() } else { format!("The last answer is of {}", place(last)) };
        found.push(format!("Packets with {dscp} and {ecn} did not arrive at the far end. {last}."));
    }
    found
}

/// None where several answer, or none.
fn only_address(hop: &HopReport) -> Option<&String> {
    hop.addresses.keys().next().filter(|_| hop.addresses.len() == 1)
}

fn address_cell(hop: &HopReport) -> String {
    if hop.answered == 0 {
        return "no answer".to_owned();
    }
    let addresses = match hop.addresses.is_empty() {
        true => NOT_KNOWN.to_owned(),
        false => hop.addresses.keys().cloned().collect::<Vec<_>>().join(", "),
    };
    let others: Vec<_> = hop.answers.keys().filter(|answer| *answer != TIME_EXCEEDED).cloned().collect();
    if others.is_empty() { addresses } else { format!("{addresses}: {}", others.join(", ")) }
}

fn round_trip_cell(hop: &HopReport) -> String {
    let HopReport { sent, answered, round_trip_seconds, .. } = hop;
    match round_trip_seconds {
        Some(seconds) => format!("{} ({answered} of {sent})", Span::from_secs_f64(*seconds)),
        None => format!("{NOT_KNOWN} (0 of {sent})"),
    }
}

fn marks_cell(counts: &BTreeMap<String, u32>) -> String {
    match counts.len() {
        0 => NOT_KNOWN.to_owned(),
        1 => counts.keys().cloned().collect(),
        _ => counts.iter().map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(names: &[(&str, u32)]) -> BTreeMap<String, u32> {
        names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn trace() -> TraceReport {
        let hop = |hop, answered, address: &[(&str, u32)], answer| HopReport {
            hop,
            sent: 3,
            answered,
            addresses: counts(address),
            round_trip_seconds: (answered > 0).then_some(0.0042),
            answers: counts(&[(answer, answered)]),
            dscp: counts(&[("EF", 2), ("CS0", 1)]),
            ecn: BTreeMap::new(),
        };
        let exceeded = "time exceeded";
        TraceReport {
            dscp: "EF".to_owned(),
            ecn: "ECT(0)".to_owned(),
            hops: vec![
                hop(1, 3, &[("10.0.0.1", 3)], exceeded),
                hop(2, 0, &[], exceeded),
                hop(3, 2, &[("10.0.0.3", 1), ("10.0.0.4", 1)], "administratively prohibited"),
            ],
            far_end: FarEndMarkReport { sent: 4, arrived: 0, dscp: BTreeMap::new(), ecn: BTreeMap::new() },
            changes: vec![MarkChangeReport {
                field: "DSCP".to_owned(),
                from: "EF".to_owned(),
                to: "CS0".to_owned(),
                after_hop: 1,
                before_hop: Some(3),
            }],
        }
    }

    #[test]
    fn routers_and_where_marks_change_are_named() {
        let trace = trace();
        let lines = grid(&trace).wrapped_lines(300, |_, _, text| text);
        let text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
        for expected in [
            "hop 1    10.0.0.1",
            "4.2 ms (3 of 3)",
            "EF (2)",
            "no answer",
            "10.0.0.3, 10.0.0.4: administratively prohibited",
            "0 of 4 arrived",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert_eq!(
            conclusions(&trace),
            [
                "DSCP changes from EF to CS0 between hop 1 (10.0.0.1) and hop 3.",
                "Packets with EF and ECT(0) did not arrive at the far end. The last answer is of hop 3.",
            ]
        );
        let (from, unknown) =
            (MarkChangeReport { after_hop: 0, before_hop: None, ..trace.changes[0].clone() }, Vec::new());
        let shorter = TraceReport { hops: unknown, changes: vec![from], ..trace };
        assert_eq!(conclusions(&shorter)[0], "DSCP changes from EF to CS0 between this host and the far end.");
        assert!(conclusions(&shorter)[1].ends_with("No router answered."));
    }
}
