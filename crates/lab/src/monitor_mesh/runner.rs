use super::mesh_hosts::{MeshHosts, PAGE_ADDRESS};
use super::row::{DirectionTruth, MeshRow};
use super::scenario::MonitorMeshExperiment;
use super::status::{PairReading, RunReading};
use crate::error::RunError;
use crate::study::{Observer, Progress};
use kumade_net::clock;
use kumade_netns_testbed::{MAX_UNDISTURBED_LATENESS, ProxyFaults, TcpProxy};
use kumade_units::{Span, Time};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// What a run of the mesh takes besides the experiment.
#[derive(Debug)]
pub struct MeshRunSettings {
    /// The program `kumade`, which is run on each host.
    pub program: PathBuf,
    /// Where the page is served until the run is stopped; none where the run ends by itself, without a page.
    pub page: Option<TcpListener>,
}

const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Questions to the coordinator, which publishes no more often.
const STATUS_INTERVAL: Span = Span::from_secs(1);

/// Builds the mesh, and has it monitored until its time is over; with a page, or where `stop` says so, until it is stopped. Returns what the
/// monitor has measured, by time; with a page nothing, since nobody knows for how long. Returns besides whether its time was over, and it did
/// not end early.
///
/// # Errors
/// The network cannot be built, or a program ends.
pub fn run(
    experiment: &MonitorMeshExperiment,
    settings: MeshRunSettings,
    observer: &mut Observer<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<(Vec<MeshRow>, bool), RunError> {
    let failed = RunError::during("run the mesh");
    let mut mesh = MeshHosts::start(experiment, &settings.program).map_err(failed)?;
    let is_served = settings.page.is_some();
    // The listener is of the network outside; the page is within the coordinator's.
    let proxy = settings.page.map(|listener| {
        let start = || TcpProxy::start(listener, PAGE_ADDRESS, ProxyFaults::NO_FAULTS);
        anyhow::Ok(mesh.coordinator()?.namespace.run(start)??)
    });
    let _proxy = proxy.transpose().map_err(failed)?;
    observer(Progress::Running("measuring"));
    let end = clock::monotonic() + experiment.duration;
    let (mut seen, mut rows, mut next_question) = (BTreeSet::new(), Vec::new(), clock::monotonic());
    while !stop() && (is_served || clock::monotonic() < end) {
        thread::sleep(POLL_INTERVAL);
        let checked = mesh.check();
        if stop() {
            // Ctrl-C ends the programs as well.
            break;
        }
        checked.map_err(failed)?;
        if is_served || clock::monotonic() < next_question {
            continue;
        }
        next_question = clock::monotonic() + STATUS_INTERVAL;
        for pair in mesh.status().into_iter().flat_map(|status| status.pairs) {
            if let Some(run) = pair.run.as_ref().filter(|run| seen.insert(run.id)) {
                let new = rows_of_run(&mesh, &pair, run);
                new.iter().for_each(|row| observer(Progress::Done(&format!("{} → {}", row.from, row.to), 1)));
                rows.extend(new);
            }
        }
    }
    Ok((rows, clock::monotonic() >= end))
}

/// A row for each direction whose truth is on record.
fn rows_of_run(mesh: &MeshHosts, pair: &PairReading, run: &RunReading) -> Vec<MeshRow> {
    let [source, target] = pair.ends.each_ref().map(String::as_str);
    let from = Time::ZERO + Span::from_secs_f64(run.start_seconds);
    let to = from + Span::from_secs_f64(run.duration_seconds);
    let network = &mesh.network;
    let disturbed = network.lateness(from, to).is_ok_and(|lateness| lateness.p99 > MAX_UNDISTURBED_LATENESS);
    let row = |(ends, figure)| {
        let truth = DirectionTruth {
            available: network.available_bandwidth(ends, from, to).ok()?,
            base_round_trip: network.base_round_trip(ends).ok()?,
            disturbed,
        };
        Some(MeshRow::new(ends, pair, run, figure, truth))
    };
    let directions = [([source, target], run.up.as_ref()), ([target, source], run.down.as_ref())];
    directions.into_iter().filter_map(row).collect()
}
