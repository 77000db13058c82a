//! A monitor that runs until a signal comes.

use super::config_file::read_config;
use super::registry::monitor_registry;
use crate::confinement::Confinement;
use crate::descriptors::raise_descriptor_limit;
use crate::notices::log_reload;
use crate::output::note;
use anyhow::{Context, anyhow};
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::{AgentConfig, MonitorConfig};
use kumade_monitor::{MeshAgentRun, Monitor, MonitorStatus, Reply, Request};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Maximum time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Measures for a coordinator until a signal comes.
///
/// # Errors
/// The name is taken, or the archive's directory cannot be used.
pub(super) fn run_agent(config: AgentConfig, name: &str, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(false).context("cannot listen for signals")?;
    let _claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let (coordinator, own) = (config.coordinator_host.clone(), config.identity.public_key());
    config.make_archive_directory()?;
    let mut confinement = Confinement::unless_kept(keeps_privileges);
    if let Some(confinement) = &mut confinement {
        confinement.keep_monitor_privileges([config.port, config.stamp_port], &config.archive);
    }
    let agent = MeshAgentRun::open(config)?;
    note!("an agent of {coordinator}; its public key: {own}");
    if let Some(confinement) = confinement {
        confinement.finish();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| agent.run(&stop));
        while !signals.is_end_requested() && !running.is_finished() {
            thread::sleep(POLL_INTERVAL);
        }
        stop.store(true, Ordering::Relaxed);
        running.join().map_err(|_| anyhow!("the agent has ended by a fault of the program"))
    })??;
    Ok(ExitCode::SUCCESS)
}

/// Monitors until a signal comes; SIGHUP has the file read again.
///
/// # Errors
/// The name is taken, the archive cannot be opened, or the page not be served.
pub(super) fn run(config: MonitorConfig, file: &Path, name: &str, keeps_privileges: bool) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(true).context("cannot listen for signals")?;
    let claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let count = config.targets.len();
    let public_key = config.mesh.as_ref().map(|mesh| mesh.identity.public_key().to_string());
    config.make_archive_directory()?;
    let mut confinement = Confinement::unless_kept(keeps_privileges);
    if let Some(confinement) = &mut confinement {
        let ports = [Some(config.page), config.prometheus, config.mesh.as_ref().map(|mesh| mesh.listen)];
        let ports = ports.into_iter().flatten().map(|address| address.port());
        confinement.keep_monitor_privileges(ports, &config.archive);
    }
    let mut monitor = Monitor::start(config)?;
    let latest = monitor.status();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(MonitorStatus::clone(&latest.borrow()))),
    })?;
    let scheme = if monitor.is_encrypted() { "https" } else { "http" };
    note!("monitoring {} paths; the page: {scheme}://{}/", count, monitor.page_address());
    if let Some(address) = monitor.agent_address() {
        note!("agents connect to {address}; the public key: {}", public_key.unwrap_or_default());
    }
    if let Some(address) = monitor.metrics_address() {
        note!("metrics: http://{address}/metrics");
    }
    if let Some(confinement) = confinement {
        confinement.finish();
    }
    while !signals.is_end_requested() {
        thread::sleep(POLL_INTERVAL);
        monitor.check()?;
        if signals.take_reload_request() {
            reload(&mut monitor, file);
        }
    }
    monitor.stop()?;
    Ok(ExitCode::SUCCESS)
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
