use super::realtime;
use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::Transport;
use crate::error::RunError;
use crate::parallel::on_all_processors;
use crate::repeat::{MAX_REPEATS, Repeated, Run, until_undisturbed};
use anyhow::anyhow;
use estimate::MethodSettings;
use sim::atlas::{DrawnPath, Verdict};
use testnet::STALL;
use units::Span;

/// How far an experiment on paths of many kinds has come.
#[derive(Debug, Clone, PartialEq)]
pub enum AtlasProgress<'a> {
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

/// Runs every point of `experiment`, in virtual time on all processors; `stop` is asked before each run, and ends the
/// experiment with the rows measured so far. Rows come in the order of [`PathAtlas::points`], each with its verdict.
///
/// # Errors
/// A path of the atlas could not be made or measured.
pub fn run(
    experiment: &PathAtlas,
    observer: &mut dyn FnMut(AtlasProgress<'_>),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(AtlasRow, Verdict)>, RunError> {
    let points = experiment.points();
    if !experiment.is_virtual() {
        return in_real_time(experiment, &points, observer, stop);
    }
    let mut done = |(row, _): &(AtlasRow, Verdict)| observer(AtlasProgress::Done(row));
    on_all_processors(&points, &mut done, stop, &|point| in_virtual_time(experiment, point))
}

/// The number of runs and what clock they have, in words.
pub fn expected_time(experiment: &PathAtlas) -> String {
    let runs = experiment.points().len();
    match experiment.is_virtual() {
        true => format!("{runs} measurements in virtual time"),
        false => format!("{runs} measurements of 4 to 20 s in real time, repeated where disturbed"),
    }
}

fn in_virtual_time(experiment: &PathAtlas, point: &AtlasPoint) -> Result<(AtlasRow, Verdict), RunError> {
    let path = experiment.path(point);
    let measured = path.measure(carrier(point)?, &MethodSettings::default());
    let measured = measured.map_err(|error| failed(error.into()))?;
    let verdict = Verdict::of(&path, &measured);
    Ok((AtlasRow::new(point, &path, &measured, &verdict), verdict))
}

fn in_real_time(
    experiment: &PathAtlas,
    points: &[AtlasPoint],
    observer: &mut dyn FnMut(AtlasProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(AtlasRow, Verdict)>, RunError> {
    let mut rows = Vec::with_capacity(points.len());
    for point in points.iter().take_while(|_| !stop()) {
        observer(AtlasProgress::Running(point));
        let (path, transport): (DrawnPath, _) = (experiment.path(point), carrier(point)?);
        let run = || {
            let realtime::Attempt { row, verdict, lateness } = realtime::measure(experiment, &path, point, transport)?;
            Ok(Run { row: (row, verdict), lateness, disturbed: lateness > STALL })
        };
        let repeating = |lateness| observer(AtlasProgress::Repeating { lateness });
        let Repeated { row: (row, verdict), repeats, disturbed } =
            until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
        let row = AtlasRow { repeats, disturbed, ..row };
        observer(AtlasProgress::Done(&row));
        rows.push((row, verdict));
    }
    Ok(rows)
}

fn carrier(point: &AtlasPoint) -> Result<train::Transport, RunError> {
    match point.transport {
        Transport::Udp => Ok(train::Transport::Udp),
        Transport::Rake => Ok(train::Transport::Rake),
        other => Err(failed(anyhow!("a path of the atlas has no transport `{other}`; choose udp or rake"))),
    }
}

fn failed(cause: anyhow::Error) -> RunError {
    RunError { doing: "measure a path of the atlas", cause }
}
