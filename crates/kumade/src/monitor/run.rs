//! A monitor that runs until a signal comes.

use super::registry::monitor_registry;
use crate::descriptors::raise_descriptor_limit;
use crate::output::note;
use anyhow::Context;
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::MonitorConfig;
use kumade_monitor::{Monitor, MonitorStatus, Reply, Request};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Maximum time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Monitors until a signal comes.
///
/// # Errors
/// The name is taken, the archive cannot be opened, or the page not be served.
pub(super) fn run(config: MonitorConfig, name: &str) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(false).context("cannot listen for signals")?;
    let claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let count = config.targets.len();
    let monitor = Monitor::start(config)?;
    let latest = monitor.status();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(MonitorStatus::clone(&latest.borrow()))),
    })?;
    note!("monitoring {} paths; the page: http://{}/", count, monitor.page_address());
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
