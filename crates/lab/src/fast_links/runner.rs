use super::realtime::Testbed;
use super::row::FastLinkRow;
use super::scenario::{FastLinkPath, FastLinkPoint, FastLinks};
use crate::error::RunError;

/// How far an experiment on fast links has come.
#[derive(Debug, Clone, PartialEq)]
pub enum FastLinksProgress<'a> {
    /// A network is built.
    Building(FastLinkPath),
    /// A measurement begins.
    Running(&'a FastLinkPoint),
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
    experiment: &FastLinks,
    observer: &mut dyn FnMut(FastLinksProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<FastLinksOutcome, RunError> {
    let mut rows = Vec::with_capacity(experiment.measurements());
    for path in experiment.paths().into_iter().take_while(|_| !stop()) {
        observer(FastLinksProgress::Building(path));
        let testbed = Testbed::build(path, experiment.queue)?;
        for point in experiment.points_on(path).iter().take_while(|_| !stop()) {
            observer(FastLinksProgress::Running(point));
            let row = testbed.measure(point)?;
            observer(FastLinksProgress::Done(&row));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The number of runs and how long they take, in words.
pub fn expected_time(experiment: &FastLinks) -> String {
    format!("{} measurements of about 1 s in real time", experiment.measurements())
}
