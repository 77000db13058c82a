use super::{SqliteStore, first_key, last_key};
use crate::store::{DiskUsage, Kept, ReadStore, Segment, SegmentId, StoredRun};
use crate::{ArchiveError, AuditEntry, Event, Family, Gap, Host, HostId, Pair, PairId};
use kumade_sketch::Layer;
use kumade_units::Time;
use rusqlite::{Connection, OptionalExtension, Params, Row};
use std::fs;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex};

impl ReadStore for SqliteStore {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn reader_turn(&self) -> Option<Arc<Mutex<()>>> {
        // The writer sees its own connection's state anyway, and holds nothing back.
        (!self.writes).then(|| Arc::clone(&self.reader_slot))
    }

    fn begin_reading(&mut self) -> Result<(), ArchiveError> {
        self.connection.execute_batch("BEGIN").map_err(self.failed("begin to read"))
    }

    fn end_reading(&mut self) -> Result<(), ArchiveError> {
        self.connection.execute_batch("ROLLBACK").map_err(self.failed("end reading"))
    }

    fn hosts(&mut self) -> Result<Vec<Host>, ArchiveError> {
        self.rows("SELECT id, stable_id, name, address, properties FROM host ORDER BY id", [], |row| {
            let (id, stable_id, name) = (HostId(row.get(0)?), row.get(1)?, row.get(2)?);
            Ok(Host { id, stable_id, name, address: row.get(3)?, properties: row.get(4)? })
        })
    }

    fn pairs(&mut self) -> Result<Vec<Pair>, ArchiveError> {
        self.rows("SELECT id, source, target, family FROM pair ORDER BY id", [], |row| {
            let family = if row.get::<_, i64>(3)? == 4 { Family::V4 } else { Family::V6 };
            Ok(Pair { id: PairId(row.get(0)?), source: HostId(row.get(1)?), target: HostId(row.get(2)?), family })
        })
    }

    fn figure_names(&mut self) -> Result<Vec<(u32, String)>, ArchiveError> {
        self.rows("SELECT id, name FROM figure_name ORDER BY id", [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn delivered(&mut self) -> Result<Vec<(String, Time, u64, u64)>, ArchiveError> {
        self.rows("SELECT instance, at, first, last FROM delivered ORDER BY instance, first", [], |row| {
            let (first, last) = (u64::from_be_bytes(row.get(2)?), u64::from_be_bytes(row.get(3)?));
            Ok((row.get(0)?, Time::from_nanos(row.get(1)?), first, last))
        })
    }

    fn segments(&mut self) -> Result<Vec<Segment>, ArchiveError> {
        self.rows("SELECT hour, generation, rolled_to FROM segment ORDER BY hour, generation", [], |row| {
            let id = SegmentId { hour: row.get(0)?, generation: row.get(1)? };
            Ok(Segment { id, rolled_to: row.get::<_, Option<u32>>(2)?.map(PairId) })
        })
    }

    fn spool(&mut self, segment: SegmentId, each: &mut dyn FnMut(u32, PairId, &[u8])) -> Result<(), ArchiveError> {
        let sql = format!("SELECT key >> 32, key >> 8 & 0xffffff, chunk FROM {} ORDER BY key", spool_table(segment));
        let failed = self.failed("read the spool");
        let mut statement = self.connection.prepare(&sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            let chunk = row.get_ref(2).map_err(&failed)?;
            let (slot, pair) = (row.get(0).map_err(&failed)?, row.get(1).map_err(&failed)?);
            each(slot, PairId(pair), chunk.as_blob().unwrap_or_default());
        }
        Ok(())
    }

    fn spool_of_pair(&mut self, segment: SegmentId, pair: PairId) -> Result<Vec<Vec<u8>>, ArchiveError> {
        let table = spool_table(segment);
        let failed = self.failed("read the spool");
        let last = format!("SELECT max(key) >> 32 FROM {table}");
        let last: Option<u32> = self.connection.query_row(&last, [], |row| row.get(0)).map_err(&failed)?;
        let one = format!("SELECT chunk FROM {table} WHERE key = ?1");
        let mut statement = self.connection.prepare_cached(&one).map_err(&failed)?;
        let mut chunks = Vec::new();
        for slot in last.map_or(0..0, |last| 0..last + 1) {
            let chunk = statement
                .query_row([first_key(i64::from(slot), pair)], |row| row.get(0))
                .optional()
                .map_err(&failed)?;
            chunks.extend(chunk);
        }
        Ok(chunks)
    }

    fn blocks(&mut self, layer: Layer, pair: PairId, numbers: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        self.keyed(Kept::Blocks(layer).name(), pair, numbers)
    }

    fn packets(&mut self, pair: PairId, hours: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        self.keyed(Kept::Packets.name(), pair, hours)
    }

    fn blocks_of_pairs(
        &mut self,
        kept: Kept,
        number: i64,
        pairs: RangeInclusive<PairId>,
    ) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError> {
        let pieces =
            format!("SELECT key >> 8 & 0xffffff, data FROM {} WHERE key BETWEEN ?1 AND ?2 ORDER BY key", kept.name());
        let failed = self.failed("read blocks");
        let mut statement = self.connection.prepare_cached(&pieces).map_err(&failed)?;
        let ends = [first_key(number, *pairs.start()), last_key(first_key(number, *pairs.end()))];
        let mut rows = statement.query(ends).map_err(&failed)?;
        let mut found: Vec<(PairId, Vec<u8>)> = Vec::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let pair = PairId(row.get(0).map_err(&failed)?);
            let piece = row.get_ref(1).map_err(&failed)?.as_blob().unwrap_or_default();
            match found.last_mut() {
                Some((last, data)) if *last == pair => data.extend_from_slice(piece),
                _ => found.push((pair, piece.to_vec())),
            }
        }
        Ok(found)
    }

    fn runs(&mut self, pair: PairId, began: Range<Time>, limit: u32) -> Result<Vec<StoredRun>, ArchiveError> {
        let sql = "SELECT id, pair, started, ended, schema, figures FROM run WHERE pair = ?1 AND started >= ?2 AND started < ?3 \
                   ORDER BY started DESC, id DESC LIMIT ?4";
        self.rows(sql, (pair.0, began.start.as_nanos(), began.end.as_nanos(), limit), stored_run)
    }

    fn run(&mut self, run: i64) -> Result<Option<StoredRun>, ArchiveError> {
        let sql = "SELECT id, pair, started, ended, schema, figures FROM run WHERE id = ?1";
        Ok(self.rows(sql, [run], stored_run)?.pop())
    }

    fn latest_runs(&mut self) -> Result<Vec<StoredRun>, ArchiveError> {
        let sql = "SELECT run.id, run.pair, run.started, run.ended, schema, figures FROM latest_run CROSS JOIN run ON run.id = run \
                   ORDER BY latest_run.pair";
        self.rows(sql, [], stored_run)
    }

    fn last_run_id(&mut self) -> Result<i64, ArchiveError> {
        // Numbers of runs that are no longer kept are not given again: the latest of each pair stays.
        let sql = "SELECT max(coalesce((SELECT max(id) FROM run), 0), coalesce((SELECT max(run) FROM latest_run), 0))";
        Ok(self.rows(sql, [], |row| row.get(0))?.pop().unwrap_or(0))
    }

    fn document(&mut self, run: i64) -> Result<Option<Vec<u8>>, ArchiveError> {
        Ok(self.rows("SELECT data FROM document WHERE run = ?1", [run], |row| row.get(0))?.pop())
    }

    fn latest(&mut self) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError> {
        self.rows("SELECT pair, data FROM latest ORDER BY pair", [], |row| Ok((PairId(row.get(0)?), row.get(1)?)))
    }

    fn events(
        &mut self,
        at: Range<Time>,
        host: Option<HostId>,
        pair: Option<PairId>,
        limit: u32,
    ) -> Result<Vec<Event>, ArchiveError> {
        let sql = "SELECT at, kind, host, pair, text FROM event WHERE at >= ?1 AND at < ?2 AND (?3 IS NULL OR host = ?3) \
                   AND (?4 IS NULL OR pair = ?4) ORDER BY at DESC, rowid DESC LIMIT ?5";
        let range = (at.start.as_nanos(), at.end.as_nanos());
        self.rows(sql, (range.0, range.1, host.map(|host| host.0), pair.map(|pair| pair.0), limit), |row| {
            let (at, kind) = (Time::from_nanos(row.get(0)?), row.get(1)?);
            let (host, pair) = (row.get::<_, Option<u32>>(2)?.map(HostId), row.get::<_, Option<u32>>(3)?.map(PairId));
            Ok(Event { at, kind, host, pair, text: row.get(4)? })
        })
    }

    fn gaps(&mut self, pair: PairId, time: Range<Time>) -> Result<Vec<Gap>, ArchiveError> {
        let sql = "SELECT since, until, cause FROM gap WHERE pair = ?1 AND since < ?3 AND until > ?2 ORDER BY since";
        self.rows(sql, (pair.0, time.start.as_nanos(), time.end.as_nanos()), |row| {
            let (from, to) = (Time::from_nanos(row.get(0)?), Time::from_nanos(row.get(1)?));
            Ok(Gap { pair, from, to, cause: row.get(2)? })
        })
    }

    fn audit(&mut self, at: Range<Time>, limit: u32) -> Result<Vec<AuditEntry>, ArchiveError> {
        let sql = "SELECT at, who, what FROM audit WHERE at >= ?1 AND at < ?2 ORDER BY at DESC, rowid DESC LIMIT ?3";
        self.rows(sql, (at.start.as_nanos(), at.end.as_nanos(), limit), |row| {
            Ok(AuditEntry { at: Time::from_nanos(row.get(0)?), who: row.get(1)?, what: row.get(2)? })
        })
    }

    fn state(&mut self, key: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        Ok(self.rows("SELECT value FROM state WHERE key = ?1", [key], |row| row.get(0))?.pop())
    }

    fn oldest(&mut self, kept: Kept) -> Result<Option<Time>, ArchiveError> {
        let (sql, scale) = kept.oldest_query("min(key) >> 32");
        let found = self.rows(&sql, [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(found.into_iter().flatten().next().map(|number| Time::from_nanos(number.saturating_mul(scale))))
    }

    fn disk_usage(&mut self) -> Result<DiskUsage, ArchiveError> {
        let number =
            |connection: &Connection, sql: &str| connection.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? as u64));
        let failed = self.failed("read how much room is taken");
        let page = number(&self.connection, "PRAGMA page_size").map_err(&failed)?;
        let free = number(&self.connection, "PRAGMA freelist_count").map_err(&failed)?;
        let sql = "SELECT tbl_name, sum(pgsize) FROM dbstat CROSS JOIN sqlite_schema USING(name) WHERE aggregate = TRUE \
                   GROUP BY tbl_name";
        let tables: Vec<(String, u64)> = self.rows(sql, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
        let table = |name: &str| tables.iter().filter(|(table, _)| table == name).map(|(_, bytes)| *bytes).sum();
        let spool = tables.iter().filter(|(name, _)| name.starts_with(SPOOL_PREFIX)).map(|(_, bytes)| *bytes).sum();
        let length = |path| fs::metadata(path).map_or(0, |data| data.len());
        let (log, reserve) = (length(self.beside("-wal")), self.reserve.length());
        let available = nix::sys::statvfs::statvfs(&self.path).ok();
        Ok(DiskUsage {
            kept: Kept::ALL.iter().map(|kept| (*kept, table(kept.table()))).collect(),
            spool_bytes: spool,
            total_bytes: length(self.path.clone()) + log + reserve,
            free_bytes: page * free,
            log_bytes: log,
            reserve_bytes: reserve,
            available_bytes: available.map(|fs| fs.blocks_available() * fs.fragment_size()),
        })
    }
}

const SPOOL_PREFIX: &str = "spool_";

/// The table of a segment, which is dropped whole.
pub(super) fn spool_table(segment: SegmentId) -> String {
    format!("{SPOOL_PREFIX}{}_{}", segment.hour, segment.generation)
}

fn stored_run(row: &Row) -> rusqlite::Result<StoredRun> {
    let (id, pair, started) = (row.get(0)?, PairId(row.get(1)?), Time::from_nanos(row.get(2)?));
    let ended = Time::from_nanos(row.get(3)?);
    Ok(StoredRun { id, pair, started, ended, schema: row.get(4)?, figures: row.get(5)? })
}

impl SqliteStore {
    fn rows<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ArchiveError> {
        let failed = self.failed("read");
        let mut statement = self.connection.prepare_cached(sql).map_err(&failed)?;
        let rows = statement.query_map(parameters, read).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(&failed)
    }

    /// One look for each number that the table can have: blocks of a pair lie apart.
    fn keyed(&self, table: &str, pair: PairId, numbers: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        let failed = self.failed("read blocks");
        let ends = format!(
            "SELECT min(key) >> 32, max(key) >> 32 FROM (SELECT min(key) AS key FROM {table} UNION ALL SELECT max(key) FROM {table})"
        );
        let ends = self.connection.prepare_cached(&ends).and_then(|mut statement| {
            statement.query_row([], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))
        });
        let (Some(first), Some(last)) = ends.map_err(&failed)? else { return Ok(Vec::new()) };
        let pieces = format!("SELECT data FROM {table} WHERE key BETWEEN ?1 AND ?2 ORDER BY key");
        let mut statement = self.connection.prepare_cached(&pieces).map_err(&failed)?;
        let mut found = Vec::new();
        for number in numbers.start.max(first)..numbers.end.min(last + 1) {
            let key = first_key(number, pair);
            let mut rows = statement.query([key, last_key(key)]).map_err(&failed)?;
            let mut data = Vec::new();
            while let Some(row) = rows.next().map_err(&failed)? {
                data.extend_from_slice(row.get_ref(0).map_err(&failed)?.as_blob().unwrap_or_default());
            }
            if !data.is_empty() {
                found.push((number, data));
            }
        }
        Ok(found)
    }
}
