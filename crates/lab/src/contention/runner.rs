use super::row::ContentionRow;
use super::scenario::{Contention, ContentionCase};
use super::{search, virtual_time};
use crate::error::RunError;
use crate::parallel::on_all_processors;

/// How far an experiment on contention has come.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentionProgress<'a> {
    /// A search has found this, after so many patterns.
    Searched(u32, &'a ContentionCase),
    /// A run is done.
    Done(&'a ContentionRow),
}

/// Runs every case of `experiment` in virtual time, on all processors, or those that a search comes to; `stop` is asked before
/// each run and each search, and ends the experiment with the rows measured so far. Returns the cases with their rows, which
/// are in the order of [`Contention::points`].
///
/// # Errors
/// A network that the simulator refuses.
pub fn run(
    experiment: &Contention,
    observer: &mut dyn FnMut(ContentionProgress<'_>),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Vec<ContentionCase>, Vec<ContentionRow>), RunError> {
    let cases = match experiment.search {
        None => experiment.cases.clone(),
        Some(search) => {
            let searches = experiment.searches();
            let mut done = |case: &ContentionCase| observer(ContentionProgress::Searched(search.evaluations, case));
            on_all_processors(&searches, &mut done, stop, &|searched| search::worst(experiment, search, searched))?
        }
    };
    let mut done = |row: &ContentionRow| observer(ContentionProgress::Done(row));
    let rows =
        on_all_processors(&experiment.points(&cases), &mut done, stop, &|point| virtual_time::run(experiment, point))?;
    Ok((cases, rows))
}

/// The number of runs and how long they take, in words.
pub fn expected_time(experiment: &Contention) -> String {
    let each = (experiment.warm_up + experiment.duration).as_secs_f64();
    format!("{} runs of {each:.0} s each in virtual time", experiment.runs())
}
