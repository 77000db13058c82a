//! A monitor that runs until a signal comes.

use super::registry::monitor_registry;
use crate::descriptors::raise_descriptor_limit;
use crate::output::note;
use anyhow::Context;
use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::MonitorConfig;
use kumade_monitor::{Leadership, Monitor, MonitorError, MonitorStatus, Reply, Request, Standby};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
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
    let empty = MonitorStatus::empty(&config.name);
    let current: CurrentStatus = Arc::new(Mutex::new(Box::new(move || empty.clone())));
    let latest = current.clone();
    let _control = claim.serve(move |request| match request {
        Request::Status => Reply::Status(Box::new(latest.lock().unwrap_or_else(PoisonError::into_inner)())),
    })?;
    // Until a signal comes, or another host leads: then this one stands by again.
    loop {
        let leadership = match Standby::start(&config)? {
            Some(standby) => match stand_by(&standby, &signals, &current)? {
                Some(leadership) => Some(leadership),
                None => return Ok(ExitCode::SUCCESS),
            },
            None => None,
        };
        let monitor = Monitor::start(config.clone(), leadership)?;
        let status = monitor.status();
        set_status(&current, move || MonitorStatus::clone(&status.borrow()));
        note!("monitoring {} paths; the page: http://{}/", config.targets.len(), monitor.page_address());
        if let Some(address) = monitor.metrics_address() {
            note!("metrics: http://{address}/metrics");
        }
        let checked = wait_for_end(&monitor, &signals);
        match (checked, monitor.stop()) {
            (Err(MonitorError::Deposed), _) => note!("another host has taken over: standing by"),
            (checked, stopped) => return Ok(checked.and(stopped).map(|()| ExitCode::SUCCESS)?),
        }
    }
}

/// Of the monitor, or of what stands by.
type CurrentStatus = Arc<Mutex<Box<dyn Fn() -> MonitorStatus + Send>>>;

/// None where a signal came first.
fn stand_by(standby: &Standby, signals: &DaemonSignals, current: &CurrentStatus) -> anyhow::Result<Option<Leadership>> {
    let status = standby.status();
    set_status(current, move || MonitorStatus::clone(&status.borrow()));
    note!("standing by until no other host leads; the page: http://{}/", standby.page_address());
    while !signals.is_end_requested() {
        if let Some(leadership) = standby.take_leadership()? {
            return Ok(Some(leadership));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(None)
}

fn wait_for_end(monitor: &Monitor, signals: &DaemonSignals) -> Result<(), MonitorError> {
    while !signals.is_end_requested() {
        thread::sleep(POLL_INTERVAL);
        monitor.check()?;
    }
    Ok(())
}

fn set_status(current: &CurrentStatus, status: impl Fn() -> MonitorStatus + Send + 'static) {
    *current.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(status);
}
