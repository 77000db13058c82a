use super::kernel::START;
use super::path;
use super::row::{DropCounts, FairnessRow, Observed};
use super::scenario::{Case, Fairness, FairnessPoint, Group};
use crate::delays::Delays;
use crate::error::RunError;
use kumade_link::{CrossConfig, LinkConfig};
use kumade_sim::network::{FlowConfig, FlowId, LinkId, Network, SojournHistogram, TcpConfig, TrafficSource};
use kumade_units::{Span, Time};

/// Connections start within so long, at times drawn from the seed, where their start is part of what is measured.
const TOGETHER: Span = Span::from_millis(100);
/// Random delay of packets, as a fraction of a packet's transmission time at the bottleneck. With one or less, senders
/// synchronise with a full queue at some round-trip times; from two on, bursts are torn apart at short round-trip times.
/// In between, each congestion control gets the same share under tail drop as in the kernel, within a few percent, at
/// every delay.
const JITTER: (u64, u64) = (6, 5);
/// IP and TCP headers with time stamps.
const HEADER_BYTES: u32 = 52;

/// One run in virtual time.
///
/// # Errors
/// Where the simulator refuses a setting.
pub(super) fn run(experiment: &Fairness, point: &FairnessPoint<'_>) -> Result<FairnessRow, RunError> {
    let mut built = build(experiment, point).map_err(|cause| RunError { doing: "make the virtual network", cause })?;
    let begin = Time::ZERO + opening(experiment) + experiment.warm_up;
    built.network.run_until(begin);
    let before = built.look();
    built.network.run_until(begin + experiment.duration);
    let after = built.look();
    let delivered = after.delivered.iter().zip(&before.delivered).map(|(after, before)| after - before);
    let observed = Observed {
        delivered: delivered.collect(),
        duration: experiment.duration,
        carried: after.carried - before.carried,
        queueing: delays(&after.sojourn.since(&before.sojourn)),
        drops: after.drops.since(before.drops),
        lateness_p99: None,
    };
    Ok(FairnessRow::new(point, &observed))
}

/// The time within which all connections start, before they warm up.
fn opening(experiment: &Fairness) -> Span {
    if experiment.warm_up > Span::ZERO { START } else { Span::ZERO }
}

struct Built {
    network: Network,
    bottleneck: LinkId,
    connections: Vec<FlowId>,
}

/// The counters of a network at one time.
struct Look {
    delivered: Vec<u64>,
    carried: u64,
    sojourn: SojournHistogram,
    drops: DropCounts,
}

impl Built {
    fn look(&self) -> Look {
        let ledger = self.network.ledger(self.bottleneck);
        Look {
            delivered: self.connections.iter().map(|flow| self.network.flow(*flow).goodput_bytes).collect(),
            carried: ledger.packet_counters().forwarded.bytes,
            sojourn: self.network.sojourn(self.bottleneck).clone(),
            drops: DropCounts::of(ledger.packet_counters()),
        }
    }
}

fn build(experiment: &Fairness, point: &FairnessPoint<'_>) -> anyhow::Result<Built> {
    let case = point.case;
    let mut network = Network::new(point.seed());
    let link = LinkConfig { rate: Some(case.rate), delay: case.delay, ..LinkConfig::default() };
    let bottleneck = network.add_link(link, Some(point.queue.clone()))?;
    let routes = case.groups.iter().map(|group| add_hops(&mut network, group)).collect::<Result<Vec<_>, _>>()?;
    let mut connections = Vec::new();
    for (index, group) in case.connections() {
        let route = &routes[index];
        let config = connection(experiment, case, group, [&route.out, &[bottleneck][..]].concat(), route.back.clone());
        connections.push(network.add_flow(config)?);
    }
    // After the connections, since their numbers are their labels.
    for (hop, cross) in routes.iter().flat_map(|route| &route.background) {
        network.add_flow(FlowConfig::new(vec![*hop], TrafficSource::Udp(cross.clone())))?;
    }
    Ok(Built { network, bottleneck, connections })
}

fn connection(
    experiment: &Fairness,
    case: &Case,
    group: &Group,
    forward: Vec<LinkId>,
    back: Vec<LinkId>,
) -> FlowConfig {
    let tcp = TcpConfig {
        segment_bytes: experiment.segment_bytes,
        header_bytes: HEADER_BYTES,
        acknowledge_every: experiment.segments_per_ack,
        access_rate: group.source_rate,
        ..TcpConfig::new(group.control)
    };
    FlowConfig {
        back,
        delay_out: group.delay,
        // Acknowledgements never fill the bottleneck's other direction, of which only the delay matters.
        delay_back: group.delay + case.delay,
        jitter: case.rate.time_for(u64::from(tcp.packet_bytes()) * JITTER.0 / JITTER.1),
        start_jitter: opening(experiment).max(TOGETHER),
        ..FlowConfig::new(forward, TrafficSource::Tcp(tcp))
    }
}

/// The hops of one group, and their cross traffic.
struct Route {
    out: Vec<LinkId>,
    back: Vec<LinkId>,
    background: Vec<(LinkId, CrossConfig)>,
}

fn add_hops(network: &mut Network, group: &Group) -> anyhow::Result<Route> {
    let mut route = Route { out: Vec::new(), back: Vec::new(), background: Vec::new() };
    for hop in &group.hops {
        let out = network.add_link(path::hop_link(hop), None)?;
        route.back.insert(0, network.add_link(path::hop_link(hop), None)?);
        route.background.extend(path::background(hop).map(|cross| (out, cross)));
        route.out.push(out);
    }
    Ok(route)
}

fn delays(sojourn: &SojournHistogram) -> Option<Delays> {
    let at = |part| sojourn.quantile(part).as_secs_f64();
    (sojourn.count() > 0).then(|| Delays { median_seconds: at(0.5), p95_seconds: at(0.95), p99_seconds: at(0.99) })
}
