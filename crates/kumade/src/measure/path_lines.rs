//! What the path does to packets, for people: a row for each figure, with both directions side by side.

use super::marking_cells::{lasting_queue_cell, marking_cell, marking_text};
use super::queue_class_cells::{class_texts, queues_cell};
use crate::text::TextGrid;
use kumade_measurement::report::{
    AddressReport, EcnRequest, HopLimitReport, MarkReport, MtuReport, PathDirectionReport, PathReport, SynReport,
    TcpPathReport, Treatment,
};
use kumade_units::Direction;

/// More marks than this with a fate of their own are not listed.
const MAX_LISTED_MARKS: usize = 4;
const NOT_KNOWN: &str = "–";

/// The table.
pub fn grid(path: &PathReport) -> TextGrid {
    let mut grid = TextGrid::new(&["up", "down"]);
    let mut row = |label: &str, cell: &dyn Fn(&PathDirectionReport) -> String| {
        grid.push_row(label, vec![cell(&path.up), cell(&path.down)]);
    };
    row("routers", &|found| found.hop_limit.map_or_else(dash, hop_limit_cell));
    row("UDP MTU", &|found| found.mtu.map_or_else(dash, mtu_cell));
    if path.ecn_readiness.is_some() {
        row("ECN", &|found| found.ecn.as_deref().map_or_else(dash, marks_cell));
        row("DSCP", &dscp_cell);
    }
    if [&path.up, &path.down].iter().any(|found| found.queue_marking.is_some()) {
        row("CE by a queue", &|found| found.queue_marking.as_ref().map_or_else(dash, marking_cell));
    }
    if [&path.up, &path.down].iter().any(|found| found.lasting_queue.is_some()) {
        row("CE by a lasting queue", &|found| found.lasting_queue.as_ref().map_or_else(dash, lasting_queue_cell));
    }
    if [&path.up, &path.down].iter().any(|found| found.queue_classes.is_some()) {
        row("queues", &|found| found.queue_classes.as_ref().map_or_else(dash, queues_cell));
    }
    if let Some(tcp) = &path.tcp {
        let [near, far] = tcp_cells(tcp);
        grid.push_row("TCP", vec![near, far]);
        if !tcp.syn_probes.is_empty() {
            let found = tcp.syn_probes.iter().map(|probe| format!("{} {}", probe.carried, probe.outcome));
            grid.push_row("TCP, SYN with", vec![found.collect::<Vec<_>>().join("; "), dash()]);
        }
    }
    let address = [("UDP address", path.udp_address), ("TCP address", path.tcp_address)];
    for (label, found) in address {
        if let Some(found) = found {
            grid.push_row(label, vec![address_cell(&found), far_end_cell(&found)]);
        }
    }
    grid
}

/// What became of each mark, for who wants all details.
pub fn mark_texts(path: &PathReport) -> Vec<String> {
    let directions = [(Direction::Up, &path.up), (Direction::Down, &path.down)];
    let kinds = directions.into_iter().flat_map(|(direction, found)| {
        [("ECN", &found.ecn), ("DSCP", &found.dscp)].map(|(kind, marks)| (direction, kind, marks.as_deref()))
    });
    let text = |(direction, kind, marks): (Direction, &str, Option<&[MarkReport]>)| {
        let listed: Vec<_> = marks?.iter().map(ToString::to_string).collect();
        Some(format!("{direction}: {kind}: {}", listed.join("; ")))
    };
    let queues = directions.into_iter().flat_map(|(direction, found)| {
        let marking = found.queue_marking.iter().map(|found| ("CE by a queue", marking_text(found)));
        let classes = found.queue_classes.iter().map(|found| ("queues", class_texts(found)));
        let texts: Vec<_> = marking.chain(classes).collect();
        texts.into_iter().map(move |(what, text)| format!("{direction}: {what}: {text}"))
    });
    kinds.filter_map(text).chain(queues).collect()
}

fn dash() -> String {
    NOT_KNOWN.to_owned()
}

fn hop_limit_cell(found: HopLimitReport) -> String {
    let HopLimitReport { sent, arrived, routers } = found;
    match sent {
        Some(sent) => format!("{routers} (hop limit {sent} → {arrived})"),
        None => format!("{routers} (hop limit {arrived} arrives)"),
    }
}

fn mtu_cell(found: MtuReport) -> String {
    let MtuReport { passed_bytes, lost_bytes, has_icmp } = found;
    let why = match has_icmp {
        None => "",
        Some(true) => ", by ICMP",
        Some(false) => ", without ICMP: a black hole",
    };
    match lost_bytes {
        None => format!("≥ {passed_bytes} bytes"),
        Some(lost) => format!("{passed_bytes} bytes ({lost} is lost{why})"),
    }
}

/// Those that are not kept; how many packets of a mark arrived where all are.
fn marks_cell(marks: &[MarkReport]) -> String {
    let changed: Vec<_> = marks.iter().filter(|mark| mark.treatment != Treatment::Kept).collect();
    if changed.is_empty() {
        let Some(most_lost) = marks.iter().max_by_key(|mark| mark.sent - mark.kept().min(mark.sent)) else {
            return dash();
        };
        let fewest_sent = marks.iter().map(|mark| mark.sent).min().unwrap_or(0);
        return match (most_lost.kept(), most_lost.sent) {
            (kept, sent) if kept == sent => format!("all kept ({fewest_sent} of {fewest_sent} of each)"),
            (kept, sent) => format!("all kept ({kept} of {sent} at least)"),
        };
    }
    let listed: Vec<_> = changed.iter().take(MAX_LISTED_MARKS).map(ToString::to_string).collect();
    let rest = match changed.len() - listed.len() {
        0 => String::new(),
        rest => format!("; and {rest} more"),
    };
    format!("{}{rest}", listed.join("; "))
}

fn dscp_cell(found: &PathDirectionReport) -> String {
    let Some(marks) = &found.dscp else { return dash() };
    match found.dscp_pattern {
        Some(pattern) if marks.iter().filter(|mark| mark.treatment != Treatment::Kept).count() > MAX_LISTED_MARKS => {
            format!("{pattern} (by {} DSCPs)", marks.len())
        }
        _ => marks_cell(marks),
    }
}

/// Of the SYN, and of the SYN-ACK.
fn tcp_cells(tcp: &TcpPathReport) -> [String; 2] {
    let syn_ack = match (tcp.syn_ack_mss.is_clamped, tcp.syn_ack_mss.arrived) {
        (Some(true), Some(arrived)) => format!("MSS clamped, {} → {arrived}", tcp.syn_ack_mss.sent),
        (Some(false), _) => format!("MSS {} kept", tcp.syn_ack_mss.sent),
        _ => format!("MSS {} sent", tcp.syn_ack_mss.sent),
    };
    let ecn = if tcp.has_ecn { "ECN negotiated" } else { "no ECN negotiated" };
    [tcp.syn.as_ref().map_or_else(dash, syn_cell), format!("{syn_ack}; {ecn}")]
}

fn syn_cell(syn: &SynReport) -> String {
    let mut parts = Vec::new();
    match (syn.mss.is_clamped, syn.mss.arrived) {
        (Some(true), Some(arrived)) => parts.push(format!("MSS clamped, {} → {arrived}", syn.mss.sent)),
        (Some(false), Some(arrived)) => parts.push(format!("MSS {arrived} kept")),
        _ => parts.push("MSS removed".to_owned()),
    }
    let listed = |what: &str, options: &Option<Vec<String>>| match options.as_deref() {
        None | Some([]) => None,
        Some(options) => Some(format!("{what}: {}", options.join(", "))),
    };
    let changes = [listed("removed", &syn.options_removed), listed("added", &syn.options_added)];
    if changes == [None, None] && syn.options_removed.is_some() {
        parts.push("options kept".to_owned());
    }
    parts.extend(changes.into_iter().flatten());
    match (syn.ecn_sent, syn.ecn_arrived) {
        (Some(EcnRequest::None) | None, EcnRequest::None) => {}
        (sent, arrived) if sent == Some(arrived) => parts.push("ECN request kept".to_owned()),
        _ => parts.push("ECN request changed".to_owned()),
    }
    parts.join("; ")
}

/// Of this host.
fn address_cell(found: &AddressReport) -> String {
    let port = if found.is_port_preserved { "port kept" } else { "port changed" };
    let mapping = found.mapping.map_or_else(String::new, |mapping| format!("; mapping: {mapping}"));
    let filtering = found.filtering.map_or_else(String::new, |filtering| format!("; filtering: {filtering}"));
    let translation = match found.is_translated {
        true => format!("{} → {} (NAT, {port}{mapping})", found.local, found.seen),
        false if found.is_port_preserved => "not translated".to_owned(),
        false => format!("{} → {} (port changed{mapping})", found.local, found.seen),
    };
    format!("{translation}{filtering}")
}

/// Of the far end.
fn far_end_cell(found: &AddressReport) -> String {
    match found.is_far_end_translated {
        None => dash(),
        Some(true) => "the far end's is translated".to_owned(),
        Some(false) => "not translated".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_measurement::report::DscpPattern;

    fn mark(name: &str, arrived_as: &[(&str, u32)], treatment: Treatment) -> MarkReport {
        let arrived_as = arrived_as.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        MarkReport { mark: name.to_owned(), value: 0, sent: 12, arrived_as, treatment }
    }

    #[test]
    fn what_is_not_kept_is_listed_and_what_all_have_in_common_is_said_once() {
        let kept = mark("ECT(0)", &[("ECT(0)", 11)], Treatment::Kept);
        let dropped = mark("ECT(1)", &[], Treatment::Dropped);
        let bleached = mark("CE", &[("Not-ECT", 12)], Treatment::Bleached);
        assert_eq!(marks_cell(std::slice::from_ref(&kept)), "all kept (11 of 12 at least)");
        assert_eq!(
            marks_cell(&[kept.clone(), dropped, bleached.clone()]),
            "ECT(1): dropped (0 of 12 arrived); CE: bleached to Not-ECT (12 of 12)"
        );
        let many = PathDirectionReport {
            dscp: Some(vec![bleached; 9]),
            dscp_pattern: Some(DscpPattern::AllBleached),
            ..PathDirectionReport::default()
        };
        assert_eq!(dscp_cell(&many), "all bleached (by 9 DSCPs)");
        let path = PathReport {
            ecn_readiness: None,
            up: PathDirectionReport { ecn: Some(vec![kept]), ..PathDirectionReport::default() },
            down: PathDirectionReport::default(),
            tcp: None,
            udp_address: None,
            tcp_address: None,
            ports: None,
            idle_timeouts: None,
            not_known: Vec::new(),
        };
        assert_eq!(mark_texts(&path), ["up: ECN: ECT(0): kept (11 of 12)"]);
    }

    #[test]
    fn a_black_hole_is_called_one() {
        let mtu = |lost_bytes, has_icmp| mtu_cell(MtuReport { passed_bytes: 1492, lost_bytes, has_icmp });
        assert_eq!(mtu(None, None), "≥ 1492 bytes");
        assert_eq!(mtu(Some(1500), Some(true)), "1492 bytes (1500 is lost, by ICMP)");
        assert_eq!(mtu(Some(1500), Some(false)), "1492 bytes (1500 is lost, without ICMP: a black hole)");
    }
}
