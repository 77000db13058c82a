use super::{PostgresStore, SPOOL_PREFIX};
use crate::store::{DiskUsage, Kept, ReadStore, Segment, SegmentId, StoredRun};
use crate::{ArchiveError, AuditEntry, Event, Family, Gap, Host, HostId, Pair, PairId};
use ::postgres::Row;
use kumade_sketch::Layer;
use kumade_units::Time;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex};

const READ: &str = "read";

impl ReadStore for PostgresStore {
    fn name(&self) -> String {
        self.session.name.clone()
    }

    fn reader_turn(&self) -> Option<Arc<Mutex<()>>> {
        None
    }

    fn begin_reading(&mut self) -> Result<(), ArchiveError> {
        self.begin()
    }

    fn end_reading(&mut self) -> Result<(), ArchiveError> {
        self.session.execute_all("end reading", "ROLLBACK")
    }

    fn hosts(&mut self) -> Result<Vec<Host>, ArchiveError> {
        let rows =
            self.session.query(READ, "SELECT id, stable_id, name, address, properties FROM host ORDER BY id", &[])?;
        let host = |row: &Row| {
            let (id, stable_id) = (HostId(number(row, 0)), row.get(1));
            Host { id, stable_id, name: row.get(2), address: row.get(3), properties: row.get(4) }
        };
        Ok(rows.iter().map(host).collect())
    }

    fn pairs(&mut self) -> Result<Vec<Pair>, ArchiveError> {
        let rows = self.session.query(READ, "SELECT id, source, target, family FROM pair ORDER BY id", &[])?;
        let pair = |row: &Row| {
            let family = if row.get::<_, i64>(3) == 4 { Family::V4 } else { Family::V6 };
            Pair { id: pair_id(row, 0), source: HostId(number(row, 1)), target: HostId(number(row, 2)), family }
        };
        Ok(rows.iter().map(pair).collect())
    }

    fn figure_names(&mut self) -> Result<Vec<(u32, String)>, ArchiveError> {
        let rows = self.session.query(READ, "SELECT id, name FROM figure_name ORDER BY id", &[])?;
        Ok(rows.iter().map(|row| (number(row, 0), row.get(1))).collect())
    }

    fn delivered(&mut self) -> Result<Vec<(String, Time, u64, u64)>, ArchiveError> {
        let sql = "SELECT instance, at, first, last FROM delivered ORDER BY instance, first";
        let rows = self.session.query(READ, sql, &[])?;
        let end = |row: &Row, column| row.get::<_, &[u8]>(column).try_into().map_or(0, u64::from_be_bytes);
        Ok(rows.iter().map(|row| (row.get(0), time(row, 1), end(row, 2), end(row, 3))).collect())
    }

    fn segments(&mut self) -> Result<Vec<Segment>, ArchiveError> {
        let rows = self.session.query(
            READ,
            "SELECT hour, generation, rolled_to FROM segment ORDER BY hour, generation",
            &[],
        )?;
        let segment = |row: &Row| {
            let id = SegmentId { hour: row.get(0), generation: number(row, 1) };
            Segment { id, rolled_to: row.get::<_, Option<i64>>(2).map(|pair| PairId(pair as u32)) }
        };
        Ok(rows.iter().map(segment).collect())
    }

    fn spool(&mut self, segment: SegmentId, each: &mut dyn FnMut(u32, PairId, &[u8])) -> Result<(), ArchiveError> {
        self.read_spool(segment, each)
    }

    fn spool_of_pair(&mut self, segment: SegmentId, pair: PairId) -> Result<Vec<Vec<u8>>, ArchiveError> {
        self.read_spool_of_pair(segment, pair)
    }

    fn blocks(&mut self, layer: Layer, pair: PairId, numbers: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        self.numbered(Kept::Blocks(layer), pair, numbers)
    }

    fn packets(&mut self, pair: PairId, hours: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        self.numbered(Kept::Packets, pair, hours)
    }

    fn blocks_of_pairs(
        &mut self,
        kept: Kept,
        number: i64,
        pairs: RangeInclusive<PairId>,
    ) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError> {
        let sql = format!(
            "SELECT pair, data FROM {} WHERE number = $1 AND pair >= $2 AND pair <= $3 ORDER BY pair",
            kept.name()
        );
        let [first, last] = [pairs.start().0, pairs.end().0].map(i64::from);
        let rows = self.session.query("read blocks", &sql, &[&number, &first, &last])?;
        Ok(rows.iter().map(|row| (pair_id(row, 0), row.get(1))).collect())
    }

    fn runs(&mut self, pair: PairId, began: Range<Time>, limit: u32) -> Result<Vec<StoredRun>, ArchiveError> {
        let sql = "SELECT id, pair, started, ended, schema, figures FROM run WHERE pair = $1 AND started >= $2 AND started < $3 \
                   ORDER BY started DESC, id DESC LIMIT $4";
        let (from, to) = (began.start.as_nanos(), began.end.as_nanos());
        let rows = self.session.query(READ, sql, &[&i64::from(pair.0), &from, &to, &i64::from(limit)])?;
        Ok(rows.iter().map(stored_run).collect())
    }

    fn run(&mut self, run: i64) -> Result<Option<StoredRun>, ArchiveError> {
        let rows = self.session.query(
            READ,
            "SELECT id, pair, started, ended, schema, figures FROM run WHERE id = $1",
            &[&run],
        )?;
        Ok(rows.first().map(stored_run))
    }

    fn latest_runs(&mut self) -> Result<Vec<StoredRun>, ArchiveError> {
        let sql = "SELECT run.id, run.pair, run.started, run.ended, schema, figures FROM latest_run JOIN run ON run.id = run \
                   ORDER BY latest_run.pair";
        Ok(self.session.query(READ, sql, &[])?.iter().map(stored_run).collect())
    }

    fn last_run_id(&mut self) -> Result<i64, ArchiveError> {
        let sql = "SELECT greatest((SELECT max(id) FROM run), (SELECT max(run) FROM latest_run), 0)";
        Ok(self.session.query(READ, sql, &[])?.first().map_or(0, |row| row.get(0)))
    }

    fn document(&mut self, run: i64) -> Result<Option<Vec<u8>>, ArchiveError> {
        let rows = self.session.query(READ, "SELECT data FROM document WHERE run = $1", &[&run])?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    fn latest(&mut self) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError> {
        let rows = self.session.query(READ, "SELECT pair, data FROM latest ORDER BY pair", &[])?;
        Ok(rows.iter().map(|row| (pair_id(row, 0), row.get(1))).collect())
    }

    fn events(
        &mut self,
        at: Range<Time>,
        host: Option<HostId>,
        pair: Option<PairId>,
        limit: u32,
    ) -> Result<Vec<Event>, ArchiveError> {
        let sql = "SELECT at, kind, host, pair, text FROM event WHERE at >= $1 AND at < $2 \
                   AND ($3::bigint IS NULL OR host = $3) AND ($4::bigint IS NULL OR pair = $4) \
                   ORDER BY at DESC, id DESC LIMIT $5";
        let (from, to) = (at.start.as_nanos(), at.end.as_nanos());
        let (host, pair) = (host.map(|host| i64::from(host.0)), pair.map(|pair| i64::from(pair.0)));
        let rows = self.session.query(READ, sql, &[&from, &to, &host, &pair, &i64::from(limit)])?;
        let event = |row: &Row| {
            let optional = |column| row.get::<_, Option<i64>>(column).map(|number| number as u32);
            let (host, pair) = (optional(2).map(HostId), optional(3).map(PairId));
            Event { at: time(row, 0), kind: row.get(1), host, pair, text: row.get(4) }
        };
        Ok(rows.iter().map(event).collect())
    }

    fn gaps(&mut self, pair: PairId, range: Range<Time>) -> Result<Vec<Gap>, ArchiveError> {
        let sql = "SELECT since, until, cause FROM gap WHERE pair = $1 AND since < $3 AND until > $2 ORDER BY since";
        let rows =
            self.session.query(READ, sql, &[&i64::from(pair.0), &range.start.as_nanos(), &range.end.as_nanos()])?;
        let gap = |row: &Row| Gap { pair, from: time(row, 0), to: time(row, 1), cause: row.get(2) };
        Ok(rows.iter().map(gap).collect())
    }

    fn audit(&mut self, at: Range<Time>, limit: u32) -> Result<Vec<AuditEntry>, ArchiveError> {
        let sql = "SELECT at, who, what FROM audit WHERE at >= $1 AND at < $2 ORDER BY at DESC, id DESC LIMIT $3";
        let rows = self.session.query(READ, sql, &[&at.start.as_nanos(), &at.end.as_nanos(), &i64::from(limit)])?;
        Ok(rows.iter().map(|row| AuditEntry { at: time(row, 0), who: row.get(1), what: row.get(2) }).collect())
    }

    fn state(&mut self, key: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        let rows = self.session.query(READ, "SELECT value FROM state WHERE key = $1", &[&key])?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    fn oldest(&mut self, kept: Kept) -> Result<Option<Time>, ArchiveError> {
        let (sql, scale) = kept.oldest_query("min(number)");
        let rows = self.session.query(READ, &sql, &[])?;
        let number = rows.first().and_then(|row| row.get::<_, Option<i64>>(0));
        Ok(number.map(|number| Time::from_nanos(number.saturating_mul(scale))))
    }

    fn disk_usage(&mut self) -> Result<DiskUsage, ArchiveError> {
        let sql = "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class \
                   WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace";
        let tables = self.session.query("read how much room is taken", sql, &[])?;
        let tables: Vec<(String, i64)> = tables.iter().map(|row| (row.get(0), row.get(1))).collect();
        let sum = |matches: &dyn Fn(&str) -> bool| {
            tables.iter().filter(|(name, _)| matches(name)).map(|(_, bytes)| *bytes as u64).sum::<u64>()
        };
        let of_kind = |kept: Kept| {
            let name = kept.table();
            let parts = format!("{name}_part_");
            (kept, sum(&|table| table == name || table.starts_with(&parts)))
        };
        Ok(DiskUsage {
            kept: Kept::ALL.into_iter().map(of_kind).collect(),
            spool_bytes: sum(&|table| table.starts_with(SPOOL_PREFIX)),
            total_bytes: sum(&|_| true),
            ..DiskUsage::default()
        })
    }
}

impl PostgresStore {
    fn numbered(&mut self, kept: Kept, pair: PairId, numbers: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError> {
        // The key without a cast: only so are other partitions left alone.
        let sql = format!(
            "SELECT number, data FROM {} WHERE number >= $1 AND number < $2 AND pair = $3 ORDER BY number",
            kept.name()
        );
        let rows = self.session.query("read blocks", &sql, &[&numbers.start, &numbers.end, &i64::from(pair.0)])?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

fn number(row: &Row, column: usize) -> u32 {
    row.get::<_, i64>(column) as u32
}

fn pair_id(row: &Row, column: usize) -> PairId {
    PairId(number(row, column))
}

fn time(row: &Row, column: usize) -> Time {
    Time::from_nanos(row.get(column))
}

fn stored_run(row: &Row) -> StoredRun {
    let (started, ended) = (time(row, 2), time(row, 3));
    StoredRun { id: row.get(0), pair: pair_id(row, 1), started, ended, schema: row.get(4), figures: row.get(5) }
}
