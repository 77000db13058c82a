use super::kernel_network::KernelControllers;
use super::realtime::{self, FairnessAttempt};
use super::row::FairnessRow;
use super::scenario::{FairnessExperiment, FairnessPoint};
use super::virtual_time;
use crate::error::RunError;
use crate::parallel::run_in_parallel;
use crate::run_repetition::{MAX_LATENESS, MAX_REPEATS, RepeatedRun, RunOutcome, run_until_undisturbed};
use kumade_units::Span;

/// How far an experiment on fairness has come.
#[derive(Debug, Clone, PartialEq)]
pub enum FairnessProgress<'a> {
    /// This run begins.
    Running(&'a FairnessPoint<'a>),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the link was.
        lateness: Span,
    },
    /// A run is done.
    Done(&'a FairnessRow),
}

/// Runs every point of `experiment`; `stop` is asked before each run, and ends the experiment with the rows measured so far.
/// Virtual runs are spread over all processors; the result does not depend on it. Rows come in the order of
/// [`FairnessExperiment::points`].
///
/// # Errors
/// Where the network itself failed, so that no further run makes sense.
pub fn run(
    experiment: &FairnessExperiment,
    observer: &mut dyn FnMut(FairnessProgress<'_>),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<FairnessRow>, RunError> {
    let points = experiment.points();
    if experiment.virtual_time {
        let mut done = |row: &FairnessRow| observer(FairnessProgress::Done(row));
        return run_in_parallel(&points, &mut done, stop, &|point| virtual_time::run(experiment, point));
    }
    let kernel = KernelControllers::load_controls(experiment.cases.iter().flat_map(|case| &case.groups))?;
    let mut rows = Vec::with_capacity(points.len());
    for point in points.iter().take_while(|_| !stop()) {
        observer(FairnessProgress::Running(point));
        let row = run_in_real_time(&kernel, experiment, point, observer, stop)?;
        observer(FairnessProgress::Done(&row));
        rows.push(row);
    }
    Ok(rows)
}

fn run_in_real_time(
    kernel: &KernelControllers,
    experiment: &FairnessExperiment,
    point: &FairnessPoint<'_>,
    observer: &mut dyn FnMut(FairnessProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<FairnessRow, RunError> {
    let run = || {
        let FairnessAttempt { row, lateness, missed_packets: missed } = realtime::run(kernel, experiment, point)?;
        Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_LATENESS || missed > 0 })
    };
    let repeating = |lateness| observer(FairnessProgress::Repeating { lateness });
    let RepeatedRun { row, repeats, disturbed } = run_until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
    Ok(FairnessRow { repeats, disturbed, ..row })
}

/// The number of runs and how long they will take, in words.
pub fn expected_time(experiment: &FairnessExperiment) -> String {
    let runs = experiment.points().len();
    let each = (experiment.warm_up + experiment.duration).as_secs_f64();
    match experiment.virtual_time {
        true => format!("{runs} runs of {each:.0} s each in virtual time"),
        false => {
            let minutes = runs as f64 * (each + SETUP_TIME.as_secs_f64()) / 60.0;
            format!("{runs} runs of {each:.0} s each, about {minutes:.0} minutes in total")
        }
    }
}

/// How long it takes to build a network and to close its connections.
const SETUP_TIME: Span = Span::from_millis(1500);
