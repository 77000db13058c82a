//! The routers on the way of a direction, for people: a row for each, between which of them marks change, and which paths flows take.

use crate::text::TextGrid;
use kumade_measurement::report::{FarEndMarkReport, HopReport, MarkChangeReport, TraceMemberReport, TraceReport};
use kumade_units::{Direction, Span};
use std::collections::BTreeMap;

/// What is answered where all is as it should be.
const TIME_EXCEEDED: &str = "time exceeded";
const NOT_KNOWN: &str = "–";
/// That a second path would have shown is not worth a word where it is no more probable than this.
const MIN_TOLD_PROBABILITY: f64 = 0.5;

/// What stands above the table.
pub fn heading(direction: Direction, trace: &TraceReport) -> String {
    format!("Routers on the way {direction}, by {}:", trace.protocol)
}

/// The table.
pub fn grid(direction: Direction, trace: &TraceReport) -> TextGrid {
    let mut grid = TextGrid::new(&["address", "round trip", "DSCP there", "ECN there"]);
    grid.push_row("sent", vec![NOT_KNOWN.to_owned(), NOT_KNOWN.to_owned(), trace.dscp.clone(), trace.ecn.clone()]);
    for hop in &trace.hops {
        let cells = vec![address_cell(hop), round_trip_cell(hop), marks_cell(&hop.dscp), marks_cell(&hop.ecn)];
        grid.push_row(&format!("hop {}", hop.hop), cells);
    }
    if let Some(FarEndMarkReport { sent, arrived, dscp, ecn }) = &trace.far_end {
        let arrival = format!("{arrived} of {sent} arrived");
        grid.push_row(receiver(direction), vec![arrival, NOT_KNOWN.to_owned(), marks_cell(dscp), marks_cell(ecn)]);
    }
    grid
}

/// Where marks change, or packets are lost, and which paths flows take.
pub fn conclusions(direction: Direction, trace: &TraceReport) -> Vec<String> {
    let place = |hop: u8| match trace.hops.iter().find(|found| found.hop == hop).and_then(only_address) {
        _ if hop == 0 => sender(direction).to_owned(),
        Some(address) => format!("hop {hop} ({address})"),
        None => format!("hop {hop}"),
    };
    let sentence = |change: &MarkChangeReport| {
        let MarkChangeReport { field, from, to, after_hop, before_hop } = change;
        let before = before_hop.map_or_else(|| format!("the {}", receiver(direction)), place);
        format!("{direction}: {field} changes from {from} to {to} between {} and {before}.", place(*after_hop))
    };
    let mut found: Vec<_> = trace.changes.iter().map(sentence).collect();
    if let Some(FarEndMarkReport { sent: 1.., arrived: 0, .. }) = &trace.far_end {
        let last = trace.hops.iter().rfind(|hop| hop.answered > 0).map_or(0, |hop| hop.hop);
        let (dscp, ecn) = (&trace.dscp, &trace.ecn);
        let last =
            if last == 0 { "No router answered".to_owned() } else { format!("The last answer is of {}", place(last)) };
        let receiver = receiver(direction);
        found.push(format!("{direction}: packets with {dscp} and {ecn} did not arrive at the {receiver}. {last}."));
    }
    found.extend(members_sentence(direction, trace));
    found
}

fn sender(direction: Direction) -> &'static str {
    if direction == Direction::Up { "this host" } else { "the far end" }
}

fn receiver(direction: Direction) -> &'static str {
    if direction == Direction::Up { "far end" } else { "host here" }
}

/// `up: 11 flows take 2 paths (ECMP): 6 by hop 2 10.0.0.2; 5 by hop 2 10.0.0.3. …`. None where nobody answered.
fn members_sentence(direction: Direction, trace: &TraceReport) -> Option<String> {
    let flows: u32 = trace.members.iter().map(|member| member.flows).sum();
    let probability = trace.members_confidence?;
    let confidence = format!("{:.0} %", probability * 100.0);
    if let [_] = &trace.members[..] {
        if probability < MIN_TOLD_PROBABILITY {
            return Some(format!(
                "{direction}: a router answered too few of the flows to see whether these take several paths; it may limit how often: try again."
            ));
        }
        return Some(format!(
            "{direction}: {flows} flows take the same path. A second one, of half of them, would have shown with {confidence} probability."
        ));
    }
    let path = |member: &TraceMemberReport| {
        let differs = |hop: &usize| {
            let known = trace.members.iter().filter_map(|other| other.addresses.get(*hop)?.as_ref());
            known.collect::<std::collections::BTreeSet<_>>().len() > 1
        };
        let hops = (0..member.addresses.len()).filter(differs);
        let named = hops.filter_map(|hop| Some(format!("hop {} {}", hop + 1, member.addresses[hop].as_ref()?)));
        format!("{} by {}", member.flows, named.collect::<Vec<_>>().join(", "))
    };
    let paths: Vec<_> = trace.members.iter().map(path).collect();
    Some(format!(
        "{direction}: {flows} flows take {} paths (ECMP): {}. One more of equal share at a hop would have shown with {confidence} probability.",
        paths.len(),
        paths.join("; ")
    ))
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
    use kumade_probe_train::PortProtocol;

    fn counts(names: &[(&str, u32)]) -> BTreeMap<String, u32> {
        names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn trace() -> TraceReport {
        let hop = |hop, answered, address: &[(&str, u32)], answer| HopReport {
            hop,
            sent: 3,
            answered,
            flows_answered: answered,
            addresses: counts(address),
            round_trip_seconds: (answered > 0).then_some(0.0042),
            answers: counts(&[(answer, answered)]),
            dscp: counts(&[("EF", 2), ("CS0", 1)]),
            ecn: BTreeMap::new(),
        };
        let exceeded = "time exceeded";
        TraceReport {
            protocol: PortProtocol::Udp,
            dscp: "EF".to_owned(),
            ecn: "ECT(0)".to_owned(),
            members: Vec::new(),
            members_confidence: None,
            hops: vec![
                hop(1, 3, &[("10.0.0.1", 3)], exceeded),
                hop(2, 0, &[], exceeded),
                hop(3, 2, &[("10.0.0.3", 1), ("10.0.0.4", 1)], "administratively prohibited"),
            ],
            far_end: Some(FarEndMarkReport { sent: 4, arrived: 0, dscp: BTreeMap::new(), ecn: BTreeMap::new() }),
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
        assert_eq!(heading(Direction::Up, &trace), "Routers on the way up, by UDP:");
        let lines = grid(Direction::Up, &trace).wrapped_lines(300, |_, _, text| text);
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
            conclusions(Direction::Up, &trace),
            [
                "up: DSCP changes from EF to CS0 between hop 1 (10.0.0.1) and hop 3.",
                "up: packets with EF and ECT(0) did not arrive at the far end. The last answer is of hop 3.",
            ]
        );
        let (from, unknown) =
            (MarkChangeReport { after_hop: 0, before_hop: None, ..trace.changes[0].clone() }, Vec::new());
        let shorter = TraceReport { hops: unknown, changes: vec![from], ..trace };
        assert_eq!(
            conclusions(Direction::Up, &shorter)[0],
            "up: DSCP changes from EF to CS0 between this host and the far end."
        );
        assert!(conclusions(Direction::Up, &shorter)[1].ends_with("No router answered."));
    }

    #[test]
    fn paths_are_told_apart_by_the_routers_at_which_they_differ() {
        let member = |flows, second: Option<&str>| TraceMemberReport {
            flows,
            addresses: [Some("10.0.0.1"), second, Some("10.0.0.4")].map(|ip| ip.map(str::to_owned)).to_vec(),
        };
        let unsure = TraceReport { members: vec![member(1, None)], members_confidence: Some(0.0), ..trace() };
        let said = members_sentence(Direction::Up, &unsure).unwrap();
        assert!(said.starts_with("up: a router answered too few of the flows"), "{said}");
        let sentence = |members: Vec<TraceMemberReport>| {
            members_sentence(Direction::Down, &TraceReport { members, members_confidence: Some(0.9688), ..trace() })
                .unwrap()
        };
        assert_eq!(
            sentence(vec![member(6, Some("10.0.0.2"))]),
            "down: 6 flows take the same path. A second one, of half of them, would have shown with 97 % probability."
        );
        assert_eq!(
            sentence(vec![member(6, Some("10.0.0.2")), member(5, Some("10.0.0.3"))]),
            "down: 11 flows take 2 paths (ECMP): 6 by hop 2 10.0.0.2; 5 by hop 2 10.0.0.3. One more of equal share at a hop would have shown with \
             97 % probability."
        );
        assert_eq!(members_sentence(Direction::Up, &trace()), None);
    }
}
