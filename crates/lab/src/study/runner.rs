use super::kind::{RunRow, Study};
use super::parallel::run_in_parallel;
use super::progress::{Observer, Outcome, Progress};
use super::run_repetition::run_until_undisturbed;
use crate::error::RunError;

/// Runs every point of `study`, in virtual time on all processors; the result does not depend on that. `stop` is asked before each run
/// and each repetition, and ends it with the rows so far.
///
/// # Errors
/// A run failed, so that no further one makes sense.
pub fn run<S: Study>(
    study: &S,
    observer: &mut Observer<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome<S::Row>, RunError> {
    let points = study.points();
    let mut outcome = Outcome { rows: Vec::with_capacity(points.len()), excluded: study.exclusions() };
    outcome.excluded.iter().for_each(|excluded| observer(Progress::Excluded(excluded, 0)));
    if study.head().is_virtual {
        let mut done = |place: usize, _: &_| observer(Progress::Done(&study.describe_point(&points[place]), 1));
        outcome.rows = run_in_parallel(&points, &mut done, stop, &|point| study.run_virtually(point))?;
        return Ok(outcome);
    }
    let mut testbed = study.testbed()?;
    for point in points.iter().take_while(|_| !stop()) {
        let label = study.describe_point(point);
        let excluded = match study.missing_requirement(&mut testbed, point) {
            None => {
                observer(Progress::Running(&label));
                let run = || study.run_really(&mut testbed, point);
                match run_until_undisturbed(S::MAX_REPEATS, run, observer, stop) {
                    Ok((mut row, repeats, disturbed)) => {
                        row.set_repetition(repeats, disturbed);
                        outcome.rows.push(row);
                        None
                    }
                    Err(error) if outcome.rows.is_empty() => return Err(error),
                    Err(error) => Some(study.excluded_by_failure(point, &error).ok_or(error)?),
                }
            }
            missing => missing,
        };
        match excluded.filter(|excluded| !outcome.excluded.contains(excluded)) {
            None => observer(Progress::Done(&label, 1)),
            Some(excluded) => {
                observer(Progress::Excluded(&excluded, 1));
                outcome.excluded.push(excluded);
            }
        }
    }
    Ok(outcome)
}
