//! A monitor that runs until a signal comes.

use super::{monitor_registry, read_config};
use crate::descriptors::raise_descriptor_limit;
use crate::notices::log_reload;
use crate::output::note;
use anyhow::{Context, anyhow};
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::MonitorConfig;
use kumade_monitor::{Monitor, Reply, Request};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Maximum time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Monitors until a signal comes. SIGHUP has the file read again.
///
/// # Errors
/// The name is taken, the archive cannot be opened, or the page not be served.
pub(super) fn run(file: &Path, config: MonitorConfig, name: &str) -> anyhow::Result<ExitCode> {
    let signals = DaemonSignals::register(true).context("cannot listen for signals")?;
    let claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let mut monitor = Monitor::start(config)?;
    let latest = monitor.latest_status();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(latest.get())),
    })?;
    note!("monitoring {} paths; the page: http://{}/", monitor.pair_count(), monitor.page_address());
    while !signals.is_end_requested() {
        if signals.take_reload_request() {
            let outcome = match read_config(file) {
                Ok(Ok(config)) => monitor.reload(config).map_err(anyhow::Error::from),
                Ok(Err(error)) => Err(anyhow!(error)),
                Err(error) => Err(error),
            };
            log_reload(file, &outcome);
        }
        thread::sleep(POLL_INTERVAL);
        monitor.check()?;
    }
    monitor.stop()?;
    Ok(ExitCode::SUCCESS)
}
