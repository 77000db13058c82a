use super::framing::{PATH_MTU, TCP_HEADER_BYTES, connection_overhead_bytes};
use super::numbered_packets::{DRAIN_TIME, HEADER_BYTES};
use super::observation::MultipathObservation;
use super::plane::Plane;
use super::reordering::Reordering;
use super::row::MultipathRow;
use super::scenario::{MultipathExperiment, MultipathPoint, PathSettings, Workload};
use super::sparse_flow::{ECHO_INTERVAL, PACKET_BYTES, PACKET_INTERVAL};
use super::tcp_stack::TcpStack;
use super::trace::virtual_trace;
use super::tuning::HostRto;
use super::virtual_tunnel::{self, TUNNEL_SETUP_TIME};
use crate::delay_quantiles::{DelayQuantiles, EchoDelays};
use crate::error::RunError;
use anyhow::Context;
use kumade_multipath::{PathPolicy, ShareUnit};
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, FlowReport, PathChange, PathModel, Sites, SitesConfig};
use kumade_sim::tcp::RecoveryConfig;
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

/// Runs begin at times that differ by so much, as they otherwise would all be the same where nothing is lost.
const START_STEP: Span = Span::from_micros(1700);

/// One run with the simulator's TCP and the gateways' own code. See [`Plane::has_virtual_form`] for what it lacks.
///
/// # Errors
/// The simulator refuses a setting.
pub(super) fn run(experiment: &MultipathExperiment, point: &MultipathPoint<'_>) -> Result<MultipathRow, RunError> {
    let observed = observe(experiment, point);
    let observed = observed.map_err(RunError::during("run in virtual time"))?;
    Ok(MultipathRow::new(point, experiment.workload, observed))
}

fn observe(experiment: &MultipathExperiment, point: &MultipathPoint<'_>) -> anyhow::Result<MultipathObservation> {
    let case = point.case;
    let config = SitesConfig {
        paths: case.paths.iter().map(path_model).collect(),
        plane: simulated_plane(point)?,
        seed: point.run.into(),
    };
    let mut sites = Sites::new(&config)?;
    match experiment.workload {
        Workload::Transfer => run_transfer(&mut sites, experiment, point, config.plane.overhead_bytes()),
        Workload::Numbered { .. } => run_numbered_packets(&mut sites, experiment, point, config.plane.overhead_bytes()),
        Workload::Blocks => anyhow::bail!("what writes of a host cost has no meaning in virtual time"),
        Workload::Flood { .. } => anyhow::bail!("how much the kernel forwards has no meaning in virtual time"),
    }
}

/// The gateways find the rates out by themselves, as in real time.
fn path_model(path: &PathSettings) -> PathModel {
    let link = path.new_links(0).up;
    let model = PathModel::new(path.rate, link.delay);
    PathModel { loss: path.loss, queue_bytes: link.queue_bytes, configured_rate: None, ..model }
}

fn simulated_plane(point: &MultipathPoint<'_>) -> anyhow::Result<kumade_sim::sites::Plane> {
    if let Some(model) = virtual_tunnel::tunnel_model(point)? {
        return Ok(kumade_sim::sites::Plane::Tunnel(model));
    }
    let paths = point.case.paths.len();
    let shares = point.contender.ratio.as_ref().map_or_else(|| vec![1; paths], |ratio| ratio.shares().to_vec());
    let choice = match point.contender.plane {
        Plane::Single
        | Plane::Mptcp
        | Plane::PeerProgram(_)
        | Plane::TunnelAuto
        | Plane::TunnelTcp
        | Plane::TunnelTcpBbr
        | Plane::TunnelRake
        | Plane::TunnelRakeBbr
        | Plane::TunnelRelay
        | Plane::TunnelRelayBbr => return Ok(kumade_sim::sites::Plane::single(0, paths)),
        Plane::Direct | Plane::DirectNat => {
            // Acknowledgements take the first path, as in real time.
            let shares_back = (0..paths).map(|place| u32::from(place == 0)).collect();
            return Ok(kumade_sim::sites::Plane::Direct { shares, shares_back });
        }
        Plane::Bonded => PathPolicy::EarliestArrival,
        Plane::BondedRatio => PathPolicy::Ratio { shares, unit: ShareUnit::Packets },
        Plane::BondedWeighted => PathPolicy::Weighted,
        Plane::BondedRedundant => PathPolicy::Redundant,
    };
    Ok(kumade_sim::sites::Plane::Bonded { choice })
}

fn run_transfer(
    sites: &mut Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
    overhead: u32,
) -> anyhow::Result<MultipathObservation> {
    let case = point.case;
    let (is_tunnel, is_relayed) =
        (point.contender.plane.outer_transport().is_some(), point.contender.plane.is_relayed());
    let control = if is_relayed {
        point.contender.plane.lower_congestion_control()
    } else {
        experiment.workload.congestion_control()
    };
    let recovery = if is_tunnel || case.stack != TcpStack::KernelDefault {
        virtual_tunnel::recovery_config(case.stack)
    } else {
        RecoveryConfig::default()
    };
    // A connection that gateways relay is one of theirs on the path.
    let tuning = point.contender.tuning.as_ref().filter(|_| is_relayed);
    let rto = tuning.map_or(case.host_rto, |tuning| HostRto { min: tuning.min_rto, max: tuning.max_rto });
    let recovery = RecoveryConfig {
        min_timeout: rto.min.unwrap_or(recovery.min_timeout),
        max_timeout: rto.max.unwrap_or(recovery.max_timeout),
        ..recovery
    };
    let tcp = TcpConfig {
        segment_bytes: PATH_MTU - overhead - TCP_HEADER_BYTES,
        header_bytes: TCP_HEADER_BYTES,
        receive_window: case.window_bytes,
        recovery,
        ..TcpConfig::new(control.unwrap_or(Workload::CONGESTION_CONTROL).parse::<CongestionControl>()?)
    };
    let met = Time::ZERO + if is_tunnel { TUNNEL_SETUP_TIME } else { Span::ZERO };
    let start = met + START_STEP * i64::from(point.run);
    let flow = sites.add_flow(FlowConfig { start, bypasses_plane: is_relayed, ..FlowConfig::tcp(tcp) })?;
    let beside = |interval| FlowConfig {
        start: met,
        ..FlowConfig::udp(Rate::from_bytes_over(PACKET_BYTES.into(), interval), PACKET_BYTES)
    };
    let sparse = case.sparse.then(|| sites.add_flow(beside(PACKET_INTERVAL))).transpose()?;
    let echo = FlowConfig { is_echoed: true, ..beside(ECHO_INTERVAL) };
    let echo = case.echo.then(|| sites.add_flow(echo)).transpose()?;
    let from = met + experiment.warm_up;
    if let Some(cut) = case.outage {
        sites.schedule(from + cut.after, cut.path - 1, PathChange::Cut);
        if let Some(lasts) = cut.duration {
            sites.schedule(from + cut.after + lasts, cut.path - 1, PathChange::Restore);
        }
    }
    if case.trace {
        sites.record_segments();
    }
    let reports = sites.measure(from, from + experiment.duration);
    let report = &reports[flow];
    Ok(MultipathObservation {
        delivered_bytes: report.goodput_bytes,
        duration: experiment.duration,
        full_payload_bytes: tcp.segment_bytes.into(),
        full_packet_bytes: u64::from(
            tcp.packet_bytes()
                + if is_tunnel && !is_relayed {
                    connection_overhead_bytes()
                } else {
                    overhead.saturating_sub(experiment.workload.saved_header_bytes())
                },
        ),
        retransmitted_segments: Some(report.tcp.retransmissions),
        reordering: Some(reordering(report)),
        longest_gap: Some(report.longest_stall),
        recovery_time: report.recovery,
        sparse_delays: sparse.and_then(|sparse| delay_quantiles(&reports[sparse])),
        echo_delays: echo.and_then(|echo| round_trips(&reports[echo])),
        trace: virtual_trace(&sites.take_segments(), from),
        forwarded_by_path: report.path_bytes.clone(),
        ..MultipathObservation::default()
    })
}

fn run_numbered_packets(
    sites: &mut Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
    overhead: u32,
) -> anyhow::Result<MultipathObservation> {
    let Workload::Numbered { packets, payload, .. } = experiment.workload else {
        anyhow::bail!("another kind of traffic than numbered packets")
    };
    let (interval, bytes) = (experiment.packet_interval(point), payload + HEADER_BYTES);
    let sending = interval * packets as i64;
    let udp = FlowConfig::udp(Rate::from_bytes_over(bytes.into(), interval), bytes);
    // Between the last packet and the one that would follow: the simulator's intervals are rounded.
    let flow = sites.add_flow(FlowConfig { stop: Some(Time::ZERO + sending - interval / 2), ..udp })?;
    let report = &sites.measure(Time::ZERO, Time::ZERO + sending + DRAIN_TIME)[flow];
    let arrived = report.delivered_packets - report.duplicates;
    // Of all: the first one leaves before the report begins, at the same instant.
    let lost = packets.checked_sub(arrived);
    let lost = lost.with_context(|| format!("{arrived} packets arrived of {packets}: counts do not add up"))?;
    Ok(MultipathObservation {
        delivered_bytes: report.goodput_bytes,
        duration: sending,
        full_payload_bytes: payload.into(),
        full_packet_bytes: u64::from(bytes + overhead.saturating_sub(experiment.workload.saved_header_bytes())),
        reordering: Some(reordering(report)),
        lost_packets: Some(lost),
        forwarded_by_path: report.path_bytes.clone(),
        ..MultipathObservation::default()
    })
}

/// The simulator keeps the greatest extent only, and does not count retransmissions.
fn reordering(report: &FlowReport) -> Reordering {
    Reordering {
        packets: report.delivered_packets,
        reordered_packets: report.out_of_order,
        median_extent_packets: None,
        p95_extent_packets: None,
        max_extent_packets: (report.out_of_order > 0).then_some(report.max_reordering_extent),
    }
}

fn delay_quantiles(report: &FlowReport) -> Option<DelayQuantiles> {
    let at = |part| report.delays.quantile(part).map(Span::as_secs_f64);
    Some(DelayQuantiles { median_seconds: at(0.5)?, p95_seconds: at(0.95)?, p99_seconds: at(0.99)? })
}

fn round_trips(report: &FlowReport) -> Option<EchoDelays> {
    let unanswered = report.sent_packets.saturating_sub(report.delays.count());
    Some(EchoDelays {
        round_trips: delay_quantiles(report)?,
        unanswered_ratio: unanswered as f64 / report.sent_packets.max(1) as f64,
    })
}
