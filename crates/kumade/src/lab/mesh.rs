//! A monitored mesh, and its page.

use super::progress::{ReportWithRuns, progress_bar};
use crate::output::note;
use anyhow::{Context, bail};
use kumade_lab::Experiment;
use kumade_lab::monitor_mesh::{self, MeshProgress, MeshRunSettings, MonitorMeshExperiment, MonitorMeshReport};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

/// Listens for visitors of the page. Call it before the program enters a user namespace, which has a network of its own.
///
/// # Errors
/// These are other experiments, others could reach the address, or it cannot be had.
pub(super) fn open_page(address: SocketAddr, experiments: &[Experiment]) -> anyhow::Result<TcpListener> {
    if !matches!(experiments, [Experiment::MonitorMesh(_)]) {
        bail!("--serve goes with a monitored mesh alone: kumade lab run monitor-mesh --serve");
    }
    if !address.ip().is_loopback() {
        bail!(
            "the page of a lab has no guard, so that it is served on this host alone: choose 127.0.0.1 or [::1], not {address}"
        );
    }
    TcpListener::bind(address).with_context(|| {
        format!("cannot serve the page at {address}; choose another port, as in --serve=127.0.0.1:8280")
    })
}

/// Runs the mesh: with a page until it is stopped, else for its time.
pub(super) fn run_mesh(
    experiment: &MonitorMeshExperiment,
    page: Option<TcpListener>,
    stop: &AtomicBool,
) -> anyhow::Result<ReportWithRuns> {
    let address = page.as_ref().map(TcpListener::local_addr).transpose()?;
    note!("{}: {}", experiment.name, monitor_mesh::expected_time(experiment, page.is_some()));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(experiment.direction_count() as u64);
    let started = kumade_lab::now_utc();
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut show = |progress: MeshProgress<'_>| match (progress, address) {
        (MeshProgress::Running, Some(address)) => {
            bar.finish_and_clear();
            note!("the page: http://{address}/ (Ctrl-C ends it)");
        }
        (MeshProgress::Running, None) => bar.set_message(format!("{}: measuring", experiment.name)),
        (MeshProgress::Measured(row), _) => {
            bar.set_message(format!("{}: {} → {}", experiment.name, row.from, row.to));
            bar.inc(1);
        }
    };
    let settings = MeshRunSettings { program, page };
    let rows = monitor_mesh::run(experiment, settings, &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = rows.len();
    Ok((Box::new(MonitorMeshReport::new(experiment, started, rows)), measured))
}
