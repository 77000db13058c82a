//! A gateway that runs until a signal comes.

use super::config_file::{NewConfig, read_again};
use super::keys::{bonded_config, session_keys};
use super::services::Services;
use crate::confinement::Confinement;
use crate::event_hook::{EventHook, EventKind};
use crate::notices::{log_notices, log_reload};
use crate::output::note;
use crate::running::{GATEWAY, registry};
use anyhow::Context;
use kumade_daemon::signals::DaemonSignals;
use kumade_daemon::{ActivityWatch, ClaimedName, RuntimeDir};
use kumade_gateway::GatewayConfig;
use kumade_gateway::config::{BondedSettings, FixedSetting, Plane};
use kumade_gateway::direct::{DirectFastPath, DirectPlane, SessionPlane};
use kumade_gateway::status::GatewayStatus;
use kumade_net::clock;
use kumade_net::privileges;
use kumade_net::route_watch::RouteWatch;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::status::control::StatusProtocol;
use kumade_overlay_io::{BondedConfig, BondedPlane, BondedStatus, NodeNotice};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;

/// So long after the keys were agreed on, all threads should have been answered.
const THREADS_SETTLE_TIME: Span = Span::from_secs(5);
/// Between two looks at the interfaces and routes of the direct plane, however often something changes.
const MIN_CHECK_INTERVAL: Span = Span::from_millis(50);
/// Between two looks at what the kernel has counted for the direct plane and its sessions know, which threads of several carry packets,
/// and what measurements have found.
const SLOW_CHECK_INTERVAL: Span = Span::from_secs(1);

/// Runs a gateway until a signal comes. Where its configuration is from a file, SIGHUP has that read again.
///
/// # Errors
/// If its name is taken, its keys cannot be read, or the system refuses something.
pub fn run(config: GatewayConfig, file: Option<&Path>, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(file.is_some()).context("cannot listen for Ctrl-C")?;
    config.check_next_hops()?;
    let claim = registry().lock_name(&config.name).map_err(|error| GATEWAY.explain(error))?;
    let begin = |config: &GatewayConfig| -> anyhow::Result<_> {
        // What only loading the fast path takes, commands do not get.
        if !keeps_privileges {
            privileges::drop_capabilities(&[privileges::BPF, privileges::PERFMON])?;
        }
        let hook = config.on_event.as_deref().map(EventHook::start).transpose()?;
        let confinement = (!keeps_privileges).then(|| Confinement::to_network(bound_ports(config)));
        Ok(RunContext { claimed_name: claim, signals, file, hook, confinement })
    };
    match config.plane.clone() {
        Plane::Direct => {
            let fast_path = DirectFastPath::load(&config);
            let begun = begin(&config)?;
            run_direct(config, fast_path, begun)?;
        }
        Plane::Bonded(bonded) => {
            let begun = begin(&config)?;
            run_bonded(config, &bonded, begun)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What every gateway has before it starts.
struct RunContext<'f> {
    claimed_name: ClaimedName<StatusProtocol<GatewayStatus>>,
    signals: DaemonSignals,
    file: Option<&'f Path>,
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

/// A direct gateway that runs.
struct DirectGateway {
    config: GatewayConfig,
    // In the order in which they end.
    services: Services,
    sessions: Option<SessionPlane>,
    plane: DirectPlane,
    hook: Option<EventHook>,
    /// Whether packets took each path, by its name, when that was last told.
    paths_up: BTreeMap<String, bool>,
    /// Whether each remote gateway of NAT sessions answered, in the sessions' order, likewise.
    reachable: Vec<bool>,
}

fn run_direct(config: GatewayConfig, fast_path: DirectFastPath, begun: RunContext<'_>) -> anyhow::Result<()> {
    let RunContext { claimed_name: claim, signals, file, hook, confinement } = begun;
    let keys = config.sessions.as_ref().map(session_keys).transpose()?;
    keys.iter().try_for_each(|(identity, _)| config.check_own_key(identity.public_key()))?;
    let has_fast_path = fast_path.is_loaded();
    let plane = DirectPlane::start_with(&config, RuntimeDir::standard("kumade"), fast_path)?;
    let sessions = match (&config.sessions, keys) {
        (Some(sessions), Some((identity, psks))) => Some(SessionPlane::start(&plane, sessions, identity, psks)?),
        _ => None,
    };
    let mut services = Services::start(&config)?;
    services.recorder.renew(|status, now| plane.fill_status(status, now))?;
    services.answer(&config, claim)?;
    note!("{}: packets are divided among {} paths; Ctrl-C ends it", config.name, config.paths.len());
    let reachable = vec![false; config.remotes.len()];
    let watch = RouteWatch::open()?;
    let mut gateway = DirectGateway { config, plane, sessions, services, hook, paths_up: BTreeMap::new(), reachable };
    let confinement = confinement.map(|confinement| confinement.with_fast_path(has_fast_path));
    confinement.into_iter().for_each(Confinement::finish);
    // Sessions that have ended say why when they are stopped.
    while !signals.is_end_requested() && gateway.sessions.as_ref().is_none_or(SessionPlane::is_running) {
        let read = file.filter(|_| signals.take_reload_request());
        let read = read.map(|file| (file, read_again(file, &gateway.config).and_then(|new| gateway.reconfigure(new))));
        let has_changed = watch.take_change();
        gateway.advance()?;
        // Once the status shows it.
        read.iter().for_each(|(file, outcome)| log_reload(file, outcome));
        let waited = match has_changed {
            true => signals.wait(clock::monotonic() + MIN_CHECK_INTERVAL),
            false => signals.wait_beside(&watch, clock::monotonic() + SLOW_CHECK_INTERVAL),
        };
        waited.context("cannot wait for signals")?;
    }
    if let Some(sessions) = gateway.sessions.take() {
        sessions.stop()?;
    }
    for count in gateway.plane.path_counts()? {
        note!("{}: {} packets, {} bytes", count.path, count.sent.packets, count.sent.bytes);
    }
    Ok(())
}

impl DirectGateway {
    fn advance(&mut self) -> anyhow::Result<()> {
        let DirectGateway { plane, sessions, services, .. } = self;
        plane.update_interfaces()?;
        if let Some(measurer) = &mut services.measurer {
            measurer.update_direct_weights(plane)?;
        }
        let measurer = &services.measurer;
        if services.recorder.is_due(true, clock::monotonic()) {
            services.recorder.renew(|status, now| {
                measurer.iter().for_each(|measurer| measurer.fill_status(status, now));
                sessions.iter().flat_map(SessionPlane::status).for_each(|known| known.fill_status(status));
                plane.fill_status(status, now)
            })?;
        }
        self.report_paths();
        self.report_session_peers();
        Ok(())
    }

    fn reconfigure(&mut self, NewConfig { config, mut changes }: NewConfig) -> anyhow::Result<Vec<String>> {
        changes.extend(self.services.reconfigure(&self.config, &config)?);
        if let Err(error) = self.plane.reconfigure(&config) {
            self.services.reconfigure(&config, &self.config)?;
            return Err(error.into());
        }
        self.config = config;
        Ok(changes)
    }

    /// Tells the hook of paths that have failed or are back; the plane logs them.
    fn report_paths(&mut self) {
        let names = self.config.paths.iter().map(|path| path.name.clone());
        let now: BTreeMap<_, _> = names.zip(self.plane.paths_up().iter().copied()).collect();
        for (path, is_up) in &now {
            // Of a path that is new, nothing was told yet: it is as if it had been up.
            if self.paths_up.get(path).copied().unwrap_or(true) != *is_up {
                let kind = if *is_up { EventKind::PathReturned } else { EventKind::PathFailed };
                self.hook.iter_mut().for_each(|hook| hook.send(kind, "", path));
            }
        }
        self.paths_up = now;
    }

    /// Says which remote gateways answer, where that has changed.
    fn report_session_peers(&mut self) {
        let known = self.sessions.iter().filter_map(|sessions| sessions.reachable_peers().ok()).flatten();
        for ((remote, now), before) in known.zip(&mut self.reachable) {
            if *before != now {
                *before = now;
                let kind = if now { EventKind::PeerConnected } else { EventKind::PeerLost };
                self.hook.iter_mut().for_each(|hook| hook.send(kind, &remote, ""));
                match now {
                    true => tracing::info!("{remote}: connected"),
                    false => tracing::warn!("{remote}: not connected"),
                }
            }
        }
    }
}

/// A bonded gateway that runs.
struct BondedGateway {
    config: GatewayConfig,
    keys: RemoteKeys,
    threads: usize,
    // In the order in which they end.
    services: Services,
    plane: BondedPlane,
    activity: ActivityWatch,
    hook: Option<EventHook>,
    /// How many threads were last said to carry packets to each remote gateway, by its name.
    threads_told: BTreeMap<String, u32>,
}

/// What makes remote gateways others than before, though the configuration is the same.
struct RemoteKeys {
    identity: PrivateKey,
    /// By the remotes' names.
    psks: BTreeMap<String, PresharedKey>,
}

impl RemoteKeys {
    fn new(config: &GatewayConfig, keyed: &BondedConfig) -> Self {
        let names = config.remotes.iter().map(|remote| remote.name.clone());
        let psks = names.zip(keyed.remotes.iter().map(|remote| remote.psk.clone()));
        RemoteKeys { identity: keyed.identity.clone(), psks: psks.collect() }
    }
}

fn run_bonded(config: GatewayConfig, bonded: &BondedSettings, begun: RunContext<'_>) -> anyhow::Result<()> {
    let RunContext { claimed_name: claim, signals, file, hook, confinement } = begun;
    let keyed = bonded_config(&config, bonded)?;
    config.check_own_key(keyed.identity.public_key())?;
    config.forwarding_warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let keys = RemoteKeys::new(&config, &keyed);
    let activity = ActivityWatch::new(signals.waker());
    let plane = BondedPlane::start(keyed, activity.clone())?;
    let mut services = Services::start(&config)?;
    services.recorder.renew_when_asked(signals.waker());
    services.answer(&config, claim)?;
    note!("{}: {} paths carry the tunnel {}; Ctrl-C ends it", config.name, config.paths.len(), bonded.device);
    confinement.into_iter().for_each(Confinement::finish);
    let (threads, threads_told) = (bonded.threads, BTreeMap::new());
    let mut gateway = BondedGateway { config, plane, activity, keys, threads, services, hook, threads_told };
    while !signals.is_end_requested() && !gateway.activity.has_ended() {
        let read = file.filter(|_| signals.take_reload_request());
        let read = read.map(|file| (file, read_again(file, &gateway.config).and_then(|new| gateway.reconfigure(new))));
        // One that has ended says why when it is stopped.
        let (Ok(notices), Ok(known)) = (gateway.plane.take_notices(), gateway.plane.status()) else { break };
        let next = gateway.advance(&notices, &known);
        // Once the status shows it.
        read.iter().for_each(|(file, outcome)| log_reload(file, outcome));
        signals.wait(next).context("cannot wait for signals")?;
    }
    gateway.note_counts();
    Ok(gateway.plane.stop()?)
}

impl BondedGateway {
    /// Returns when to be called again, if nothing happens until then.
    fn advance(&mut self, notices: &[NodeNotice], known: &BondedStatus) -> Time {
        self.log_notices(notices);
        let (now, has_moved) = (clock::monotonic(), self.activity.has_moved());
        let Services { recorder, measurer, .. } = &mut self.services;
        if recorder.is_due(has_moved, now) {
            // What moves from now on is told.
            self.activity.take_movement();
            let Ok(()) = recorder.renew(|status, now| {
                measurer.iter().for_each(|measurer| measurer.fill_status(status, now));
                kumade_gateway::bonded::fill_bonded_status(known, status, now);
                Ok::<_, Infallible>(())
            });
        }
        self.report_threads(known);
        if let Some(measurer) = &mut self.services.measurer {
            measurer.update_bonded_rates(&self.plane);
        }
        let renewal = self.activity.has_moved().then(|| self.services.recorder.next_renewal());
        let has_checks = self.threads > 1 || self.services.measurer.is_some();
        let check = has_checks.then_some(now + SLOW_CHECK_INTERVAL);
        renewal.into_iter().chain(check).min().unwrap_or(Time::MAX)
    }

    fn reconfigure(&mut self, NewConfig { config, mut changes }: NewConfig) -> anyhow::Result<Vec<String>> {
        let Plane::Bonded(bonded) = &config.plane else { return Err(FixedSetting::OWN_KEY.into()) };
        let keyed = bonded_config(&config, bonded)?;
        config.check_own_key(keyed.identity.public_key())?;
        let keys = RemoteKeys::new(&config, &keyed);
        if keys.identity.public_key() != self.keys.identity.public_key() {
            return Err(FixedSetting::OWN_KEY.into());
        }
        let has_other_psk =
            |(name, psk): &(&String, &PresharedKey)| self.keys.psks.get(*name).is_some_and(|old| old != *psk);
        let rekeyed = keys.psks.iter().filter(has_other_psk);
        changes.extend(rekeyed.map(|(name, _)| format!("remote {name}: another preshared key in its file")));
        changes.extend(self.services.reconfigure(&self.config, &config)?);
        match self.plane.reconfigure(keyed) {
            Ok(notices) => self.log_notices(&notices),
            Err(error) => {
                self.services.reconfigure(&config, &self.config)?;
                return Err(error.into());
            }
        }
        config.forwarding_warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        self.threads_told.retain(|name, _| config.remotes.iter().any(|remote| remote.name == *name));
        (self.config, self.keys) = (config, keys);
        Ok(changes)
    }

    fn log_notices(&mut self, notices: &[NodeNotice]) {
        let BondedGateway { config, hook, .. } = self;
        let names: Vec<_> = config.remotes.iter().map(|remote| remote.name.clone()).collect();
        let name_path = |path: usize| config.paths.get(path).map(|path| path.name.clone()).unwrap_or_default();
        log_notices(notices, &names, name_path, hook);
    }

    /// Says how many of all threads carry packets to a remote gateway.
    fn report_threads(&mut self, known: &BondedStatus) {
        let all = self.threads;
        for (name, known) in self.config.remotes.iter().map(|remote| &remote.name).zip(&known.remotes) {
            let (carrying, told) = (known.reaching_shards, self.threads_told.get(name).copied());
            let is_settled = known.is_connected && clock::monotonic() - known.state_since > THREADS_SETTLE_TIME;
            if all <= 1 || !is_settled || carrying == 0 || told == Some(carrying) {
                continue;
            }
            self.threads_told.insert(name.clone(), carrying);
            if (carrying as usize) < all {
                let hint = "has it as many, and does the firewall pass their ports?";
                tracing::warn!(
                    "{name}: {carrying} of {all} threads carry packets, since the others are not answered: {hint}"
                );
            } else if told.is_some() {
                tracing::info!("{name}: all {all} threads carry packets");
            }
        }
    }

    fn note_counts(&self) {
        let Ok(known) = self.plane.status() else { return };
        for (remote, known) in self.config.remotes.iter().zip(&known.remotes) {
            for (path, known) in self.config.paths.iter().zip(&known.paths) {
                let sent = &known.status;
                note!("{} {}: {} packets, {} bytes", remote.name, path.name, sent.sent_packets, sent.sent_bytes);
            }
        }
    }
}
