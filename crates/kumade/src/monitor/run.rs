//! A monitor that runs until a signal comes.

use super::registry::monitor_registry;
use crate::descriptors::raise_descriptor_limit;
use crate::output::note;
use anyhow::{Context, anyhow};
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::{AgentConfig, MonitorConfig};
use kumade_monitor::{MeshAgentRun, Monitor, MonitorStatus, Reply, Request};
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
pub(super) fn run_agent(config: AgentConfig, name: &str) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(false).context("cannot listen for signals")?;
    let _claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let (coordinator, own) = (config.coordinator_host.clone(), config.identity.public_key());
    let agent = MeshAgentRun::open(config)?;
    note!("an agent of {coordinator}; its public key: {own}");
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

/// Monitors until a signal comes.
///
/// # Errors
/// The name is taken, the archive cannot be opened, or the page not be served.
pub(super) fn run(config: MonitorConfig, name: &str) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(false).context("cannot listen for signals")?;
    let claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let count = config.targets.len();
    let public_key = config.mesh.as_ref().map(|mesh| mesh.identity.public_key().to_string());
    let monitor = Monitor::start(config)?;
    let latest = monitor.status();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(MonitorStatus::clone(&latest.borrow()))),
    })?;
    note!("monitoring {} paths; the page: http://{}/", count, monitor.page_address());
    if let Some(address) = monitor.agent_address() {
        note!("agents connect to {address}; the public key: {}", public_key.unwrap_or_default());
    }
    if let Some(address) = monitor.metrics_address() {
        note!("metrics: http://{address}/metrics");
    }
    while !signals.is_end_requested() {
        thread::sleep(POLL_INTERVAL);
        monitor.check()?;
    }
    monitor.stop()?;
    Ok(ExitCode::SUCCESS)
}
