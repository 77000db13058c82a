//! Runs in virtual time, spread over all processors; the result does not depend on it.

use crate::error::RunError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// A finished run: the index of its point, and its result.
type IndexedResult<R> = (usize, Result<R, RunError>);

/// Runs all points; `done` is given each result as it is finished, with its point's place, and `stop` is asked before each run. Returns
/// whether all were run, and it did not end early.
///
/// # Errors
/// The first one of `run` or `done`.
pub(crate) fn run_in_parallel<P: Sync, R: Send>(
    points: &[P],
    done: &mut dyn FnMut(usize, R) -> Result<(), RunError>,
    stop: &(dyn Fn() -> bool + Sync),
    run: &(dyn Fn(&P) -> Result<R, RunError> + Sync),
) -> Result<bool, RunError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let workers = thread::available_parallelism().map_or(1, usize::from).min(points.len().max(1));
    let mut failure = None;
    thread::scope(|scope| {
        let (send, finished) = mpsc::channel::<IndexedResult<R>>();
        for worker in 0..workers {
            let (send, next, failed) = (send.clone(), &next, &failed);
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                while !stop() && !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(index) else { return };
                    if send.send((index, run(point))).is_err() {
                        return;
                    }
                }
            });
            if let Err(error) = started {
                // Those that have started do the work of all.
                if worker == 0 {
                    failure = Some(RunError { doing: "start a thread", cause: error.into() });
                }
                break;
            }
        }
        drop(send);
        for (index, outcome) in finished {
            if let Err(error) = outcome.and_then(|result| done(index, result)) {
                failed.store(true, Ordering::Relaxed);
                failure.get_or_insert(error);
            }
        }
    });
    // Each that was begun is done.
    failure.map_or(Ok(next.into_inner() >= points.len()), Err)
}
