//! The routers on the way of a direction, for people: a row for each, between which of them marks change, and which paths flows take.

use crate::text::TextGrid;
use kumade_measurement::report::{FarEndMarkReport, HopReport, MarkChangeReport, TracePathReport, TraceReport};
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
    found.extend(paths_sentence(direction, trace));
    found
}

fn sender(direction: Direction) -> &'static str {
    if direction == Direction::Up { "this host" } else { "the far end" }
}

fn receiver(direction: Direction) -> &'static str {
    if direction == Direction::Up { "far end" } else { "host here" }
}

/// `up: 11 flows take 2 paths (ECMP): 6 by hop 2 10.0.0.2; 5 by hop 2 10.0.0.3. …`. None where nobody is known that answered.
fn paths_sentence(direction: Direction, trace: &TraceReport) -> Option<String> {
    let unsteady = hop_names(&trace.unsteady_hops);
    if !unsteady.is_empty() {
        return Some(format!(
            "{direction}: packets of one flow met several routers at {unsteady}: they are spread one by one, the route changed, or a router answers \
             from several addresses. So nothing is said of paths."
        ));
    }
    let spreading = trace.hops.iter().filter(|hop| hop.addresses.len() > 1).map(|hop| hop.hop).collect::<Vec<_>>();
    if trace.paths.len() < 2 && !spreading.is_empty() {
        return Some(format!(
            "{direction}: several routers answered at {}, but too few answers show which flow takes which: routers may limit how often they answer; \
             try again.",
            hop_names(&spreading)
        ));
    }
    let flows: u32 = trace.paths.iter().map(|path| path.flows).sum();
    let (found, other, probability) = match (&trace.paths[..], trace.paths_confidence) {
        ([], _) | (_, None) => {
            let is_any_known = trace.hops.iter().any(|hop| !hop.addresses.is_empty());
            let text = format!("{direction}: it is not known whether flows take several paths.");
            return is_any_known.then(|| text + &unknown_sentence(trace));
        }
        ([_], Some(probability)) if probability < MIN_TOLD_PROBABILITY => {
            return Some(format!(
                "{direction}: a router answered too few of the flows to see whether these take several paths; it may limit how often: try again."
            ));
        }
        ([_], Some(probability)) => {
            ("the same path".to_owned(), "A second one that answers, of half of them,", probability)
        }
        (paths, Some(probability)) => {
            let named: Vec<_> = paths.iter().map(|path| path_name(trace, path)).collect();
            let found = format!("{} paths (ECMP): {}", paths.len(), named.join("; "));
            (found, "One more that answers, of equal share at a hop,", probability)
        }
    };
    let (percent, unknown) = (probability * 100.0, unknown_sentence(trace));
    Some(format!(
        "{direction}: {flows} flows take {found}. {other} would have shown with {percent:.0} % probability.{unknown}"
    ))
}

/// ` Hop 3 answered not all of them, or none: …`. Empty where all are known.
fn unknown_sentence(trace: &TraceReport) -> String {
    let names = hop_names(&trace.unknown_hops);
    let numbers = names.strip_prefix("hop");
    let text = |rest: &str| format!(" Hop{rest} answered not all flows, or none: paths may differ there.");
    numbers.map(text).unwrap_or_default()
}

/// `hop 2`, or `hops 2, 3`; empty for none.
fn hop_names(hops: &[u8]) -> String {
    let numbers: Vec<_> = hops.iter().map(u8::to_string).collect();
    match hops.len() {
        0 => String::new(),
        1 => format!("hop {}", numbers[0]),
        _ => format!("hops {}", numbers.join(", ")),
    }
}

/// `6 by hop 2 10.0.0.2`: the routers at which it differs from others.
fn path_name(trace: &TraceReport, path: &TracePathReport) -> String {
    let differs = |hop: &usize| {
        let known = trace.paths.iter().filter_map(|other| other.addresses.get(*hop)?.as_ref());
        known.collect::<std::collections::BTreeSet<_>>().len() > 1
    };
    let hops = (0..path.addresses.len()).filter(differs);
    let named = hops.filter_map(|hop| Some(format!("hop {} {}", hop + 1, path.addresses[hop].as_ref()?)));
    format!("{} by {}", path.flows, named.collect::<Vec<_>>().join(", "))
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
            paths: Vec::new(),
            paths_confidence: None,
            unsteady_hops: Vec::new(),
            unknown_hops: vec![2, 3],
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
                "up: several routers answered at hop 3, but too few answers show which flow takes which: routers may limit how often they answer; try \
                 again.",
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
        let path = |flows, second: Option<&str>| TracePathReport {
            flows,
            addresses: [Some("10.0.0.1"), second, Some("10.0.0.4")].map(|ip| ip.map(str::to_owned)).to_vec(),
        };
        let single = TraceReport { hops: vec![trace().hops[0].clone()], ..trace() };
        let sentence = |paths: Vec<TracePathReport>, probability, unknown_hops: &[u8]| {
            let (paths_confidence, unknown_hops) = (Some(probability), unknown_hops.to_vec());
            let trace = TraceReport { paths, paths_confidence, unknown_hops, ..single.clone() };
            paths_sentence(Direction::Down, &trace).unwrap()
        };
        let said = sentence(vec![path(1, None)], 0.0, &[]);
        assert!(said.starts_with("down: a router answered too few of the flows"), "{said}");
        assert_eq!(
            sentence(vec![path(6, Some("10.0.0.2"))], 0.9688, &[]),
            "down: 6 flows take the same path. A second one that answers, of half of them, would have shown with 97 % probability."
        );
        assert!(
            sentence(vec![path(6, None)], 0.9688, &[2])
                .ends_with("97 % probability. Hop 2 answered not all flows, or none: paths may differ there.")
        );
        assert_eq!(
            sentence(vec![path(6, Some("10.0.0.2")), path(5, Some("10.0.0.3"))], 0.9688, &[3, 5]),
            "down: 11 flows take 2 paths (ECMP): 6 by hop 2 10.0.0.2; 5 by hop 2 10.0.0.3. One more that answers, of equal share at a hop, would have \
             shown with 97 % probability. Hops 3, 5 answered not all flows, or none: paths may differ there."
        );
        let unknown = TraceReport { unknown_hops: vec![1], ..single.clone() };
        assert_eq!(
            paths_sentence(Direction::Up, &unknown).unwrap(),
            "up: it is not known whether flows take several paths. Hop 1 answered not all flows, or none: paths may differ there."
        );
        assert_eq!(paths_sentence(Direction::Up, &TraceReport { hops: Vec::new(), ..trace() }), None);
    }

    #[test]
    fn nothing_is_said_of_paths_where_packets_of_a_flow_met_several_routers() {
        let said = paths_sentence(Direction::Up, &TraceReport { unsteady_hops: vec![3], ..trace() }).unwrap();
        assert!(said.starts_with("up: packets of one flow met several routers at hop 3: they are spread"), "{said}");
    }
}
