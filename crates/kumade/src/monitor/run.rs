//! A monitor that runs until a signal comes.

use super::alert_command::helper;
use super::config_file::read_config;
use super::registry::monitor_registry;
use crate::confinement::Confinement;
use crate::descriptors::raise_descriptor_limit;
use crate::notices::log_reload;
use crate::output::note;
use anyhow::Context;
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::MonitorConfig;
use kumade_monitor::{Monitor, MonitorStatus, Reply, Request};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Maximum time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

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
    let claim = monitor_registry().lock_name(name)?;
    raise_descriptor_limit();
    let count = config.targets.len();
    config.make_archive_directory()?;
    config.alerts.start_commands(helper).context("cannot start the processes that run the commands of [[notify]]")?;
    let mut confinement = Confinement::unless_kept(keeps_privileges);
    if let Some(confinement) = &mut confinement {
        let ports = [Some(config.page), config.prometheus].into_iter().flatten().map(|address| address.port());
        confinement.keep_monitor_privileges(ports, &config.archive);
    }
    let mut monitor = Monitor::start(config)?;
    let latest = monitor.status();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(MonitorStatus::clone(&latest.borrow()))),
    })?;
    let scheme = if monitor.is_encrypted() { "https" } else { "http" };
    note!("monitoring {} paths; the page: {scheme}://{}/", count, monitor.page_address());
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
