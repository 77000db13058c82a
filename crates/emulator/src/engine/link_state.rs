use crate::error::EmulatorError;
use crate::statistics::DirectionStatistics;
use kumade_daemon::EndNotice;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    reason: EndReason,
    statistics: Option<Box<[DirectionStatistics; 2]>>,
}

/// Why a link ends.
#[derive(Debug, Default)]
pub(super) enum EndReason {
    /// Its thread does, which has failed.
    #[default]
    WithThread,
    /// Somebody wants it to.
    Requested,
    /// It cannot go on. The first who asks is told why.
    Failed(EmulatorError),
}

/// The link has ended with its thread, which tells why.
#[derive(Debug)]
pub(super) struct EndedWithThread;

/// Kept by a link as the last of what it owns: records its end once all the rest is dropped, for whatever reason.
pub(super) struct EndRecord {
    state: Arc<LinkState>,
    pub(super) reason: EndReason,
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
    pub(super) fn wait(&self) -> Result<Result<(), EmulatorError>, EndedWithThread> {
        let waited = self.recorded.wait_while(self.lock(), |outcome| outcome.is_none());
        let mut outcome = waited.unwrap_or_else(PoisonError::into_inner);
        match outcome.as_mut().map(|outcome| &mut outcome.reason) {
            None | Some(EndReason::WithThread) => Err(EndedWithThread),
            Some(reason) => match mem::replace(reason, EndReason::Requested) {
                EndReason::Failed(error) => Ok(Err(error)),
                _ => Ok(Ok(())),
            },
        }
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
        EndRecord { state, reason: EndReason::default(), statistics: None, _notice: notice }
    }
}

impl Drop for EndRecord {
    fn drop(&mut self) {
        let (reason, statistics) = (mem::take(&mut self.reason), self.statistics.take());
        *self.state.lock() = Some(EndOutcome { reason, statistics });
        self.state.recorded.notify_all();
    }
}

impl fmt::Debug for EndRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EndRecord").field("reason", &self.reason).finish_non_exhaustive()
    }
}
