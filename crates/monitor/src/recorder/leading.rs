//! The recorder of an archive that others could write, too: says that it leads, connects again, ends where another has taken over.

use super::Recorder;
use crate::leadership::encode_status;
use crate::status::{LeaderStatus, MonitorStatus};
use kumade_archive::{AnyStore, Archive, ArchiveError, PostgresStore, ReadStore};
use kumade_net::clock;
use kumade_planner::ElectionStep;
use kumade_units::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Between two attempts to reach a database that is gone.
const RECONNECT_INTERVAL: Span = Span::from_secs(2);
/// How often those that stand by are told what is seen.
const STATUS_INTERVAL: Span = Span::from_secs(5);

impl Recorder {
    /// Is set where another host has taken over.
    pub(crate) fn deposed_flag(&self) -> Arc<AtomicBool> {
        self.leading.as_ref().map(|leading| leading.deposed.clone()).unwrap_or_default()
    }

    pub(super) fn is_deposed(&self) -> bool {
        self.leading.as_ref().is_some_and(|leading| leading.deposed.load(Ordering::Relaxed))
    }

    pub(super) fn note_deposed(&self, error: &ArchiveError) {
        if let (Some(leading), ArchiveError::Deposed { .. }) = (&self.leading, error) {
            leading.deposed.store(true, Ordering::Relaxed);
        }
    }

    /// Says that this host leads, in time; connects again where the database was restarted.
    pub(super) fn keep_leading(&mut self, now: Time, utc: Time) {
        let Some(leading) = &mut self.leading else { return };
        let Some(store) = shared(&mut self.archive) else { return };
        if self.archive_failure.is_some() && store.is_lost() {
            if now < leading.next_connection {
                return;
            }
            leading.next_connection = now + RECONNECT_INTERVAL;
            let connected = store.reconnected();
            if let Err(error) = connected.and_then(|store| self.reopen(store, utc)) {
                return self.fail(&error);
            }
        }
        self.renew(now);
    }

    fn renew(&mut self, now: Time) {
        let Some(leading) = &mut self.leading else { return };
        while let Some(step) = leading.election.next_step(now) {
            let (ElectionStep::Renew { .. }, Some(store)) = (step, shared(&mut self.archive)) else { return };
            match store.renew() {
                Ok(is_leader) => {
                    leading.election.renewed(is_leader);
                    leading.deposed.fetch_or(!is_leader, Ordering::Relaxed);
                }
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Goes on by another connection. Whether the last commit was written, the archive knows: what was is not written again.
    fn reopen(&mut self, mut store: PostgresStore, utc: Time) -> Result<(), ArchiveError> {
        // A transaction of the lost connection holds the row that this changes: when it has, that one has ended, and what it has written
        // is seen.
        if !store.renew()? {
            return Err(ArchiveError::Deposed { archive: store.name() });
        }
        let mut archive = Archive::open(AnyStore::from(store), self.config.retention, utc)?;
        if let Some(batch) = &self.unacknowledged {
            archive.ingest(batch, utc)?;
        }
        self.archive = archive;
        self.note(None, "archive", "the database is reached again".to_owned());
        Ok(())
    }

    /// Where it ends, another need not wait.
    pub(super) fn resign(&mut self) {
        let resigned = shared(&mut self.archive).map(PostgresStore::resign);
        if let Some(Err(error)) = resigned {
            self.fail(&error);
        }
    }

    pub(super) fn leader_status(&self) -> Option<LeaderStatus> {
        self.leading.is_some().then(|| LeaderStatus {
            name: self.config.name.clone(),
            is_this: true,
            silent_seconds: 0.0,
        })
    }

    /// Those that stand by show it.
    pub(super) fn share_status(&mut self, status: &MonitorStatus, utc: Time) {
        let now = clock::monotonic();
        let Some(leading) = self.leading.as_mut().filter(|leading| leading.next_status <= now) else { return };
        leading.next_status = now + STATUS_INTERVAL;
        let shared = shared(&mut self.archive).map(|store| store.share_seen(utc, &encode_status(status)));
        if let Some(Err(error)) = shared {
            self.fail(&error);
        }
    }
}

/// The database of an archive that is in one.
fn shared(archive: &mut Archive<AnyStore>) -> Option<&mut PostgresStore> {
    match archive.store() {
        AnyStore::Postgres(store) => Some(store),
        AnyStore::Sqlite(_) => None,
    }
}
