//! One end of a tunnel that runs until a signal comes.

use super::source::SettingsSource;
use crate::confinement::Confinement;
use crate::descriptors::raise_descriptor_limit;
use crate::event_hook::EventHook;
use crate::notices::{log_notices, log_reload};
use crate::output::note;
use crate::running::{TUNNEL, registry, serve_metrics};
use anyhow::{Context, anyhow};
use kumade_daemon::signals::DaemonSignals;
use kumade_daemon::{ActivityWatch, ClaimedName, ControlError, Exporter, ExporterError, RuntimeDir, check_name};
use kumade_net::{clock, interface};
use kumade_noise_session::PublicKey;
use kumade_overlay_io::status::Recorder;
use kumade_overlay_io::status::control::StatusProtocol;
use kumade_overlay_io::{BondedError, BondedStatus};
use kumade_tunnel::status::Status;
use kumade_tunnel::{
    ConnectRefusal, OuterTransport, PeerConfig, RelayReport, RelayStatus, Tunnel, TunnelConfig, TunnelEnd, TunnelError,
    short_key,
};
use kumade_units::Time;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

/// Names that are tried where none is given.
const MAX_NAME_NUMBER: u32 = 1000;

/// An end that runs.
struct RunningEnd {
    source: SettingsSource,
    tunnel: Tunnel,
    activity: ActivityWatch,
    recorder: Recorder<Status>,
    exporter: Option<Exporter>,
    hook: Option<EventHook>,
    /// What its peers are called, in their order.
    names: Vec<String>,
    /// What carried packets to each, as was said last.
    transports: Vec<Option<OuterTransport>>,
    /// As it was last seen.
    last: (Option<BondedStatus>, Option<RelayStatus>),
}

/// Runs one end of a tunnel until a signal comes.
///
/// # Errors
/// Its name is taken, or the system refuses something.
pub fn run(source: SettingsSource, config: TunnelConfig, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(source.path().is_some()).context("cannot listen for signals")?;
    let settings = source.settings();
    let end = config.end.clone();
    let (own_name, claim) = lock_name(settings.name.as_deref(), &config)?;
    let what = match describe_transport(&config) {
        what if what == own_name => what,
        // By which `kumade tunnel status` knows it.
        what => format!("{own_name}: {what}"),
    };
    let recorder = Status::recorder(&config, &own_name);
    recorder.renew_when_asked(signals.waker());
    raise_descriptor_limit();
    let hook = settings.on_event.as_deref().map(EventHook::start).transpose()?;
    let ports = bound_ports(&config, settings.prometheus);
    let confinement = (!keeps_privileges).then(|| Confinement::to_network(ports));
    let names: Vec<_> = config.peers.iter().map(PeerConfig::label).collect();
    let activity = ActivityWatch::new(signals.waker());
    let device = config.device.clone();
    let tunnel = Tunnel::start(config, RuntimeDir::standard("kumade"), activity.clone());
    let tunnel = tunnel.map_err(|error| explain_start(&source, &device, error))?;
    let _control = claim.map(|claim| recorder.latest().serve(claim)).transpose()?;
    let exporter = settings.prometheus.map(|address| serve_latest(address, &recorder)).transpose()?;
    match end {
        TunnelEnd::Listen(address) => note!("{what}: waiting at {address}; Ctrl-C ends it"),
        TunnelEnd::Connect(host) => note!("{what}: connecting to {}; Ctrl-C ends it", host.address()),
    }
    confinement.into_iter().for_each(Confinement::finish);
    let (transports, last) = (vec![None; names.len()], (None, None));
    let mut end = RunningEnd { source, tunnel, activity, recorder, exporter, hook, names, transports, last };
    while !signals.is_end_requested() && !end.activity.has_ended() {
        if signals.take_reload_request() {
            end.reload();
        }
        // One that has ended says why when it is stopped.
        let Ok(next) = end.report() else { break };
        signals.wait(next).context("cannot wait for signals")?;
    }
    end.print_totals();
    end.tunnel.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// Why it cannot start, and by which option it can where another tunnel, say, has the device of the usual name.
fn explain_start(source: &SettingsSource, device: &str, error: TunnelError) -> anyhow::Error {
    let is_device_taken = matches!(&error, TunnelError::Packets(BondedError::Setup(refused))
        if refused.io_error().kind() == io::ErrorKind::AlreadyExists && interface::exists(device));
    let error = source.locate(error);
    if is_device_taken { anyhow!("{error}, with --device or `device` in [tunnel]") } else { anyhow!(error) }
}

impl RunningEnd {
    /// Says what has happened, and renews the status where that is due. Returns when it is due again if nothing happens until then.
    fn report(&mut self) -> anyhow::Result<Time> {
        let notices = self.tunnel.take_notices()?;
        log_notices(&notices, &self.names, |path| (path + 1).to_string(), &mut self.hook);
        self.tunnel.take_reports()?.iter().for_each(|report| log_relay_report(report, &self.tunnel.config().peers));
        let packets = self.tunnel.packet_status()?;
        packets.iter().for_each(|status| log_transports(&self.names, status, &mut self.transports));
        if self.recorder.is_due(self.activity.has_moved(), clock::monotonic()) {
            // What moves from now on is told.
            self.activity.take_movement();
            let relayed = self.tunnel.relay_status()?;
            let Ok(()) = self.recorder.renew(|status, now| {
                status.fill(packets.as_ref(), relayed.as_ref(), now);
                Ok::<_, Infallible>(())
            });
            self.last.1 = relayed;
        }
        self.last.0 = packets;
        Ok(if self.activity.has_moved() { self.recorder.next_renewal() } else { Time::MAX })
    }

    /// Becomes as the configuration file says now; or says why not, and goes on as before.
    fn reload(&mut self) {
        let Some(file) = self.source.path().map(Path::to_owned) else { return };
        log_reload(&file, &self.try_reload());
    }

    /// Returns what has changed.
    fn try_reload(&mut self) -> anyhow::Result<Vec<String>> {
        let Some(source) = self.source.read_again()? else { return Ok(Vec::new()) };
        let source = source?;
        let (settings, before) = (source.settings(), self.source.settings());
        if let Some(key) = settings.unchangeable_since(before) {
            return Err(unchangeable(key));
        }
        let running = self.tunnel.config();
        let config = source.load_with_end(running.end.clone())?.map_err(|error| anyhow!(error))?;
        if config.identity.public_key() != running.identity.public_key() {
            return Err(unchangeable("`key` in [tunnel]"));
        }
        let mut changes = settings.changes_since(before);
        if config.psk != running.psk && settings.preshared_key_file == before.preshared_key_file {
            changes.push("preshared-key: another key in its file".to_owned());
        }
        let is_same = settings.prometheus == before.prometheus;
        let exporter = settings.prometheus.filter(|_| !is_same);
        let exporter = exporter.map(|address| serve_latest(address, &self.recorder)).transpose()?;
        let peers = running.peers.clone();
        let notices = self.tunnel.update(config).map_err(|error| anyhow!(source.locate(error)))?;
        log_notices(&notices, &self.names, |path| (path + 1).to_string(), &mut self.hook);
        if !is_same {
            self.exporter = exporter;
        }
        self.source = source;
        self.follow_peers(&peers);
        Ok(changes)
    }

    /// The peers were these before.
    fn follow_peers(&mut self, before: &[PeerConfig]) {
        let peers = &self.tunnel.config().peers;
        let place_in = |peers: &[PeerConfig], peer: &PeerConfig| peers.iter().position(|other| other.key == peer.key);
        self.transports = peers.iter().map(|peer| self.transports[place_in(before, peer)?]).collect();
        self.names = peers.iter().map(PeerConfig::label).collect();
        self.recorder.change_template(|status| status.set_peers(peers));
    }

    fn print_totals(&mut self) {
        // Of one that has ended, as it was last seen.
        if let (Ok(packets), Ok(relayed)) = (self.tunnel.packet_status(), self.tunnel.relay_status()) {
            self.last = (packets, relayed);
        }
        let (packets, relayed) = &self.last;
        for (name, remote) in self.names.iter().zip(packets.iter().flat_map(|status| &status.remotes)) {
            let sent: u64 = remote.paths.iter().map(|path| path.status.sent_bytes).sum();
            let received: u64 = remote.paths.iter().map(|path| path.received_bytes).sum();
            note!("{name}: {sent} bytes sent, {received} received");
        }
        if let Some(RelayStatus { opened, sent_bytes, received_bytes, .. }) =
            relayed.as_ref().filter(|status| status.opened > 0)
        {
            note!("{opened} relayed connections: {sent_bytes} bytes sent, {received_bytes} received");
        }
    }
}

fn unchangeable(key: &str) -> anyhow::Error {
    anyhow!("{key} cannot change while the tunnel runs: restart it for that")
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
) -> anyhow::Result<(String, Option<ClaimedName<StatusProtocol<Status>>>)> {
    if let Some(name) = asked {
        let claim = registry().lock_name(name).map_err(|error| TUNNEL.explain(error))?;
        return Ok((name.to_owned(), Some(claim)));
    }
    let device = Some(config.device.as_str()).filter(|device| config.has_device() && check_name(device).is_ok());
    let first = device.unwrap_or("tunnel").to_owned();
    for number in 1..=MAX_NAME_NUMBER {
        let name = if number == 1 { first.clone() } else { format!("{first}-{number}") };
        match registry().lock_name(&name) {
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

/// Lets Prometheus fetch the status, until the result is dropped.
fn serve_latest(address: SocketAddr, recorder: &Recorder<Status>) -> Result<Exporter, ExporterError> {
    let latest = recorder.latest();
    serve_metrics(address, move || latest.encode_metrics())
}

/// What is carried, in few words.
fn describe_transport(config: &TunnelConfig) -> String {
    let forwards = config.relayed_connections.forwards.iter().map(ToString::to_string);
    let device = config.has_device().then(|| config.device.clone());
    let what: Vec<_> = device.into_iter().chain(forwards).collect();
    if what.is_empty() { "TCP connections".into() } else { what.join(", ") }
}

/// Why a connection was not relayed, and what to do about it.
fn log_relay_report(report: &RelayReport, peers: &[PeerConfig]) {
    let name = |key: &PublicKey| {
        let peer = peers.iter().find(|peer| peer.key == *key);
        peer.map_or_else(|| short_key(key), PeerConfig::label)
    };
    match report {
        RelayReport::NotAllowed { peer, target } => {
            tracing::warn!(
                "{}: wants to reach {target}, which is not allowed; --allow {target} would let it",
                name(peer)
            );
        }
        RelayReport::TooMuchHeld { peer, streams } => {
            let peer = name(peer);
            tracing::warn!(
                "{peer}: {streams} of its connections were reset: too much waits that it or their targets do not read"
            );
        }
        RelayReport::LeftOut { peer, count } => {
            let peer = peer.as_ref().map(|peer| format!("{}: ", name(peer))).unwrap_or_default();
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
