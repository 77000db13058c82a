//! A monitored mesh, and its page.

use crate::output::note;
use anyhow::{Context, bail};
use kumade_lab::monitor_mesh::{self, MeshRunSettings, MonitorMeshExperiment};
use kumade_lab::{Experiment, Progress};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

/// Listens for visitors of the page. Call it before the program enters a user namespace, which has a network of its own.
///
/// # Errors
/// These are other experiments, others could reach the address, or it cannot be had.
pub(super) fn open_page(
    address: SocketAddr,
    experiments: &[Experiment],
) -> anyhow::Result<(&MonitorMeshExperiment, TcpListener)> {
    let mesh = if let [experiment] = experiments { experiment.scenario() } else { None };
    let mesh = mesh.context("--serve goes with a monitored mesh alone: kumade lab run monitor-mesh --serve")?;
    if !address.ip().is_loopback() {
        bail!(
            "the page of a lab has no guard, so that it is served on this host alone: choose 127.0.0.1 or [::1], not {address}"
        );
    }
    let page = TcpListener::bind(address).with_context(|| {
        format!("cannot serve the page at {address}; choose another port, as in --serve=127.0.0.1:8280")
    })?;
    Ok((mesh, page))
}

/// Runs the mesh with a page until it is stopped.
pub(super) fn serve_mesh(mesh: &MonitorMeshExperiment, page: TcpListener, stop: &AtomicBool) -> anyhow::Result<()> {
    let address = page.local_addr()?;
    let (name, sites, period) = (&mesh.name, mesh.sites.len(), mesh.period);
    note!("{name}: {sites} sites, each measured to each other every {period}, until it is stopped");
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut show = |progress: Progress<'_>| {
        if let Progress::Running(_) = progress {
            note!("the page: http://{address}/ (Ctrl-C ends it)");
        }
    };
    let settings = MeshRunSettings { program, page: Some(page) };
    monitor_mesh::run(mesh, settings, &mut show, &|| stop.load(Ordering::Relaxed))?;
    Ok(())
}
