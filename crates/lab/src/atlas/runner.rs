use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::Transport;
use crate::error::RunError;
use crate::parallel::on_all_processors;
use anyhow::anyhow;
use estimate::MethodSettings;
use sim::atlas::{DrawnPath, Verdict};

/// How far an experiment on paths of many kinds has come.
#[derive(Debug, Clone, PartialEq)]
pub enum AtlasProgress<'a> {
    /// A measurement is done.
    Done(&'a AtlasRow),
}

/// Runs every point of `experiment` in virtual time, on all processors; `stop` is asked before each run, and ends the
/// experiment with the rows measured so far. Rows come in the order of [`PathAtlas::points`], each with its verdict.
///
/// # Errors
/// A path of the atlas could not be made or measured.
pub fn run(
    experiment: &PathAtlas,
    observer: &mut dyn FnMut(AtlasProgress<'_>),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(AtlasRow, Verdict)>, RunError> {
    let mut done = |(row, _): &(AtlasRow, Verdict)| observer(AtlasProgress::Done(row));
    on_all_processors(&experiment.points(), &mut done, stop, &|point| measure(experiment, point))
}

fn measure(experiment: &PathAtlas, point: &AtlasPoint) -> Result<(AtlasRow, Verdict), RunError> {
    let failed = |cause| RunError { doing: "measure a path of the atlas", cause };
    let transport = match point.transport {
        Transport::Udp => train::Transport::Udp,
        Transport::Rake => train::Transport::Rake,
        other => return Err(failed(anyhow!("a virtual path has no transport `{other}`; choose udp or rake"))),
    };
    let path = DrawnPath::new(point.kind, experiment.seeds.seeds().seed(point.number));
    let measured = path.measure(transport, &MethodSettings::default()).map_err(|error| failed(error.into()))?;
    let verdict = Verdict::of(&path, &measured);
    Ok((AtlasRow::new(point, &path, &measured, &verdict), verdict))
}
