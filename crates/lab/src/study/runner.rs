use super::kind::{RunRow, Study};
use super::parallel::run_in_parallel;
use super::progress::{Observer, Outcome, Progress};
use super::record::RunRecord;
use super::record_file::RecordHead;
use super::run_repetition::run_until_undisturbed;
use crate::error::RunError;

/// A run that is still to be made, with its number.
type NumberedPoint<'a, S> = (usize, <S as Study>::Point<'a>);

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
    run_missing(study, &mut RunRecord::in_memory(RecordHead::default()), observer, stop).map(|(outcome, _)| outcome)
}

/// The same with those runs alone that `record` lacks, and is to have. What came of all is read from it. Returns besides whether all were
/// tried, and `stop` did not end it before.
///
/// # Errors
/// As for all; or a run cannot be recorded; or runs are missing and cannot be made here.
pub(super) fn run_missing<S: Study>(
    study: &S,
    record: &mut RunRecord,
    observer: &mut Observer<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Outcome<S::Row>, bool), RunError> {
    let points = study.points();
    let run_count = points.len();
    record.check_complete(run_count).map_err(RunError::during("put the runs together"))?;
    study.exclusions().iter().for_each(|excluded| observer(Progress::Excluded(excluded, 0)));
    observer(Progress::Recorded(record.row_count()));
    let missing: Vec<_> = points.into_iter().enumerate().filter(|(index, _)| record.lacks(*index)).collect();
    let is_whole = if study.head().is_virtual {
        run_virtually(study, &missing, record, observer, stop)?
    } else {
        missing.is_empty() || run_really(study, &missing, record, observer, stop)?
    };
    let outcome = record.outcome(run_count, study.exclusions()).map_err(RunError::during("read the runs"))?;
    Ok((outcome, is_whole))
}

fn run_virtually<S: Study>(
    study: &S,
    missing: &[NumberedPoint<'_, S>],
    record: &mut RunRecord,
    observer: &mut Observer<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<bool, RunError> {
    let mut done = |place: usize, row: S::Row| {
        let (index, point) = &missing[place];
        record.add_row(*index, &row).map_err(RunError::during("record a run"))?;
        observer(Progress::Done(&study.describe_point(point), 1));
        Ok(())
    };
    run_in_parallel(missing, &mut done, stop, &|(_, point)| study.run_virtually(point))
}

#[cfg(not(target_os = "linux"))]
fn run_really<S: Study>(
    _: &S,
    _: &[NumberedPoint<'_, S>],
    _: &mut RunRecord,
    _: &mut Observer<'_>,
    _: &(dyn Fn() -> bool + Sync),
) -> Result<bool, RunError> {
    let cause = anyhow::anyhow!("networks of real hosts are built on Linux only; add --virtual");
    Err(RunError { doing: "run in real time", cause })
}

#[cfg(target_os = "linux")]
fn run_really<S: Study>(
    study: &S,
    missing: &[NumberedPoint<'_, S>],
    record: &mut RunRecord,
    observer: &mut Observer<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<bool, RunError> {
    let record_error = RunError::during("record a run");
    let mut told = study.exclusions();
    let mut testbed = study.testbed()?;
    for (index, point) in missing {
        if stop() {
            return Ok(false);
        }
        let label = study.describe_point(point);
        let excluded = match study.missing_requirement(&mut testbed, point) {
            None => {
                observer(Progress::Running(&label));
                let run = || study.run_really(&mut testbed, point);
                match run_until_undisturbed(S::MAX_REPEATS, run, observer, stop) {
                    Ok((mut row, repeats, disturbed)) => {
                        row.set_repetition(repeats, disturbed);
                        record.add_row(*index, &row).map_err(record_error)?;
                        None
                    }
                    Err(error) if record.row_count() == 0 => return Err(error),
                    Err(error) => Some(study.excluded_by_failure(point, &error).ok_or(error)?),
                }
            }
            missing => missing,
        };
        if let Some(excluded) = &excluded {
            record.add_exclusion(*index, excluded.clone()).map_err(record_error)?;
        }
        match excluded.filter(|excluded| !told.contains(excluded)) {
            None => observer(Progress::Done(&label, 1)),
            Some(excluded) => {
                observer(Progress::Excluded(&excluded, 1));
                told.push(excluded);
            }
        }
    }
    Ok(true)
}
