//! What a tunnel over TCP is in virtual time.

use super::scenario::MultipathPoint;
use super::tcp_stack::TcpStack;
use super::tuning::Tuning;
use anyhow::Context;
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::TunnelModel;
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_sim::tcp::{LossDetection, RecoveryConfig};
use kumade_tunnel::TransportMode;
use kumade_units::Span;

/// The connections of a point's tunnel; none where its plane has none.
pub(super) fn tunnel_model(point: &MultipathPoint<'_>) -> anyhow::Result<Option<TunnelModel>> {
    let Some((carrier, control)) = point.contender.plane.outer_transport() else { return Ok(None) };
    let tuning = point.contender.tuning.as_ref();
    let connection = tuning.map(Tuning::connection_tuning).unwrap_or_default();
    anyhow::ensure!(
        connection.send_buffer_bytes.is_none() && connection.has_no_delay,
        "the simulator's TCP has neither a send buffer's limit nor the Nagle algorithm"
    );
    let connections = match carrier {
        TransportMode::Rake(connections) | TransportMode::Relay(connections) => connections,
        TransportMode::Tcp => 1,
        TransportMode::Udp | TransportMode::Auto(_) => {
            anyhow::bail!("tunnels that use datagrams, too, are not simulated")
        }
    };
    let usual = recovery_config(point.case.stack);
    let least = tuning.and_then(|tuning| tuning.min_rto).or(connection.rto.min);
    let most = tuning.and_then(|tuning| tuning.max_rto).or(connection.rto.max);
    let recovery = RecoveryConfig {
        min_timeout: least.unwrap_or(usual.min_timeout),
        max_timeout: most.unwrap_or(usual.max_timeout),
        ..usual
    };
    let control = control.parse::<CongestionControl>().context("the connections below")?;
    Ok(Some(TunnelModel {
        connections,
        tcp: TcpConfig { recovery, ..TcpConfig::new(control) },
        tuning: connection.tcp_over_tcp,
        has_aqm: connection.has_aqm,
        unsent_bytes: connection.unsent_bytes,
    }))
}

/// What hosts and gateways do about losses by themselves.
pub(super) fn recovery_config(stack: TcpStack) -> RecoveryConfig {
    let detection = match stack {
        TcpStack::KernelDefault => LossDetection::RackTlp,
        TcpStack::NewReno => LossDetection::NewReno,
    };
    RecoveryConfig { detection, probe_restarts_timeout: true, ..RecoveryConfig::default() }
}

/// How long a tunnel has been up before a connection begins in it: its connections have met by then.
pub(super) const TUNNEL_SETUP_TIME: Span = Span::from_millis(500);
