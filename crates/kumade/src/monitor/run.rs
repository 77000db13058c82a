//! A monitor that runs until a signal comes.

use super::alert_command::helper;
use super::config_file::read_config;
use crate::confinement::Confinement;
use crate::descriptors::raise_descriptor_limit;
use crate::notices::log_reload;
use crate::output::note;
use crate::running::registry;
use anyhow::{Context, anyhow};
use kumade_daemon::ActivityWatch;
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::{AgentConfig, MonitorConfig};
use kumade_monitor::{
    Leadership, MeshAgentRun, Monitor, MonitorError, MonitorProtocol, MonitorStatus, Reply, Request, Standby,
};
use kumade_units::Time;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Measures for a coordinator until a signal comes.
///
/// # Errors
/// The name is taken, or the archive's directory cannot be used.
pub(super) fn run_agent(config: AgentConfig, name: &str, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(false).context("cannot listen for signals")?;
    let _claim = registry::<MonitorProtocol>().lock_name(name)?;
    raise_descriptor_limit();
    let hosts: Vec<&str> = config.coordinators.iter().map(|(host, _)| host.as_str()).collect();
    let (coordinator, own) = (hosts.join(" or "), config.identity.public_key());
    config.make_archive_directory()?;
    let ports = [config.port, config.stamp_port];
    let confinement = (!keeps_privileges).then(|| Confinement::to_monitor(ports, Some(&config.archive)));
    let agent = MeshAgentRun::open(config)?;
    note!("an agent of {coordinator}; its public key: {own}");
    confinement.into_iter().for_each(Confinement::finish);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ended = ActivityWatch::new(signals.waker());
        let end_notice = ended.end_notice();
        let stop = &stop;
        let running = scope.spawn(move || {
            let _end_notice = end_notice;
            agent.run(stop)
        });
        let mut waited = Ok(());
        while !signals.is_end_requested() && !ended.has_ended() && waited.is_ok() {
            waited = signals.wait(Time::MAX);
        }
        stop.store(true, Ordering::Relaxed);
        waited.context("cannot wait for signals")?;
        anyhow::Ok(running.join().map_err(|_| anyhow!("the agent has ended by a fault of the program"))??)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Monitors until a signal comes; SIGHUP has the file read again.
///
/// # Errors
/// The name is taken, the archive cannot be opened, or the page not be served.
pub(super) fn run(
    mut config: MonitorConfig,
    file: &Path,
    name: &str,
    keeps_privileges: bool,
) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(true).context("cannot listen for signals")?;
    let claim = registry::<MonitorProtocol>().lock_name(name)?;
    raise_descriptor_limit();
    config.make_archive_directory()?;
    config.alerts.start_commands(helper).context("cannot start the processes that run the commands of [[notify]]")?;
    let mut confinement = (!keeps_privileges).then(|| {
        let ports = [Some(config.page), config.prometheus, config.mesh.as_ref().map(|mesh| mesh.listen)];
        let own_agent = config.mesh.as_ref().and_then(|mesh| mesh.own_agent);
        let agent_ports = own_agent.into_iter().flat_map(|agent| [agent.port, agent.stamp_port]);
        let ports = ports.into_iter().flatten().map(|address| address.port()).chain(agent_ports);
        let archive = (!config.is_archive_shared()).then_some(config.archive.as_path());
        Confinement::to_monitor(ports, archive)
    });
    let empty = MonitorStatus::empty(&config.name);
    let current: CurrentStatus = Arc::new(Mutex::new(Box::new(move || empty.clone())));
    let latest = current.clone();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(latest.lock().unwrap_or_else(PoisonError::into_inner)())),
    })?;
    // Until a signal comes, or another host leads: then this one stands by again.
    loop {
        let ended = ActivityWatch::new(signals.waker());
        let leadership = match Standby::start(&config, &ended)? {
            Some(standby) => match stand_by(standby, &signals, &current)? {
                StandbyEnd::Leads(leadership) => Some(*leadership),
                StandbyEnd::Reload => {
                    reload_standby(&mut config, file);
                    continue;
                }
                StandbyEnd::Signal => return Ok(ExitCode::SUCCESS),
            },
            None => None,
        };
        let mut monitor = Monitor::start(config, leadership, ActivityWatch::new(signals.waker()))?;
        let status = monitor.status();
        set_status(&current, move || MonitorStatus::clone(&status.borrow()));
        say_what_runs(&monitor);
        match confinement.take() {
            // The database may be behind one, and is connected to again.
            Some(confinement) if monitor.config().is_archive_shared() => confinement.finish_with_local_sockets(),
            confinement => confinement.into_iter().for_each(Confinement::finish),
        }
        let ended = wait_for_end(&mut monitor, file, &signals);
        config = monitor.config().clone();
        match (ended, monitor.stop()) {
            (Err(MonitorError::Deposed), _) => note!("another host has taken over"),
            (ended, stopped) => return Ok(ended.and(stopped).map(|()| ExitCode::SUCCESS)?),
        }
    }
}

/// Of the monitor, or of what stands by.
type CurrentStatus = Arc<Mutex<Box<dyn Fn() -> MonitorStatus + Send>>>;

/// Why one stands by no longer.
enum StandbyEnd {
    Leads(Box<Leadership>),
    Reload,
    Signal,
}

fn stand_by(standby: Standby, signals: &DaemonSignals, current: &CurrentStatus) -> anyhow::Result<StandbyEnd> {
    let status = standby.status();
    set_status(current, move || MonitorStatus::clone(&status.borrow()));
    note!("standing by until no other host leads; the page: {}", standby.page_url());
    while !signals.is_end_requested() {
        if let Some(leadership) = standby.take_leadership()? {
            return Ok(StandbyEnd::Leads(Box::new(leadership)));
        }
        if signals.take_reload_request() {
            return Ok(StandbyEnd::Reload);
        }
        signals.wait(Time::MAX).context("cannot wait for signals")?;
    }
    Ok(StandbyEnd::Signal)
}

fn say_what_runs(monitor: &Monitor) {
    let scheme = if monitor.is_encrypted() { "https" } else { "http" };
    let count = monitor.config().targets.len();
    note!("monitoring {count} paths; the page: {scheme}://{}/", monitor.page_address());
    if let (Some(address), Some(mesh)) = (monitor.agent_address(), &monitor.config().mesh) {
        note!("agents connect to {address}; the public key: {}", mesh.identity.public_key());
    }
    if let Some(address) = monitor.metrics_address() {
        note!("metrics: http://{address}/metrics");
    }
}

fn wait_for_end(monitor: &mut Monitor, file: &Path, signals: &DaemonSignals) -> Result<(), MonitorError> {
    while !signals.is_end_requested() {
        monitor.check()?;
        if signals.take_reload_request() {
            reload(monitor, file);
        }
        // Last: what came while this one stood by has woken it already.
        signals.wait(Time::MAX).map_err(MonitorError::System)?;
    }
    Ok(())
}

/// What it will do is read again; what it shows meanwhile begins anew.
fn reload_standby(config: &mut MonitorConfig, file: &Path) {
    let outcome = read_config(file).and_then(|new| {
        let new = new?;
        let changes = config.changes_to(&new)?;
        *config = new;
        Ok(changes)
    });
    log_reload(file, &outcome);
}

fn set_status(current: &CurrentStatus, status: impl Fn() -> MonitorStatus + Send + 'static) {
    *current.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(status);
}

/// Goes on with what the file says now; if that makes no sense, or cannot be, with what it said before.
fn reload(monitor: &mut Monitor, file: &Path) {
    let reconfigure = |config| monitor.reconfigure(config).map_err(anyhow::Error::from);
    let outcome = read_config(file).and_then(|config| config.map_err(anyhow::Error::from)).and_then(reconfigure);
    log_reload(file, &outcome);
    if let Err(error) = outcome {
        monitor.note_refused_configuration(&format!("{error:#}"));
    }
}
