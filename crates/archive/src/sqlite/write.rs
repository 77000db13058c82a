use super::read::spool_table;
use super::{BUSY_TIMEOUT, SqliteStore, first_key, last_key};
use crate::store::{Kept, SegmentId, Store, Write};
use crate::{ArchiveError, Family, PairId};
use kumade_sketch::HOUR_NANOS;
use kumade_units::Time;
use rusqlite::{Transaction, TransactionBehavior};
use std::time::Duration;

/// Length of a piece of a block: sixteen to a page.
const PIECE_BYTES: usize = 1000;

impl Store for SqliteStore {
    fn commit(&mut self, writes: &[Write]) -> Result<(), ArchiveError> {
        let failed = self.failed("write");
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        for write in writes {
            apply(&transaction, write).map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)
    }

    fn delete_before(&mut self, kept: Kept, before: Time, limit: u32) -> Result<u32, ArchiveError> {
        let nanos = before.as_nanos();
        let by_time = |table, column| {
            let sql = format!(
                "DELETE FROM {table} WHERE rowid IN \
                 (SELECT rowid FROM {table} WHERE {column} < ?1 ORDER BY {column} LIMIT ?2)"
            );
            (sql, nanos)
        };
        let (sql, bound) = match kept {
            Kept::Packets => return self.delete_blocks(kept, nanos.div_euclid(HOUR_NANOS), limit),
            Kept::Blocks(layer) => return self.delete_blocks(kept, layer.block_number(before), limit),
            Kept::Runs => by_time("run", "started"),
            Kept::Documents => {
                let sql = "DELETE FROM document WHERE run IN (SELECT run FROM (SELECT document.run, started FROM document \
                           LEFT JOIN run ON run.id = document.run ORDER BY document.run LIMIT ?2) \
                           WHERE started IS NULL OR started < ?1)";
                (sql.to_owned(), nanos)
            }
            Kept::Events => by_time("event", "at"),
            Kept::Gaps => {
                let sql =
                    "DELETE FROM gap WHERE (pair, since) IN (SELECT pair, since FROM gap WHERE until < ?1 LIMIT ?2)";
                (sql.to_owned(), nanos)
            }
            Kept::Audit => by_time("audit", "at"),
            // A few rows an instance: all of them go at once.
            Kept::Delivered => ("DELETE FROM delivered WHERE at < ?1 AND ?2 > 0".to_owned(), nanos),
        };
        let failed = self.failed("delete what is too old");
        let mut statement = self.connection.prepare_cached(&sql).map_err(&failed)?;
        statement.execute((bound, limit)).map(|deleted| deleted as u32).map_err(&failed)
    }

    fn checkpoint(&mut self) -> Result<u64, ArchiveError> {
        let length = std::fs::metadata(self.beside("-wal")).map_or(0, |data| data.len());
        let slot = std::sync::Arc::clone(&self.reader_slot);
        // Nobody of this process reads meanwhile, so that the next write begins at the log's front again.
        let _slot = Self::take_slot(&slot);
        let failed = self.failed("move the log into the database");
        // A backup reads meanwhile, or another process: nobody waits for it here, the next time does.
        self.connection.busy_timeout(Duration::ZERO).map_err(&failed)?;
        let done = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
        self.connection.busy_timeout(BUSY_TIMEOUT).map_err(&failed)?;
        done.map_err(&failed)?;
        Ok(length)
    }

    fn shrink(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let failed = self.failed("give room back to the file system");
        let pages = bytes.div_ceil(u64::from(super::PAGE_BYTES));
        let mut statement = self.connection.prepare(&format!("PRAGMA incremental_vacuum({pages})")).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while rows.next().map_err(&failed)?.is_some() {}
        Ok(())
    }

    fn release_reserve(&mut self) -> Result<(), ArchiveError> {
        self.reserve.remove()
    }

    fn restore_reserve(&mut self) -> Result<bool, ArchiveError> {
        self.reserve.create()
    }
}

impl SqliteStore {
    /// Deletes whole blocks of lower numbers, as long as they have not more than so many pieces together.
    fn delete_blocks(&mut self, kept: Kept, number: i64, limit: u32) -> Result<u32, ArchiveError> {
        let (table, failed) = (kept.name(), self.failed("delete what is too old"));
        let last = format!("SELECT max(key) FROM (SELECT key FROM {table} WHERE key < ?1 ORDER BY key LIMIT ?2)");
        let found = self
            .connection
            .prepare_cached(&last)
            .and_then(|mut statement| statement.query_row((number << 32, limit), |row| row.get::<_, Option<i64>>(0)));
        let Some(last) = found.map_err(&failed)? else { return Ok(0) };
        let delete = format!("DELETE FROM {table} WHERE key <= ?1");
        let deleted =
            self.connection.prepare_cached(&delete).and_then(|mut statement| statement.execute([last_key(last)]));
        deleted.map(|deleted| deleted as u32).map_err(&failed)
    }
}

fn apply(transaction: &Transaction, write: &Write) -> rusqlite::Result<()> {
    let run = |sql: &str, parameters: &dyn Fn(&mut rusqlite::Statement) -> rusqlite::Result<usize>| {
        parameters(&mut *transaction.prepare_cached(sql)?).map(drop)
    };
    match write {
        Write::Host(host) => run(
            "INSERT INTO host(id, stable_id, name, address, properties) VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(id) DO \
             UPDATE SET stable_id = ?2, name = ?3, address = ?4, properties = ?5",
            &|sql| sql.execute((host.id.0, &host.stable_id, &host.name, &host.address, &host.properties)),
        ),
        Write::Pair(pair) => run("INSERT INTO pair(id, source, target, family) VALUES(?1, ?2, ?3, ?4)", &|sql| {
            let family = match pair.family {
                Family::V4 => 4,
                Family::V6 => 6,
            };
            sql.execute((pair.id.0, pair.source.0, pair.target.0, family))
        }),
        Write::Delivered { instance, at, ranges } => write_delivered(transaction, instance, *at, ranges),
        Write::OpenSegment(id) => open_segment(transaction, *id),
        Write::Spool { segment, slot, chunks } => write_spool(transaction, *segment, *slot, chunks),
        Write::RolledTo(id, pair) => {
            run("UPDATE segment SET rolled_to = ?3 WHERE hour = ?1 AND generation = ?2", &|sql| {
                sql.execute((id.hour, id.generation, pair.0))
            })
        }
        Write::DropSegment(id) => {
            run("DELETE FROM segment WHERE hour = ?1 AND generation = ?2", &|sql| {
                sql.execute((id.hour, id.generation))
            })?;
            transaction.execute_batch(&format!("DROP TABLE {}", spool_table(*id)))
        }
        Write::Block { layer, pair, number, data } => {
            write_pieces(transaction, Kept::Blocks(*layer).name(), first_key(*number, *pair), data)
        }
        Write::Packets { pair, hour, data } => {
            write_pieces(transaction, Kept::Packets.name(), first_key(*hour, *pair), data)
        }
        Write::FigureName(number, name) => {
            run("INSERT INTO figure_name(id, name) VALUES(?1, ?2)", &|sql| sql.execute((number, name)))
        }
        other => apply_record(transaction, other),
    }
}

fn apply_record(transaction: &Transaction, write: &Write) -> rusqlite::Result<()> {
    let run = |sql: &str, parameters: &dyn Fn(&mut rusqlite::Statement) -> rusqlite::Result<usize>| {
        parameters(&mut *transaction.prepare_cached(sql)?).map(drop)
    };
    match write {
        Write::Run(stored, document) => {
            run("INSERT INTO run(id, pair, started, ended, schema, figures) VALUES(?1, ?2, ?3, ?4, ?5, ?6)", &|sql| {
                let times = (stored.started.as_nanos(), stored.ended.as_nanos());
                sql.execute((stored.id, stored.pair.0, times.0, times.1, &stored.schema, &stored.figures))
            })?;
            run("INSERT INTO document(run, data) VALUES(?1, ?2)", &|sql| sql.execute((stored.id, document)))?;
            run(
                "INSERT INTO latest_run(pair, run, started) VALUES(?1, ?2, ?3) ON CONFLICT(pair) DO UPDATE SET run = ?2, \
                 started = ?3 WHERE started <= ?3",
                &|sql| sql.execute((stored.pair.0, stored.id, stored.started.as_nanos())),
            )
        }
        Write::Event(event) => {
            run("INSERT INTO event(at, kind, host, pair, text) VALUES(?1, ?2, ?3, ?4, ?5)", &|sql| {
                let (host, pair) = (event.host.map(|host| host.0), event.pair.map(|pair| pair.0));
                sql.execute((event.at.as_nanos(), &event.kind, host, pair, &event.text))
            })
        }
        Write::Gap(gap) => run(
            "INSERT INTO gap(pair, since, until, cause) VALUES(?1, ?2, ?3, ?4) ON CONFLICT(pair, since) DO UPDATE SET \
             until = ?3, cause = ?4",
            &|sql| sql.execute((gap.pair.0, gap.from.as_nanos(), gap.to.as_nanos(), &gap.cause)),
        ),
        Write::Audit(entry) => run("INSERT INTO audit(at, who, what) VALUES(?1, ?2, ?3)", &|sql| {
            sql.execute((entry.at.as_nanos(), &entry.who, &entry.what))
        }),
        Write::State(key, Some(value)) => {
            run("INSERT INTO state(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2", &|sql| {
                sql.execute((key, value))
            })
        }
        Write::State(key, None) => run("DELETE FROM state WHERE key = ?1", &|sql| sql.execute([key])),
        Write::Latest(states) => {
            let sql = "INSERT INTO latest(pair, data) VALUES(?1, ?2) ON CONFLICT(pair) DO UPDATE SET data = ?2";
            let mut statement = transaction.prepare_cached(sql)?;
            states.iter().try_for_each(|(pair, data)| statement.execute((pair.0, data)).map(drop))
        }
        _ => unreachable!("`apply` has the others"),
    }
}

fn write_delivered(transaction: &Transaction, instance: &str, at: Time, ranges: &[(u64, u64)]) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM delivered WHERE instance = ?1")?.execute([instance])?;
    let mut insert =
        transaction.prepare_cached("INSERT INTO delivered(instance, first, last, at) VALUES(?1, ?2, ?3, ?4)")?;
    for (first, last) in ranges {
        // Big-endian bytes: SQLite's integers have a sign.
        insert.execute((instance, first.to_be_bytes(), last.to_be_bytes(), at.as_nanos()))?;
    }
    Ok(())
}

fn open_segment(transaction: &Transaction, id: SegmentId) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO segment(hour, generation) VALUES(?1, ?2)", (id.hour, id.generation))?;
    transaction.execute_batch(&format!(
        "CREATE TABLE {}(key INTEGER PRIMARY KEY, chunk BLOB NOT NULL) STRICT",
        spool_table(id)
    ))
}

fn write_spool(
    transaction: &Transaction,
    segment: SegmentId,
    slot: u32,
    chunks: &[(PairId, Vec<u8>)],
) -> rusqlite::Result<()> {
    let sql = format!("INSERT INTO {}(key, chunk) VALUES(?1, ?2)", spool_table(segment));
    let mut insert = transaction.prepare_cached(&sql)?;
    chunks.iter().try_for_each(|(pair, chunk)| insert.execute((first_key(i64::from(slot), *pair), chunk)).map(drop))
}

/// Instead of what was there.
fn write_pieces(transaction: &Transaction, table: &str, first: i64, data: &[u8]) -> rusqlite::Result<()> {
    let delete = format!("DELETE FROM {table} WHERE key BETWEEN ?1 AND ?2");
    transaction.prepare_cached(&delete)?.execute([first, last_key(first)])?;
    let mut insert = transaction.prepare_cached(&format!("INSERT INTO {table}(key, data) VALUES(?1, ?2)"))?;
    let (mut key, mut left) = (first, data);
    while !left.is_empty() {
        let length = if key == last_key(first) { left.len() } else { left.len().min(PIECE_BYTES) };
        let (piece, rest) = left.split_at(length);
        insert.execute((key, piece))?;
        (key, left) = (key + 1, rest);
    }
    Ok(())
}
