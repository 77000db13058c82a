use super::realtime::{FastLinkTestbed, emulated_network, kernel_network};
use super::row::FastLinkRow;
use super::scenario::{FastLinkPath, FastLinkPoint, FastLinksExperiment};
use crate::accuracy::BottleneckKind;
use crate::error::RunError;
use crate::run_repetition::{MAX_REPEATS, run_until_undisturbed};
use kumade_netns_testbed::FastFabric;
use kumade_units::Span;

/// How far an experiment on fast links has come.
#[derive(Debug, Clone, PartialEq)]
pub enum FastLinksProgress<'a> {
    /// A network is built.
    Building(FastLinkPath),
    /// A measurement begins.
    Running(&'a FastLinkPoint),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// By how much the emulated link was late.
        lateness: Span,
    },
    /// A measurement is done.
    Done(&'a FastLinkRow),
}

/// The measurements in order: by network, load, transport and run.
pub type FastLinksOutcome = Vec<FastLinkRow>;

/// Measures every point; `stop` is asked before each, and ends the experiment with the rows measured so far.
///
/// # Errors
/// A network cannot be built, for instance since this machine has no HTB.
pub fn run(
    experiment: &FastLinksExperiment,
    observer: &mut dyn FnMut(FastLinksProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<FastLinksOutcome, RunError> {
    let mut rows = Vec::with_capacity(experiment.measurement_count());
    for path in experiment.paths().into_iter().take_while(|_| !stop()) {
        observer(FastLinksProgress::Building(path));
        let points = experiment.points_on(path);
        rows.extend(match experiment.bottleneck {
            BottleneckKind::Htb => run_on_network(kernel_network(path, experiment.queue)?, &points, observer, stop)?,
            _ => run_on_network(emulated_network(path, experiment.queue)?, &points, observer, stop)?,
        });
    }
    Ok(rows)
}

/// Measures the points of one network.
fn run_on_network<F: FastFabric>(
    network: F,
    points: &[FastLinkPoint],
    observer: &mut dyn FnMut(FastLinksProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<FastLinksOutcome, RunError> {
    let Some(first) = points.first() else { return Ok(Vec::new()) };
    let testbed = FastLinkTestbed::new(network, first.path.mtu)?;
    let mut rows = Vec::with_capacity(points.len());
    for point in points.iter().take_while(|_| !stop()) {
        observer(FastLinksProgress::Running(point));
        let repeating = |lateness| observer(FastLinksProgress::Repeating { lateness });
        let repeated = run_until_undisturbed(MAX_REPEATS, || testbed.measure(point), repeating, stop)?;
        let row = FastLinkRow { repeats: repeated.repeats, disturbed: repeated.disturbed, ..repeated.row };
        observer(FastLinksProgress::Done(&row));
        rows.push(row);
    }
    Ok(rows)
}

/// The number of runs and how long they take, in words.
pub fn expected_time(experiment: &FastLinksExperiment) -> String {
    format!("{} measurements of about 1 s in real time, repeated where disturbed", experiment.measurement_count())
}
