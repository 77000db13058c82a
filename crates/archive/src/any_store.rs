//! Either engine, where the configuration chooses.

use crate::store::{DiskUsage, Kept, ReadStore, Segment, SegmentId, Store, StoredRun, Write};
use crate::{ArchiveError, AuditEntry, Event, Gap, Host, HostId, Pair, PairId, PostgresStore, SqliteStore};
use kumade_sketch::Layer;
use kumade_units::Time;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex};

/// An archive in either engine.
#[derive(Debug)]
pub enum AnyStore {
    /// In a file of this machine.
    Sqlite(SqliteStore),
    /// In a database that several machines share.
    Postgres(Box<PostgresStore>),
}

impl AnyStore {
    /// A connection for another thread, which only reads.
    ///
    /// # Errors
    ///
    /// The archive can't be opened again.
    pub fn reader(&self) -> Result<Self, ArchiveError> {
        match self {
            AnyStore::Sqlite(store) => store.reader().map(AnyStore::Sqlite),
            AnyStore::Postgres(store) => store.reader().map(Self::from),
        }
    }
}

impl From<SqliteStore> for AnyStore {
    fn from(store: SqliteStore) -> Self {
        AnyStore::Sqlite(store)
    }
}

impl From<PostgresStore> for AnyStore {
    fn from(store: PostgresStore) -> Self {
        AnyStore::Postgres(Box::new(store))
    }
}

macro_rules! delegate {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            AnyStore::Sqlite($store) => $call,
            AnyStore::Postgres($store) => $call,
        }
    };
}

impl ReadStore for AnyStore {
    fn name(&self) -> String {
        delegate!(self, store => store.name())
    }

    fn reader_turn(&self) -> Option<Arc<Mutex<()>>> {
        delegate!(self, store => store.reader_turn())
    }

    fn begin_reading(&mut self) -> Result<(), ArchiveError> {
        delegate!(self, store => store.begin_reading())
    }

    fn end_reading(&mut self) -> Result<(), ArchiveError> {
        delegate!(self, store => store.end_reading())
    }

    fn hosts(&mut self) -> Result<Vec<Host>, ArchiveError> {
        delegate!(self, store => store.hosts())
    }

    fn pairs(&mut self) -> Result<Vec<Pair>, ArchiveError> {
        delegate!(self, store => store.pairs())
    }

    fn figure_names(&mut self) -> Result<Vec<(u32, String)>, ArchiveError> {
        delegate!(self, store => store.figure_names())
    }

    fn delivered(&mut self) -> Result<Vec<(String, Time, u64, u64)>, ArchiveError> {
        delegate!(self, store => store.delivered())
    }

    fn segments(&mut self) -> Result<Vec<Segment>, ArchiveError> {
        delegate!(self, store => store.segments())
    }

    fn spool(&mut self, segment: SegmentId, each: &mut dyn FnMut(u32, PairId, &[u8])) -> Result<(), ArchiveError> {
        delegate!(self, store => store.spool(segment, each))
    }

    fn spool_of_pair(&mut self, segment: SegmentId, pair: PairId) -> Result<Vec<Vec<u8>>, ArchiveError> {
        delegate!(self, store => store.spool_of_pair(segment, pair))
    }

    fn blocks(&mut self, layer: Layer, pair: PairId, numbers: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        delegate!(self, store => store.blocks(layer, pair, numbers))
    }

    fn packets(&mut self, pair: PairId, hours: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        delegate!(self, store => store.packets(pair, hours))
    }

    fn blocks_of_pairs(
        &mut self,
        kept: Kept,
        number: i64,
        pairs: RangeInclusive<PairId>,
    ) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError> {
        delegate!(self, store => store.blocks_of_pairs(kept, number, pairs))
    }

    fn runs(&mut self, pair: PairId, began: Range<Time>, limit: u32) -> Result<Vec<StoredRun>, ArchiveError> {
        delegate!(self, store => store.runs(pair, began, limit))
    }

    fn run(&mut self, run: i64) -> Result<Option<StoredRun>, ArchiveError> {
        delegate!(self, store => store.run(run))
    }

    fn latest_runs(&mut self) -> Result<Vec<StoredRun>, ArchiveError> {
        delegate!(self, store => store.latest_runs())
    }

    fn last_run_id(&mut self) -> Result<i64, ArchiveError> {
        delegate!(self, store => store.last_run_id())
    }

    fn document(&mut self, run: i64) -> Result<Option<Vec<u8>>, ArchiveError> {
        delegate!(self, store => store.document(run))
    }

    fn latest(&mut self) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError> {
        delegate!(self, store => store.latest())
    }

    fn events(
        &mut self,
        at: Range<Time>,
        host: Option<HostId>,
        pair: Option<PairId>,
        limit: u32,
    ) -> Result<Vec<Event>, ArchiveError> {
        delegate!(self, store => store.events(at, host, pair, limit))
    }

    fn gaps(&mut self, pair: PairId, time: Range<Time>) -> Result<Vec<Gap>, ArchiveError> {
        delegate!(self, store => store.gaps(pair, time))
    }

    fn audit(&mut self, at: Range<Time>, limit: u32) -> Result<Vec<AuditEntry>, ArchiveError> {
        delegate!(self, store => store.audit(at, limit))
    }

    fn state(&mut self, key: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        delegate!(self, store => store.state(key))
    }

    fn oldest(&mut self, kept: Kept) -> Result<Option<Time>, ArchiveError> {
        delegate!(self, store => store.oldest(kept))
    }

    fn disk_usage(&mut self) -> Result<DiskUsage, ArchiveError> {
        delegate!(self, store => store.disk_usage())
    }
}

impl Store for AnyStore {
    fn commit(&mut self, writes: &[Write]) -> Result<(), ArchiveError> {
        delegate!(self, store => store.commit(writes))
    }

    fn delete_before(&mut self, kept: Kept, before: Time, limit: u32) -> Result<u32, ArchiveError> {
        delegate!(self, store => store.delete_before(kept, before, limit))
    }

    fn checkpoint(&mut self) -> Result<u64, ArchiveError> {
        delegate!(self, store => store.checkpoint())
    }

    fn shrink(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        delegate!(self, store => store.shrink(bytes))
    }

    fn release_reserve(&mut self) -> Result<(), ArchiveError> {
        delegate!(self, store => store.release_reserve())
    }

    fn restore_reserve(&mut self) -> Result<bool, ArchiveError> {
        delegate!(self, store => store.restore_reserve())
    }
}
