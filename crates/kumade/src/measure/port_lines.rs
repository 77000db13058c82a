//! Which ports pass, and how long flows may be idle, for people.

use crate::text::TextGrid;
use kumade_measurement::report::{IdleTimeoutReport, IdleTimeoutsReport, PortOutcome, PortsReport};
use kumade_probe_train::PortProtocol;
use std::collections::BTreeMap;

/// A row for each port, or for ports in succession that have the same fate.
pub fn port_grid(found: &PortsReport) -> TextGrid {
    let mut rows: BTreeMap<u16, [String; 2]> = BTreeMap::new();
    for port in &found.ports {
        let place = usize::from(port.protocol == PortProtocol::Tcp);
        rows.entry(port.port).or_default()[place] = port.to_string();
    }
    let mut grouped: Vec<(u16, u16, [String; 2])> = Vec::new();
    for (port, cells) in rows {
        match grouped.last_mut() {
            Some((_, last, same)) if last.checked_add(1) == Some(port) && *same == cells => *last = port,
            _ => grouped.push((port, port, cells)),
        }
    }
    let mut grid = TextGrid::new(&["UDP", "TCP"]);
    for (first, last, cells) in grouped {
        let label = if first == last { format!("port {first}") } else { format!("ports {first}-{last}") };
        grid.push_row(&label, cells.to_vec());
    }
    grid
}

/// What that means where something is to be done.
pub fn port_conclusions(found: &PortsReport) -> Vec<String> {
    let has = |outcome| found.ports.iter().any(|port| port.outcome == outcome);
    let not_allowed = has(PortOutcome::NotAllowed).then(|| {
        "The far end does not allow some of these ports: `kumade serve --ports` there has it listen at them.".to_owned()
    });
    let other = has(PortOutcome::OtherAnswer).then(|| {
        "Where something else answers, a proxy or a login page (captive portal) ends connections on the way.".to_owned()
    });
    let failure = found.failure.as_ref().map(|why| format!("Not all ports were tried: {why}."));
    [not_allowed, other, failure].into_iter().flatten().collect()
}

/// A row for each kind of flow.
pub fn idle_grid(found: &IdleTimeoutsReport) -> TextGrid {
    let mut grid = TextGrid::new(&["forgotten when idle", "then sending from here"]);
    for (label, kind) in [("UDP", found.udp), ("UDP, stream", found.udp_stream), ("TCP", found.tcp)] {
        let timeout = kind.map_or_else(|| "not known".to_owned(), |kind| kind.to_string());
        grid.push_row(label, vec![timeout, kind.map_or_else(|| "–".to_owned(), |kind| resumption_cell(&kind))]);
    }
    grid
}

fn resumption_cell(kind: &IdleTimeoutReport) -> String {
    match (kind.at_most_seconds, kind.resumes_up) {
        (None, _) => "–",
        (_, Some(true)) => "goes on",
        (_, Some(false)) => "does not go on",
        (_, None) => "goes on in some flows",
    }
    .to_owned()
}

/// Why not all of it is known.
pub fn idle_conclusions(found: &IdleTimeoutsReport) -> Option<String> {
    found.failure.as_ref().map(|why| format!("Not all idle times were tried: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_measurement::report::PortReport;

    #[test]
    fn ports_in_succession_with_the_same_fate_are_one_row() {
        let port = |port, protocol, outcome| PortReport {
            port,
            protocol,
            outcome,
            sent: 3,
            arrived: 3,
            answered: 3,
            detail: None,
        };
        let ports = (5060..5070)
            .flat_map(|number| PortProtocol::BOTH.map(|protocol| port(number, protocol, PortOutcome::Passes)))
            .chain([port(7000, PortProtocol::Tcp, PortOutcome::NotAllowed)]);
        let report = PortsReport { ports: ports.collect(), failure: None };
        let lines = port_grid(&report).wrapped_lines(80, |_, _, text| text.to_owned()).join("\n");
        assert!(lines.contains("ports 5060-5069") && lines.contains("port 7000"), "{lines}");
        assert!(port_conclusions(&report)[0].contains("kumade serve --ports"));
    }

    #[test]
    fn an_interval_is_said_with_what_it_is_worth() {
        let found = IdleTimeoutReport {
            longer_than_seconds: Some(28.5),
            at_most_seconds: Some(31.0),
            is_sure: true,
            flows: 24,
            lost_earlier: 0,
            resumes_up: Some(true),
        };
        assert_eq!(found.to_string(), "between 28.5 s and 31 s");
        assert_eq!(resumption_cell(&found), "goes on");
        let open = IdleTimeoutReport { at_most_seconds: None, ..found };
        assert_eq!((open.to_string(), resumption_cell(&open)), ("longer than 28.5 s".to_owned(), "–".to_owned()));
        let alone = IdleTimeoutReport { is_sure: false, longer_than_seconds: None, ..found };
        assert_eq!(alone.to_string(), "shorter than 31 s (not sure: one flow alone)");
    }
}
