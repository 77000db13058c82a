//! A process of the mesh, as the program runs it, but that nothing confines it and its log has each batch.

use kumade_daemon::signals::DaemonSignals;
use kumade_monitor::config::{MonitorConfig, RoleConfig};
use kumade_monitor::{MeshAgentRun, Monitor, Standby};
use kumade_noise_session::PresharedKey;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;
use tracing::Level;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs what a file says until SIGTERM comes.
///
/// # Errors
/// It cannot be begun, such as while the database is away; or another leads.
pub fn run_process(file: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_max_level(Level::TRACE).init();
    let signals = DaemonSignals::register(false)?;
    let read_key = |path: &Path| {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        PresharedKey::parse(text.trim()).map_err(|error| error.to_string())
    };
    match RoleConfig::from_toml(&fs::read_to_string(file)?, "mesh", &read_key)? {
        RoleConfig::Agent(config) => {
            config.make_archive_directory()?;
            let (agent, stop) = (MeshAgentRun::open(*config)?, AtomicBool::new(false));
            scope(|scope| {
                let running = scope.spawn(|| agent.run(&stop));
                while !signals.is_end_requested() && !running.is_finished() {
                    sleep(POLL_INTERVAL);
                }
                stop.store(true, Ordering::Relaxed);
                running.join().map_err(|_| "the agent has panicked")?.map_err(Into::into)
            })
        }
        RoleConfig::Monitor(config) => coordinate(*config, &signals),
    }
}

fn coordinate(config: MonitorConfig, signals: &DaemonSignals) -> Result<(), Box<dyn Error + Send + Sync>> {
    let leadership = match Standby::start(&config, &Default::default())? {
        None => None,
        Some(standby) => loop {
            if signals.is_end_requested() {
                return Ok(());
            }
            if let Some(leadership) = standby.take_leadership()? {
                break Some(leadership);
            }
            sleep(POLL_INTERVAL);
        },
    };
    let monitor = Monitor::start(config, leadership, Default::default())?;
    while !signals.is_end_requested() {
        monitor.check()?;
        sleep(POLL_INTERVAL);
    }
    Ok(monitor.stop()?)
}
