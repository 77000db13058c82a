use super::realtime::{self, ContentionAttempt};
use super::row::ContentionRow;
use super::scenario::{ContentionCase, ContentionExperiment, ContentionPoint};
use super::{search, virtual_time};
use crate::error::RunError;
use crate::fairness::KernelControllers;
use crate::parallel::run_in_parallel;
use crate::run_repetition::{MAX_LATENESS, MAX_REPEATS, RepeatedRun, RunOutcome, run_until_undisturbed};
use kumade_units::Span;

/// How far an experiment on contention has come.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentionProgress<'a> {
    /// A search has found this, after so many patterns.
    Searched(u32, &'a ContentionCase),
    /// This run begins, in real time.
    Running(&'a ContentionPoint<'a>),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the link was.
        lateness: Span,
    },
    /// A run is done.
    Done(&'a ContentionRow),
}

/// Runs every case of `experiment`, or those that a search comes to; in virtual time on all processors. `stop` is asked before
/// each run and each search, and ends the experiment with the rows measured so far. Returns the cases with their rows, which
/// are in the order of [`ContentionExperiment::points`].
///
/// # Errors
/// A network that the simulator or the system refuses.
pub fn run(
    experiment: &ContentionExperiment,
    observer: &mut dyn FnMut(ContentionProgress<'_>),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Vec<ContentionCase>, Vec<ContentionRow>), RunError> {
    let cases = match experiment.search {
        None => experiment.cases.clone(),
        Some(search) => {
            let searches = experiment.attack_searches();
            let mut done = |case: &ContentionCase| observer(ContentionProgress::Searched(search.evaluations, case));
            run_in_parallel(&searches, &mut done, stop, &|searched| search::worst_attack(experiment, search, searched))?
        }
    };
    let points = experiment.points(&cases);
    let rows = if experiment.virtual_time {
        let mut done = |row: &ContentionRow| observer(ContentionProgress::Done(row));
        run_in_parallel(&points, &mut done, stop, &|point| virtual_time::run(experiment, point))?
    } else {
        run_in_real_time(experiment, &points, observer, stop)?
    };
    Ok((cases, rows))
}

fn run_in_real_time(
    experiment: &ContentionExperiment,
    points: &[ContentionPoint<'_>],
    observer: &mut dyn FnMut(ContentionProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<ContentionRow>, RunError> {
    let kernel = KernelControllers::load_controls(points.iter().flat_map(|point| &point.case.bulk))?;
    let mut rows = Vec::with_capacity(points.len());
    for point in points.iter().take_while(|_| !stop()) {
        observer(ContentionProgress::Running(point));
        let run = || {
            let ContentionAttempt { row, lateness, missed_packets: missed } =
                realtime::run(&kernel, experiment, point)?;
            Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_LATENESS || missed > 0 })
        };
        let repeating = |lateness| observer(ContentionProgress::Repeating { lateness });
        let RepeatedRun { row, repeats, disturbed } = run_until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
        let row = ContentionRow { repeats, disturbed, ..row };
        observer(ContentionProgress::Done(&row));
        rows.push(row);
    }
    Ok(rows)
}

/// The number of runs and how long they take, in words.
pub fn expected_time(experiment: &ContentionExperiment) -> String {
    let each = (experiment.warm_up + experiment.duration).as_secs_f64();
    let clock = if experiment.virtual_time { "virtual time" } else { "real time, repeated where disturbed" };
    format!("{} runs of {each:.0} s each in {clock}", experiment.run_count())
}
