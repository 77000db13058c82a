//! The section on the path, put together.

use super::facts::{PathFacts, UdpFacts};
use super::hop_limit::hop_limit_report;
use super::lasting_queue::LastingQueueProbe;
use super::marking::MarkingProbe;
use super::marks::MarkProbe;
use super::queue_classes::QueueClassProbe;
use super::trace::TraceProbe;
use super::{dscp, ecn, mapping, nat, tcp};
use crate::report::{HopLimitReport, IdleTimeoutsReport, MtuReport, PathDirectionReport, PathReport, PortsReport};
use kumade_probe_train::PortProtocol;
use kumade_units::Direction;

/// What the trains have shown.
#[derive(Debug, Default)]
pub(crate) struct PathObservation<'m> {
    /// Marked packets up and down; none where there were none.
    pub(crate) marks: Option<[&'m MarkProbe; 2]>,
    /// Why there were none though they were asked for, or not all of them.
    pub(crate) no_marks: Option<String>,
    /// What the routers have answered, up and down.
    pub(crate) traces: [Option<&'m TraceProbe>; 2],
    /// Why they were not asked though they were to be.
    pub(crate) no_trace: &'m [String],
    /// The queue of the narrow link, up and down, where it was looked at.
    pub(crate) queue_marking: [Option<&'m MarkingProbe>; 2],
    /// What it does to packets that wait for long, likewise.
    pub(crate) lasting_queues: [Option<&'m LastingQueueProbe>; 2],
    /// Its queues by codepoint, likewise.
    pub(crate) queue_classes: [Option<&'m QueueClassProbe>; 2],
    /// Why it was not though it was to be.
    pub(crate) no_queues: &'m [String],
    /// Ports that were tried.
    pub(crate) ports: Option<PortsReport>,
    /// Flows that were idle.
    pub(crate) idle_timeouts: Option<IdleTimeoutsReport>,
    /// The largest packet that passed up and down, and the smallest that did not, in bytes.
    pub(crate) sizes: [Option<(u32, Option<u32>)>; 2],
}

/// The section; none where there is nothing to say.
pub(crate) fn report_path(facts: &PathFacts, observed: &PathObservation<'_>) -> Option<PathReport> {
    let mut not_known = Vec::new();
    if let Some([theirs, needed]) = facts.old_far_end {
        not_known.push(format!(
            "how packets arrive at the far end: it speaks version {theirs} of the protocol, and says that from version {needed} on"
        ));
    }
    not_known.extend(observed.no_marks.clone());
    not_known.extend(observed.no_queues.iter().cloned());
    not_known.extend(observed.no_trace.iter().cloned());
    not_known.extend(observed.traces.into_iter().flatten().filter_map(TraceProbe::missing_quotes));
    let tcp = facts.tcp.as_ref().map(|tcp| tcp::report_tcp(tcp, &facts.syn_probes));
    if let Some((_, missing)) = &tcp {
        not_known.extend(missing.iter().cloned());
    }
    let tcp = tcp.map(|(report, _)| report);
    let [up, down] = Direction::BOTH.map(|direction| report_direction(direction, facts.udp.as_ref(), observed));
    let is_asked_for = observed.marks.is_some() || observed.no_marks.is_some();
    let readiness = is_asked_for.then(|| ecn::readiness([up.ecn.as_deref(), down.ecn.as_deref()], tcp.as_ref()));
    let is_kept = facts.tcp.as_ref().map(|tcp| tcp.is_destination_kept);
    if let Some([theirs, needed]) = facts.no_mappings {
        not_known.push(format!(
            "the kind of address translation: the far end speaks version {theirs} of the protocol, and opens a second port from version \
             {needed} on"
        ));
    }
    not_known.extend(facts.mappings.iter().filter_map(|facts| mapping::mapping(facts).1));
    let mapping_of = |protocol| facts.mappings.iter().find(|facts| facts.protocol == protocol);
    let (udp_mapping, tcp_mapping) = (mapping_of(PortProtocol::Udp), mapping_of(PortProtocol::Tcp));
    let report = PathReport {
        ecn_readiness: readiness,
        up,
        down,
        tcp,
        udp_address: facts.udp.map(|udp| nat::report_address(udp.local, udp.seen, None, udp_mapping)),
        tcp_address: facts.tcp.as_ref().map(|tcp| nat::report_address(tcp.local, tcp.seen, is_kept, tcp_mapping)),
        ports: observed.ports.clone(),
        idle_timeouts: observed.idle_timeouts.clone(),
        not_known,
    };
    let has_section = is_asked_for || observed.ports.is_some() || observed.idle_timeouts.is_some();
    let is_empty = *facts == PathFacts::default() && !has_section && observed.sizes == [None, None];
    (!is_empty).then_some(report)
}

/// Routers on the way, as far as the hop limits of packets of UDP tell, or those of the control connection's SYN, which goes up.
pub(crate) fn routers_towards(
    direction: Direction,
    protocol: PortProtocol,
    facts: &PathFacts,
    marks: Option<&MarkProbe>,
) -> Option<u8> {
    let found = match protocol {
        PortProtocol::Udp => arrived_hop_limits(direction, facts.udp.as_ref(), marks),
        PortProtocol::Tcp => facts.tcp.as_ref().and_then(tcp::syn_hop_limit),
    };
    found.map(|found| found.routers)
}

fn arrived_hop_limits(
    direction: Direction,
    udp: Option<&UdpFacts>,
    marks: Option<&MarkProbe>,
) -> Option<HopLimitReport> {
    let [sent, arrived] = udp.map(|udp| [udp.up_hop_limits, udp.down_hop_limits][direction as usize])?;
    hop_limit_report([sent, arrived.or_else(|| marks.and_then(MarkProbe::arrived_hop_limit))])
}

fn report_direction(
    direction: Direction,
    udp: Option<&UdpFacts>,
    observed: &PathObservation<'_>,
) -> PathDirectionReport {
    let place = direction as usize;
    let marks = observed.marks.map(|marks| marks[place]).filter(|marks| marks.has_arrivals());
    let sender_mtu = udp.and_then(|udp| [udp.near_path_mtu, udp.far_path_mtu][place]);
    let dscp = marks.map(MarkProbe::dscp_reports);
    PathDirectionReport {
        hop_limit: arrived_hop_limits(direction, udp, marks),
        mtu: observed.sizes[place].map(|(passed, lost)| MtuReport {
            passed_bytes: passed,
            lost_bytes: lost,
            has_icmp: lost.zip(sender_mtu).map(|(lost, known)| known < lost),
        }),
        ecn: marks.map(MarkProbe::ecn_reports),
        dscp_pattern: dscp.as_deref().and_then(dscp::pattern),
        dscp,
        queue_marking: observed.queue_marking[place].and_then(MarkingProbe::report),
        lasting_queue: observed.lasting_queues[place].and_then(LastingQueueProbe::report),
        queue_classes: observed.queue_classes[place].and_then(QueueClassProbe::report),
        trace: observed.traces[place].and_then(TraceProbe::report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_where_there_is_nothing_to_say() {
        assert_eq!(report_path(&PathFacts::default(), &PathObservation::default()), None);
        let old = PathFacts { old_far_end: Some([6, 7]), ..PathFacts::default() };
        let report = report_path(&old, &PathObservation::default()).unwrap();
        assert!(report.not_known[0].contains("version 6"), "{report:?}");
    }
}
