use super::access_path;
use super::row::{DropCounts, FairnessObservation, FairnessRow};
use super::scenario::{ConnectionGroup, FairnessCase, FairnessExperiment, FairnessPoint, START_WINDOW};
use crate::delay_quantiles::DelayQuantiles;
use crate::error::RunError;
use kumade_link::{CrossConfig, LinkConfig};
use kumade_sim::network::{FlowConfig, FlowId, LinkId, Network, SojournHistogram, TcpConfig, TrafficSource};
use kumade_units::{Span, Time};

/// Connections start within so long, at times drawn from the seed, where their start is part of what is measured.
const SYNCHRONIZED_START_WINDOW: Span = Span::from_millis(100);
/// Random delay of packets, as a fraction of a packet's transmission time at the bottleneck. With one or less, senders
/// synchronise with a full queue at some round-trip times; from two on, bursts are torn apart at short round-trip times.
/// In between, each congestion control gets the same share under tail drop as in the kernel, within a few percent, at
/// every delay.
const PACKET_JITTER: (u64, u64) = (6, 5);
/// IP and TCP headers with time stamps.
const HEADER_BYTES: u32 = 52;

/// One run in virtual time.
///
/// # Errors
/// Where the simulator refuses a setting.
pub(super) fn run(experiment: &FairnessExperiment, point: &FairnessPoint<'_>) -> Result<FairnessRow, RunError> {
    let mut built = build_network(experiment, point).map_err(RunError::during("make the virtual network"))?;
    let begin = Time::ZERO + opening_time(experiment) + experiment.warm_up;
    built.network.run_until(begin);
    let before = built.take_snapshot();
    built.network.run_until(begin + experiment.duration);
    let after = built.take_snapshot();
    let delivered = after.delivered_bytes.iter().zip(&before.delivered_bytes).map(|(after, before)| after - before);
    let sojourn = after.sojourn.since(&before.sojourn);
    let observed = FairnessObservation {
        delivered_bytes: delivered.collect(),
        duration: experiment.duration,
        forwarded_bytes: after.forwarded_bytes - before.forwarded_bytes,
        queueing: DelayQuantiles::from_quantiles(sojourn.count(), |part| sojourn.quantile(part)),
        group_queueing: after.group_queueing.iter().zip(&before.group_queueing).map(group_delays).collect(),
        drops: after.drops.difference_since(before.drops),
        lateness_p99: None,
    };
    Ok(FairnessRow::new(point, &observed))
}

/// Mean and 99th percentile of a group's queueing delay between two looks; none without packets.
fn group_delays((after, before): (&SojournHistogram, &SojournHistogram)) -> Option<(f64, f64)> {
    let delays = after.since(before);
    (delays.count() > 0).then(|| (delays.mean().as_secs_f64(), delays.quantile(0.99).as_secs_f64()))
}

/// The time within which all connections start, before they warm up.
fn opening_time(experiment: &FairnessExperiment) -> Span {
    if experiment.warm_up > Span::ZERO { START_WINDOW } else { Span::ZERO }
}

struct BuiltNetwork {
    network: Network,
    bottleneck: LinkId,
    connections: Vec<FlowId>,
    /// The group of each connection.
    groups: Vec<usize>,
}

/// The counters of a network at one time.
struct CounterSnapshot {
    delivered_bytes: Vec<u64>,
    forwarded_bytes: u64,
    sojourn: SojournHistogram,
    /// The same of each group alone.
    group_queueing: Vec<SojournHistogram>,
    drops: DropCounts,
}

impl BuiltNetwork {
    fn take_snapshot(&self) -> CounterSnapshot {
        let ledger = self.network.ledger(self.bottleneck);
        CounterSnapshot {
            delivered_bytes: self.connections.iter().map(|flow| self.network.flow(*flow).goodput_bytes).collect(),
            forwarded_bytes: ledger.packet_counters().forwarded.bytes,
            sojourn: self.network.sojourn(self.bottleneck).clone(),
            group_queueing: self.group_queueing(),
            drops: DropCounts::from_counters(ledger.packet_counters()),
        }
    }

    fn group_queueing(&self) -> Vec<SojournHistogram> {
        let mut groups = Vec::new();
        for (flow, group) in self.connections.iter().zip(&self.groups) {
            groups.resize_with(groups.len().max(group + 1), SojournHistogram::default);
            self.network.flow_queueing(*flow).into_iter().for_each(|own| groups[*group].add(own));
        }
        groups
    }
}

fn build_network(experiment: &FairnessExperiment, point: &FairnessPoint<'_>) -> anyhow::Result<BuiltNetwork> {
    let case = point.case;
    let mut network = Network::new(point.seed());
    let link = LinkConfig { rate: Some(case.rate), delay: case.delay, ..LinkConfig::default() };
    let bottleneck = network.add_link(link, Some(point.queue.clone()))?;
    let routes = case.groups.iter().map(|group| add_hops(&mut network, group)).collect::<Result<Vec<_>, _>>()?;
    let (mut connections, mut groups) = (Vec::new(), Vec::new());
    for (index, group) in case.numbered_connections() {
        let route = &routes[index];
        let config = flow_config(
            experiment,
            case,
            group,
            [&route.forward_links, &[bottleneck][..]].concat(),
            route.reverse_links.clone(),
        );
        let config = FlowConfig { record_queueing: Some(bottleneck), ..config };
        connections.push(network.add_flow(config)?);
        groups.push(index);
    }
    // After the connections, since their numbers are their labels.
    for (hop, cross) in routes.iter().flat_map(|route| &route.background) {
        network.add_flow(FlowConfig::new(vec![*hop], TrafficSource::Udp(cross.clone())))?;
    }
    Ok(BuiltNetwork { network, bottleneck, connections, groups })
}

fn flow_config(
    experiment: &FairnessExperiment,
    case: &FairnessCase,
    group: &ConnectionGroup,
    forward: Vec<LinkId>,
    back: Vec<LinkId>,
) -> FlowConfig {
    let tcp = TcpConfig {
        segment_bytes: experiment.segment_bytes,
        header_bytes: HEADER_BYTES,
        segments_per_ack: experiment.segments_per_ack,
        access_rate: group.source_rate,
        ..TcpConfig::new(group.control)
    };
    FlowConfig {
        back,
        delay_out: group.delay,
        // Acknowledgements never fill the bottleneck's other direction, of which only the delay matters.
        delay_back: group.delay + case.delay,
        jitter: case.rate.time_for(u64::from(tcp.packet_bytes()) * PACKET_JITTER.0 / PACKET_JITTER.1),
        start_jitter: opening_time(experiment).max(SYNCHRONIZED_START_WINDOW),
        ..FlowConfig::new(forward, TrafficSource::Tcp(tcp))
    }
}

/// The hops of one group, and their cross traffic.
struct GroupRoute {
    forward_links: Vec<LinkId>,
    reverse_links: Vec<LinkId>,
    background: Vec<(LinkId, CrossConfig)>,
}

fn add_hops(network: &mut Network, group: &ConnectionGroup) -> anyhow::Result<GroupRoute> {
    let mut route = GroupRoute { forward_links: Vec::new(), reverse_links: Vec::new(), background: Vec::new() };
    for hop in &group.hops {
        let out = network.add_link(access_path::hop_link(hop)?, None)?;
        route.reverse_links.insert(0, network.add_link(access_path::hop_link(hop)?, None)?);
        route.background.extend(access_path::background_traffic(hop).map(|cross| (out, cross)));
        route.forward_links.push(out);
    }
    Ok(route)
}
