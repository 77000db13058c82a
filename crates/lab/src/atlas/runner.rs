use super::buildable::ExcludedPath;
use super::realtime;
use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::Transport;
use crate::error::RunError;
use crate::parallel::run_in_parallel;
use crate::run_repetition::{MAX_REPEATS, RepeatedRun, RunOutcome, run_until_undisturbed};
use anyhow::anyhow;
use kumade_estimate::MethodSettings;
use kumade_netns_testbed::MAX_UNDISTURBED_LATENESS;
use kumade_sim::atlas::PathResult;
use kumade_units::Span;

/// How far an experiment on paths of many kinds has come.
#[derive(Debug, Clone, PartialEq)]
pub enum AtlasProgress<'a> {
    /// A kind, and so many runs, cannot be measured.
    Excluded(&'a ExcludedPath, usize),
    /// A measurement in real time begins.
    Running(&'a AtlasPoint),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the link was.
        lateness: Span,
    },
    /// A measurement is done.
    Done(&'a AtlasRow),
}

/// What came of an experiment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AtlasOutcome {
    /// The measurements in the order of [`PathAtlas::points`], each with its verdict.
    pub rows: Vec<(AtlasRow, PathResult)>,
    /// Kinds that were not measured.
    pub excluded: Vec<ExcludedPath>,
}

/// Runs every point of `experiment`, in virtual time on all processors; `stop` is asked before each run, and ends the
/// experiment with the rows measured so far. Kinds that cannot be built in real time, or not on this machine, are left out, and
/// so are transports that a kind does not pass, and single paths in real time that the system refuses after it has built others.
///
/// # Errors
/// A path could not be made or measured in virtual time, or the first one in real time.
pub fn run(
    experiment: &PathAtlas,
    observer: &mut dyn FnMut(AtlasProgress<'_>),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<AtlasOutcome, RunError> {
    let points = experiment.points();
    if !experiment.is_virtual() {
        return run_in_real_time(experiment, &points, observer, stop);
    }
    let left_out = experiment.excluded_kinds();
    left_out.iter().for_each(|left_out| observer(AtlasProgress::Excluded(left_out, 0)));
    let mut done = |(row, _): &(AtlasRow, PathResult)| observer(AtlasProgress::Done(row));
    let rows = run_in_parallel(&points, &mut done, stop, &|point| run_in_virtual_time(experiment, point))?;
    Ok(AtlasOutcome { rows, excluded: left_out })
}

/// The number of runs and what clock they have, in words.
pub fn expected_time(experiment: &PathAtlas) -> String {
    let runs = experiment.points().len();
    match experiment.is_virtual() {
        true => format!("{runs} measurements in virtual time"),
        false => format!("{runs} measurements of 4 to 20 s in real time, repeated where disturbed"),
    }
}

fn run_in_virtual_time(experiment: &PathAtlas, point: &AtlasPoint) -> Result<(AtlasRow, PathResult), RunError> {
    let path = experiment.path(point);
    let measured = path.measure(probe_transport(point)?, &MethodSettings::default());
    let measured = measured.map_err(|error| run_error(error.into()))?;
    let verdict = PathResult::evaluate(&path, &measured);
    Ok((AtlasRow::new(point, &path, &measured, &verdict), verdict))
}

fn run_in_real_time(
    experiment: &PathAtlas,
    points: &[AtlasPoint],
    observer: &mut dyn FnMut(AtlasProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<AtlasOutcome, RunError> {
    let mut outcome = AtlasOutcome { rows: Vec::with_capacity(points.len()), excluded: experiment.excluded_kinds() };
    outcome.excluded.iter().for_each(|left_out| observer(AtlasProgress::Excluded(left_out, 0)));
    for of_kind in points.chunk_by(|one, other| one.kind == other.kind).take_while(|_| !stop()) {
        if let Some(reason) = realtime::missing_requirement(&experiment.path(&of_kind[0]), experiment.bottleneck) {
            let left_out = ExcludedPath { kind: of_kind[0].kind.name().to_owned(), reason };
            observer(AtlasProgress::Excluded(&left_out, of_kind.len()));
            outcome.excluded.push(left_out);
            continue;
        }
        for point in of_kind.iter().take_while(|_| !stop()) {
            observer(AtlasProgress::Running(point));
            match measure_until_undisturbed(experiment, point, observer, stop) {
                Ok(measured) => {
                    observer(AtlasProgress::Done(&measured.0));
                    outcome.rows.push(measured);
                }
                Err(error) if outcome.rows.is_empty() => return Err(error),
                Err(error) => {
                    let left_out = excluded_path(experiment, point, &error);
                    observer(AtlasProgress::Excluded(&left_out, 1));
                    outcome.excluded.push(left_out);
                }
            }
        }
    }
    Ok(outcome)
}

/// One path that the system refuses: the others are measured nonetheless.
fn excluded_path(experiment: &PathAtlas, point: &AtlasPoint, error: &RunError) -> ExcludedPath {
    let AtlasPoint { kind, transport, .. } = point;
    let seed = experiment.path(point).seed;
    ExcludedPath { kind: format!("{kind} over {}, seed {seed},", transport.word()), reason: error.to_string() }
}

fn measure_until_undisturbed(
    experiment: &PathAtlas,
    point: &AtlasPoint,
    observer: &mut dyn FnMut(AtlasProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<(AtlasRow, PathResult), RunError> {
    let (path, transport) = (experiment.path(point), probe_transport(point)?);
    let run = || {
        let realtime::AtlasAttempt { row, verdict, lateness } = realtime::measure(experiment, &path, point, transport)?;
        Ok(RunOutcome { row: (row, verdict), lateness, disturbed: lateness > MAX_UNDISTURBED_LATENESS })
    };
    let repeating = |lateness| observer(AtlasProgress::Repeating { lateness });
    let RepeatedRun { row: (row, verdict), repeats, disturbed } =
        run_until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
    Ok((AtlasRow { repeats, disturbed, ..row }, verdict))
}

fn probe_transport(point: &AtlasPoint) -> Result<kumade_probe_train::Transport, RunError> {
    match point.transport {
        Transport::Udp => Ok(kumade_probe_train::Transport::Udp),
        Transport::Rake => Ok(kumade_probe_train::Transport::Rake),
        other => Err(run_error(anyhow!("a path of the atlas has no transport `{other}`; choose udp or rake"))),
    }
}

fn run_error(cause: anyhow::Error) -> RunError {
    RunError { doing: "measure a path of the atlas", cause }
}
