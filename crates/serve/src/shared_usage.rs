use crate::quota::QuotaUsage;
use kumade_net::clock;
use kumade_units::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was used of a quota lately. It outlasts a server, and counts for several.
#[derive(Debug, Clone, Default)]
pub struct SharedUsage(Arc<Mutex<QuotaUsage>>);

impl SharedUsage {
    /// Counts bytes that were carried without a server.
    pub fn add_bytes(&self, bytes: u64) {
        self.lock().add_bytes(bytes, clock::monotonic());
    }

    /// Bytes of the last 24 hours.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes(clock::monotonic())
    }

    /// When so many bytes more may be carried within a limit for 24 hours, by the monotonic clock; none if that is never.
    pub fn time_of_room(&self, bytes: u64, limit: u64) -> Option<Time> {
        self.lock().time_of_room(bytes, limit, clock::monotonic())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QuotaUsage> {
        // Every change under this lock is consistent even if its thread panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
