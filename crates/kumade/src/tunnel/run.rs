//! One end of a tunnel that runs until a signal comes.

use super::registry::{tunnel_registry, with_hint};
use super::source::SettingsSource;
use crate::confinement::Confinement;
use crate::descriptors::raise_descriptor_limit;
use crate::event_hook::EventHook;
use crate::notices::log_notices;
use crate::output::note;
use ::kumade_overlay_status::LatestStatus;
use anyhow::{Context, anyhow};
use kumade_daemon::{ClaimedName, ControlError, ControlServer, Exporter, RuntimeDir, check_name, signals};
use kumade_overlay_io::BondedStatus;
use kumade_tunnel::control::{Reply, Request, TunnelProtocol};
use kumade_tunnel::prometheus::encode_metrics;
use kumade_tunnel::status::Status;
use kumade_tunnel::{
    ConnectRefusal, OuterTransport, PeerConfig, RelayReport, RelayStatus, Tunnel, TunnelConfig, TunnelEnd, short_key,
};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Maximum time until a signal or a change is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Names that are tried where none is given.
const MAX_NAME_NUMBER: u32 = 1000;

/// Runs one end of a tunnel until a signal comes.
///
/// # Errors
/// Its name is taken, or the system refuses something.
pub fn run(source: SettingsSource, config: TunnelConfig, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let stop = signals::termination_flag().context("cannot listen for Ctrl-C")?;
    let settings = source.settings();
    let (end, names) = (config.end.clone(), config.peers.iter().map(PeerConfig::label).collect::<Vec<_>>());
    let what = describe_transport(&config);
    let (own_name, claim) = lock_name(settings.name.as_deref(), &config)?;
    let mut recorder = Status::recorder(&config, &own_name);
    raise_descriptor_limit();
    let mut hook = settings.on_event.as_deref().map(EventHook::start).transpose()?;
    let mut confinement = Confinement::unless_kept(keeps_privileges);
    if let Some(confinement) = &mut confinement {
        confinement.keep_network_privileges(bound_ports(&config, settings.prometheus));
    }
    let tunnel =
        Tunnel::start(config, RuntimeDir::standard("kumade")).map_err(|error| anyhow!(source.locate(error)))?;
    let _answering = start_status_services(settings.prometheus, claim, &recorder.latest())?;
    match end {
        TunnelEnd::Listen(address) => note!("{what}: waiting at {address}; Ctrl-C ends it"),
        TunnelEnd::Connect(host) => note!("{what}: connecting to {}; Ctrl-C ends it", host.address()),
    }
    if let Some(confinement) = confinement {
        confinement.finish();
    }
    let mut seen = vec![None; names.len()];
    let mut last = (None, None);
    while !stop.load(Ordering::Relaxed) && tunnel.is_running() {
        // One that has ended says why when it is stopped.
        let (Ok(notices), Ok(packets), Ok(relayed), Ok(reports)) =
            (tunnel.take_notices(), tunnel.packet_status(), tunnel.relay_status(), tunnel.take_reports())
        else {
            break;
        };
        log_notices(&notices, &names, |path| (path + 1).to_string(), &mut hook);
        packets.iter().for_each(|status| log_transports(&names, status, &mut seen));
        reports.iter().for_each(log_relay_report);
        let Ok(()) = recorder.renew(|status, now| {
            status.fill(packets.as_ref(), relayed.as_ref(), now);
            Ok::<_, Infallible>(())
        });
        last = (packets, relayed);
        thread::sleep(POLL_INTERVAL);
    }
    print_totals(&names, &last);
    tunnel.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// Those that are bound.
fn bound_ports(config: &TunnelConfig, prometheus: Option<SocketAddr>) -> Vec<u16> {
    let own = match &config.end {
        TunnelEnd::Listen(address) => Some(*address),
        TunnelEnd::Connect(_) => None,
    };
    let forwards = config.relayed_connections.forwards.iter().map(|forward| forward.listen);
    own.into_iter().chain(prometheus).chain(forwards).map(|address| address.port()).collect()
}

/// The name that was asked for, or a free one. Without one that was asked for, a tunnel runs even where it cannot be asked.
fn lock_name(
    asked: Option<&str>,
    config: &TunnelConfig,
) -> anyhow::Result<(String, Option<ClaimedName<TunnelProtocol>>)> {
    if let Some(name) = asked {
        let claim = tunnel_registry().lock_name(name).map_err(with_hint)?;
        return Ok((name.to_owned(), Some(claim)));
    }
    let device = Some(config.device.as_str()).filter(|device| config.has_device() && check_name(device).is_ok());
    let first = device.unwrap_or("tunnel").to_owned();
    for number in 1..=MAX_NAME_NUMBER {
        let name = if number == 1 { first.clone() } else { format!("{first}-{number}") };
        match tunnel_registry().lock_name(&name) {
            Ok(claim) => return Ok((name, Some(claim))),
            Err(ControlError::NameTaken { .. }) => {}
            Err(error) => {
                note!("`kumade tunnel status` will not find this tunnel: {error}");
                break;
            }
        }
    }
    Ok((first, None))
}

/// Lets others ask for the status, and Prometheus fetch it, until the result is dropped.
fn start_status_services(
    prometheus: Option<SocketAddr>,
    claim: Option<ClaimedName<TunnelProtocol>>,
    status: &LatestStatus<Status>,
) -> anyhow::Result<(Option<ControlServer>, Option<Exporter>)> {
    let asked = status.clone();
    let reply = move |request| match request {
        Request::Status => Reply::Status { status: Box::new(asked.get()) },
    };
    let control = claim.map(|claim| claim.serve(reply)).transpose()?;
    let fetched = status.clone();
    let exporter = prometheus.map(|address| Exporter::start(address, move || encode_metrics(fetched.get())));
    let exporter = exporter.transpose()?;
    if let Some(exporter) = &exporter {
        note!("metrics: http://{}/metrics", exporter.address());
    }
    Ok((control, exporter))
}

/// What is carried, in few words.
fn describe_transport(config: &TunnelConfig) -> String {
    let forwards = config.relayed_connections.forwards.iter().map(ToString::to_string);
    let device = config.has_device().then(|| config.device.clone());
    let what: Vec<_> = device.into_iter().chain(forwards).collect();
    if what.is_empty() { "TCP connections".into() } else { what.join(", ") }
}

fn print_totals(names: &[String], (packets, relayed): &(Option<BondedStatus>, Option<RelayStatus>)) {
    for (name, remote) in names.iter().zip(packets.iter().flat_map(|status| &status.remotes)) {
        let sent: u64 = remote.paths.iter().map(|path| path.status.sent_bytes).sum();
        let received: u64 = remote.paths.iter().map(|path| path.received_bytes).sum();
        note!("{name}: {sent} bytes sent, {received} received");
    }
    if let Some(RelayStatus { opened, sent_bytes, received_bytes, .. }) = relayed.filter(|status| status.opened > 0) {
        note!("{opened} relayed connections: {sent_bytes} bytes sent, {received_bytes} received");
    }
}

/// Why a connection was not relayed, and what to do about it.
fn log_relay_report(report: &RelayReport) {
    match report {
        RelayReport::NotAllowed { peer, target } => {
            tracing::warn!(
                "{}: wants to reach {target}, which is not allowed; --allow {target} would let it",
                short_key(peer)
            );
        }
        RelayReport::TooMuchHeld { peer, streams } => {
            let peer = short_key(peer);
            tracing::warn!(
                "{peer}: {streams} of its connections were reset: too much waits that it or their targets do not read"
            );
        }
        RelayReport::LeftOut { peer, count } => {
            let peer = peer.as_ref().map(|peer| format!("{}: ", short_key(peer))).unwrap_or_default();
            tracing::warn!("{peer}{count} more connections were refused in the last minute");
        }
        RelayReport::Handshake(notice) => tracing::warn!("{notice}"),
        RelayReport::Refused { target, refusal: refusal @ ConnectRefusal::NotAllowed } => {
            tracing::warn!("{target}: {refusal}; `--allow {target}` there would let this end reach it");
        }
        RelayReport::Refused { target, refusal } => tracing::warn!("{target}: {refusal}"),
        RelayReport::Unreachable { address, cause } => tracing::warn!("a connection to {address}: {cause}"),
    }
}

/// Says what carries packets to each peer, where that has changed.
fn log_transports(names: &[String], status: &BondedStatus, seen: &mut [Option<OuterTransport>]) {
    for ((name, now), seen) in names.iter().zip(&status.remotes).zip(seen) {
        if let Some(carrier) = now.outer_transport.filter(|carrier| *seen != Some(*carrier)) {
            *seen = Some(carrier);
            tracing::info!("{name}: over {carrier}");
        }
    }
}
