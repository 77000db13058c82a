use crate::error::EmulatorError;
use crate::statistics::DirectionStatistics;
use kumade_daemon::EndNotice;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What a packet thread tells others of one of its links without being asked.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    /// How often something has changed in the link's statistics.
    changes: AtomicU64,
    /// How it has ended.
    outcome: Mutex<Option<EndOutcome>>,
    recorded: Condvar,
}

#[derive(Debug)]
struct EndOutcome {
    /// Taken by the first who asks.
    error: Option<EmulatorError>,
    statistics: Option<Box<[DirectionStatistics; 2]>>,
    has_panicked: bool,
}

/// The packet thread has panicked.
#[derive(Debug)]
pub(super) struct ThreadPanicked;

/// Kept by a link as the last of what it owns: records its end once all the rest is dropped, for whatever reason.
pub(super) struct EndRecord {
    state: Arc<LinkState>,
    /// Why the link ends, where nobody ends it.
    pub(super) error: Option<EmulatorError>,
    /// What it has done.
    pub(super) statistics: Option<Box<[DirectionStatistics; 2]>>,
    _notice: EndNotice,
}

impl LinkState {
    /// Grows whenever something happens on the link: while it stays, statistics that were copied are still true.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Called by the packet thread alone.
    pub(super) fn record_change(&self) {
        self.changes.store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().is_some()
    }

    /// What the link had done by its end; `None` before.
    pub(super) fn statistics(&self) -> Option<[DirectionStatistics; 2]> {
        self.lock().as_ref()?.statistics.as_deref().cloned()
    }

    /// Waits for the end. Of several calls the first has the outcome, others get `Ok`.
    pub(super) fn wait(&self) -> Result<Result<(), EmulatorError>, ThreadPanicked> {
        let waited = self.recorded.wait_while(self.lock(), |outcome| outcome.is_none());
        let mut outcome = waited.unwrap_or_else(PoisonError::into_inner);
        let outcome = outcome.as_mut().filter(|outcome| !outcome.has_panicked).ok_or(ThreadPanicked)?;
        Ok(outcome.error.take().map_or(Ok(()), Err))
    }

    /// The value behind the lock is consistent at any time, even if a thread has panicked.
    fn lock(&self) -> MutexGuard<'_, Option<EndOutcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndRecord {
    /// What the others see.
    pub(super) fn state(&self) -> &LinkState {
        &self.state
    }

    pub(super) fn new(state: Arc<LinkState>, notice: EndNotice) -> Self {
        EndRecord { state, error: None, statistics: None, _notice: notice }
    }
}

impl Drop for EndRecord {
    fn drop(&mut self) {
        let (error, statistics) = (self.error.take(), self.statistics.take());
        let outcome = EndOutcome { error, statistics, has_panicked: thread::panicking() };
        *self.state.lock() = Some(outcome);
        self.state.recorded.notify_all();
    }
}

impl fmt::Debug for EndRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EndRecord").field("error", &self.error).finish_non_exhaustive()
    }
}
