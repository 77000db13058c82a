//! A gateway that runs until a signal comes.

use super::registry::{gateway_registry, with_hint};
use crate::confinement::Confinement;
use crate::event_hook::{EventHook, EventKind};
use crate::key;
use crate::notices::log_notices;
use crate::output::note;
use ::kumade_overlay_status::LatestStatus;
use anyhow::Context;
use kumade_daemon::{ClaimedName, ControlServer, Exporter, RuntimeDir, signals};
use kumade_gateway::config::{BondedSettings, Plane, RemotePeer, SessionsConfig};
use kumade_gateway::control::{GatewayProtocol, Reply, Request};
use kumade_gateway::direct::{DirectPlane, SessionPlane};
use kumade_gateway::measure::{MeasurementServer, PathMeasurer};
use kumade_gateway::status::{GatewayStatus, new_recorder};
use kumade_gateway::{GatewayConfig, prometheus};
use kumade_net::clock;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{BondedConfig, BondedPlane};
use kumade_units::Span;
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// So long after the keys were agreed on, all threads should have been answered.
const THREADS_SETTLE_TIME: Span = Span::from_secs(5);
/// Maximum time until a signal or a failed interface is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a gateway until a signal comes.
///
/// # Errors
/// If its name is taken, its keys cannot be read, or the system refuses something.
pub fn run(config: &GatewayConfig, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let stop = signals::termination_flag().context("cannot listen for Ctrl-C")?;
    config.check_next_hops()?;
    let claim = gateway_registry().lock_name(&config.name).map_err(with_hint)?;
    let hook = config.on_event.as_deref().map(EventHook::start).transpose()?;
    let mut confinement = Confinement::unless_kept(keeps_privileges);
    if let Some(confinement) = &mut confinement {
        confinement.keep_network_privileges(bound_ports(config));
    }
    let begun = RunContext { claimed_name: claim, stop: &stop, hook, confinement };
    match &config.plane {
        Plane::Direct => run_direct(config, begun)?,
        Plane::Bonded(bonded) => run_bonded(config, bonded, begun)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What every gateway has before it starts.
struct RunContext<'s> {
    claimed_name: ClaimedName<GatewayProtocol>,
    stop: &'s AtomicBool,
    hook: Option<EventHook>,
    confinement: Option<Confinement>,
}

/// Those that are bound.
fn bound_ports(config: &GatewayConfig) -> Vec<u16> {
    let bonded = match &config.plane {
        Plane::Bonded(bonded) => Some(bonded.port),
        Plane::Direct => None,
    };
    let sessions = config.sessions.as_ref().map(|sessions| sessions.port);
    let measurement = config.measurement.is_answering.then_some(config.measurement.port);
    let prometheus = config.prometheus.map(|address| address.port());
    [bonded, sessions, measurement, prometheus].into_iter().flatten().collect()
}

fn run_direct(
    config: &GatewayConfig,
    RunContext { claimed_name: claim, stop, mut hook, confinement }: RunContext,
) -> anyhow::Result<()> {
    let keys = config.sessions.as_ref().map(session_keys).transpose()?;
    keys.iter().try_for_each(|(identity, _)| config.check_own_key(identity.public_key()))?;
    let mut plane = DirectPlane::start(config, RuntimeDir::standard("kumade"))?;
    let sessions = match (&config.sessions, keys) {
        (Some(sessions), Some((identity, psks))) => Some(SessionPlane::start(&plane, sessions, identity, psks)?),
        _ => None,
    };
    let mut reachable = vec![false; config.remotes.len()];
    let mut up = plane.paths_up().to_vec();
    let (_server, mut measurer) = start_measurement_server(config)?;
    let mut recorder = new_recorder(config);
    recorder.renew(|status, now| plane.fill_status(status, now))?;
    note!("{}: packets are divided among {} paths; Ctrl-C ends it", config.name, config.paths.len());
    let _answering = start_status_services(config, claim, &recorder.latest())?;
    if let Some(confinement) = confinement {
        confinement.finish();
    }
    // Sessions that have ended say why when they are stopped.
    while !stop.load(Ordering::Relaxed) && sessions.as_ref().is_none_or(SessionPlane::is_running) {
        plane.update_interfaces()?;
        report_paths(config, &plane, &mut up, &mut hook);
        sessions.iter().for_each(|sessions| report_session_peers(sessions, &mut reachable, &mut hook));
        if let Some(measurer) = &mut measurer {
            measurer.update_direct_weights(&mut plane)?;
        }
        recorder.renew(|status, now| {
            measurer.iter().for_each(|measurer| measurer.fill_status(status, now));
            sessions.iter().flat_map(SessionPlane::status).for_each(|known| known.fill_status(status));
            plane.fill_status(status, now)
        })?;
        thread::sleep(POLL_INTERVAL);
    }
    if let Some(sessions) = sessions {
        sessions.stop()?;
    }
    for count in plane.path_counts()? {
        note!("{}: {} packets, {} bytes", count.path, count.sent.packets, count.sent.bytes);
    }
    Ok(())
}

/// Tells the hook of paths that have failed or are back; the plane logs them.
fn report_paths(config: &GatewayConfig, plane: &DirectPlane, before: &mut [bool], hook: &mut Option<EventHook>) {
    for ((path, now), before) in config.paths.iter().zip(plane.paths_up()).zip(before.iter()) {
        if now != before {
            let kind = if *now { EventKind::PathReturned } else { EventKind::PathFailed };
            hook.iter_mut().for_each(|hook| hook.send(kind, "", &path.name));
        }
    }
    before.clone_from_slice(plane.paths_up());
}

/// Says which remote gateways answer, where that has changed.
fn report_session_peers(sessions: &SessionPlane, reachable: &mut [bool], hook: &mut Option<EventHook>) {
    for ((remote, now), before) in sessions.reachable_peers().into_iter().flatten().zip(reachable) {
        if *before != now {
            *before = now;
            let kind = if now { EventKind::PeerConnected } else { EventKind::PeerLost };
            hook.iter_mut().for_each(|hook| hook.send(kind, &remote, ""));
            match now {
                true => tracing::info!("{remote}: connected"),
                false => tracing::warn!("{remote}: not connected"),
            }
        }
    }
}

fn run_bonded(config: &GatewayConfig, bonded: &BondedSettings, begun: RunContext) -> anyhow::Result<()> {
    let RunContext { claimed_name: claim, stop, mut hook, confinement } = begun;
    let keyed = bonded_config(config, bonded)?;
    config.check_own_key(keyed.identity.public_key())?;
    config.forwarding_warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let plane = BondedPlane::start(keyed)?;
    let (_server, mut measurer) = start_measurement_server(config)?;
    let mut recorder = new_recorder(config);
    note!("{}: {} paths carry the tunnel {}; Ctrl-C ends it", config.name, config.paths.len(), bonded.device);
    let _answering = start_status_services(config, claim, &recorder.latest())?;
    if let Some(confinement) = confinement {
        confinement.finish();
    }
    let names: Vec<_> = config.remotes.iter().map(|remote| remote.name.clone()).collect();
    let name_path = |path: usize| config.paths.get(path).map(|path| path.name.clone()).unwrap_or_default();
    let mut threads = vec![None; config.remotes.len()];
    while !stop.load(Ordering::Relaxed) && plane.is_running() {
        // One that has ended says why when it is stopped.
        let (Ok(notices), Ok(known)) = (plane.take_notices(), plane.status()) else { break };
        log_notices(&notices, &names, name_path, &mut hook);
        let filled = recorder.renew(|status, now| {
            measurer.iter().for_each(|measurer| measurer.fill_status(status, now));
            kumade_gateway::bonded::fill_bonded_status(&known, status, now);
            Ok::<_, Infallible>(())
        });
        let Ok(()) = filled;
        for ((remote, known), told) in config.remotes.iter().zip(&known.remotes).zip(&mut threads) {
            let is_settled = known.is_connected && clock::monotonic() - known.state_since > THREADS_SETTLE_TIME;
            if bonded.threads > 1 && is_settled && known.reaching_shards > 0 && *told != Some(known.reaching_shards) {
                report_threads(
                    &remote.name,
                    known.reaching_shards,
                    bonded.threads,
                    told.replace(known.reaching_shards).is_some(),
                );
            }
        }
        if let Some(measurer) = &mut measurer {
            measurer.update_bonded_rates(&plane);
        }
        thread::sleep(POLL_INTERVAL);
    }
    if let Ok(known) = plane.status() {
        for (remote, known) in config.remotes.iter().zip(&known.remotes) {
            for (path, known) in config.paths.iter().zip(&known.paths) {
                let sent = &known.status;
                note!("{} {}: {} packets, {} bytes", remote.name, path.name, sent.sent_packets, sent.sent_bytes);
            }
        }
    }
    Ok(plane.stop()?)
}

/// Says how many of all threads carry packets to a remote gateway.
fn report_threads(remote: &str, threads: u32, all: usize, was_told: bool) {
    if (threads as usize) < all {
        let hint = "has it as many, and does the firewall pass their ports?";
        tracing::warn!("{remote}: {threads} of {all} threads carry packets, since the others are not answered: {hint}");
    } else if was_told {
        tracing::info!("{remote}: all {all} threads carry packets");
    }
}

/// Lets others ask for the status, and Prometheus fetch it, until the result is dropped.
fn start_status_services(
    config: &GatewayConfig,
    claim: ClaimedName<GatewayProtocol>,
    status: &LatestStatus<GatewayStatus>,
) -> anyhow::Result<(ControlServer, Option<Exporter>)> {
    let asked = status.clone();
    let control = claim.serve(move |request| match request {
        Request::Status => Reply::Status { status: Box::new(asked.get()) },
    })?;
    let fetched = status.clone();
    let exporter =
        config.prometheus.map(|address| Exporter::start(address, move || prometheus::encode_metrics(fetched.get())));
    let exporter = exporter.transpose()?;
    if let Some(exporter) = &exporter {
        note!("metrics: http://{}/metrics", exporter.address());
    }
    Ok((control, exporter))
}

/// What answers the measurements of other gateways, and what measures.
fn start_measurement_server(
    config: &GatewayConfig,
) -> anyhow::Result<(Option<MeasurementServer>, Option<PathMeasurer>)> {
    let settings = &config.measurement;
    let key = measurement_key(config)?;
    let server = settings.is_answering.then(|| MeasurementServer::start(settings.port, key.clone())).transpose()?;
    let seed = getrandom::u64().context("the system gives no random bytes")?;
    Ok((server, PathMeasurer::new(config, key, seed, clock::monotonic())))
}

/// That of its file.
///
/// # Errors
/// The file cannot be read.
pub fn measurement_key(config: &GatewayConfig) -> anyhow::Result<Option<PresharedKey>> {
    config.measurement.key_file.as_deref().map(key::read_preshared_key).transpose()
}

/// With the keys of its files.
///
/// # Errors
/// A key file cannot be read.
pub fn bonded_config(config: &GatewayConfig, bonded: &BondedSettings) -> anyhow::Result<BondedConfig> {
    let identity = key::read_private_key(&bonded.key_file)?;
    let psks = bonded.peers.iter().map(preshared_key).collect::<anyhow::Result<_>>()?;
    Ok(kumade_gateway::bonded::plane_config(config, bonded, identity, psks, RuntimeDir::standard("kumade")))
}

/// This gateway's key, and those that it shares with remotes, in the order of the configuration.
///
/// # Errors
/// A key file cannot be read.
pub fn session_keys(sessions: &SessionsConfig) -> anyhow::Result<(PrivateKey, Vec<PresharedKey>)> {
    let identity = key::read_private_key(&sessions.key_file)?;
    let psk = |peer: &Option<RemotePeer>| peer.as_ref().map_or_else(|| Ok(PresharedKey::default()), preshared_key);
    Ok((identity, sessions.peers.iter().map(psk).collect::<anyhow::Result<_>>()?))
}

fn preshared_key(peer: &RemotePeer) -> anyhow::Result<PresharedKey> {
    peer.psk_file.as_deref().map_or_else(|| Ok(PresharedKey::default()), key::read_preshared_key)
}
