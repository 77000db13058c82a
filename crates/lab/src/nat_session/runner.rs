use super::realtime;
use super::row::NatSessionRow;
use super::scenario::{NatPoint, NatSessionExperiment};
use super::virtual_time;
use crate::error::RunError;
use crate::run_repetition::{MAX_REPEATS, RepeatedRun, run_until_undisturbed};
use kumade_units::Span;

/// How far an experiment on NAT sessions has come.
#[derive(Debug, Clone, PartialEq)]
pub enum NatProgress<'a> {
    /// This run begins.
    Running(&'a NatPoint<'a>),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the links were.
        lateness: Span,
    },
    /// A run is done.
    Done(&'a NatSessionRow),
}

/// Runs every point of `experiment`; `stop` is asked before each run, and ends the experiment with the rows measured so far.
/// Rows come in the order of [`NatSessionExperiment::points`].
///
/// # Errors
/// Where the network or the gateways themselves failed, so that no further run makes sense.
pub fn run(
    experiment: &NatSessionExperiment,
    observer: &mut dyn FnMut(NatProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<NatSessionRow>, RunError> {
    let points = experiment.points();
    let mut rows = Vec::with_capacity(points.len());
    for point in points.iter().take_while(|_| !stop()) {
        observer(NatProgress::Running(point));
        let row = if experiment.virtual_time {
            virtual_time::run(experiment, point)
        } else {
            let repeating = |lateness| observer(NatProgress::Repeating { lateness });
            let run = || realtime::run(experiment, point);
            let RepeatedRun { row, repeats, disturbed } = run_until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
            NatSessionRow { repeats, disturbed, ..row }
        };
        observer(NatProgress::Done(&row));
        rows.push(row);
    }
    Ok(rows)
}

/// The number of runs and how long they will take, in words.
pub fn expected_time(experiment: &NatSessionExperiment) -> String {
    let points = experiment.points();
    let seconds: f64 = points.iter().map(|point| experiment.run_duration(point.case).as_secs_f64()).sum();
    let runs = points.len();
    match experiment.virtual_time {
        true => format!("{runs} runs of {seconds:.0} s together in virtual time"),
        false => {
            let minutes = (seconds + runs as f64 * SETUP_TIME.as_secs_f64()) / 60.0;
            format!("{runs} runs, about {minutes:.0} minutes in total")
        }
    }
}

/// How long it takes to build the sites, and until the gateways have met.
const SETUP_TIME: Span = Span::from_secs(3);
