use super::PostgresStore;
use super::spool::{encode_rows, spool_table};
use crate::store::{Kept, SegmentId, Store, Write};
use crate::{ArchiveError, Family, PairId};
use ::postgres::binary_copy::BinaryCopyInWriter;
use ::postgres::types::{ToSql, Type};
use kumade_sketch::HOUR_NANOS;
use kumade_units::Time;
use std::collections::BTreeMap;

const WRITE: &str = "write";

/// A row of blocks: number, pair, data.
type BlockRow<'a> = (i64, i64, &'a [u8]);

/// Whose, when its last batch came, the ranges.
type DeliveredRanges<'a> = (&'a str, Time, &'a [(u64, u64)]);

impl Store for PostgresStore {
    fn commit(&mut self, writes: &[Write]) -> Result<(), ArchiveError> {
        self.in_transaction(WRITE, |store| store.apply_all(writes))
    }

    fn delete_before(&mut self, kept: Kept, before: Time, limit: u32) -> Result<u32, ArchiveError> {
        let nanos = before.as_nanos();
        let sql = match kept {
            Kept::Packets => return self.delete_blocks(kept, nanos.div_euclid(HOUR_NANOS), limit),
            Kept::Blocks(layer) => return self.delete_blocks(kept, layer.block_number(before), limit),
            Kept::Runs => {
                "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE started < $1 ORDER BY started LIMIT $2)"
            }
            Kept::Documents => {
                "DELETE FROM document WHERE run IN (SELECT run FROM (SELECT document.run, started FROM document \
                 LEFT JOIN run ON run.id = document.run ORDER BY document.run LIMIT $2) AS oldest \
                 WHERE started IS NULL OR started < $1)"
            }
            Kept::Events => "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < $1 ORDER BY at LIMIT $2)",
            Kept::Gaps => {
                "DELETE FROM gap WHERE (pair, since) IN (SELECT pair, since FROM gap WHERE until < $1 LIMIT $2)"
            }
            Kept::Audit => "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT $2)",
            Kept::Delivered => "DELETE FROM delivered WHERE at < $1 AND $2::bigint > 0",
        };
        let operation = "delete what is too old";
        let deleted = self
            .in_transaction(operation, |store| store.session.execute(operation, sql, &[&nanos, &i64::from(limit)]))?;
        Ok(deleted as u32)
    }

    fn checkpoint(&mut self) -> Result<u64, ArchiveError> {
        // The server does it.
        Ok(0)
    }

    fn shrink(&mut self, _: u64) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn release_reserve(&mut self) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn restore_reserve(&mut self) -> Result<bool, ArchiveError> {
        // Whether the server's disk has room shows when it is written to.
        self.session
            .execute(
                "look whether there is room",
                "INSERT INTO state(key, value) VALUES('archive/room', '') ON CONFLICT(key) DO UPDATE SET value = ''",
                &[],
            )
            .map(|_| true)
            .or_else(|error| if matches!(error, ArchiveError::DiskFull { .. }) { Ok(false) } else { Err(error) })
    }
}

impl PostgresStore {
    /// Blocks and chunks go together by COPY, numbers of batches in one statement, the rest one by one.
    fn apply_all(&mut self, writes: &[Write]) -> Result<(), ArchiveError> {
        let mut blocks: BTreeMap<Kept, Vec<BlockRow>> = BTreeMap::new();
        let mut delivered = Vec::new();
        for write in writes {
            match write {
                Write::Block { layer, pair, number, data } => {
                    blocks.entry(Kept::Blocks(*layer)).or_default().push((*number, i64::from(pair.0), data));
                }
                Write::Packets { pair, hour, data } => {
                    blocks.entry(Kept::Packets).or_default().push((*hour, i64::from(pair.0), data));
                }
                Write::Spool { segment, slot, chunks } => self.write_spool(*segment, *slot, chunks)?,
                Write::Latest(states) => self.write_latest(states)?,
                Write::Delivered { instance, at, ranges } => delivered.push((&instance[..], *at, &ranges[..])),
                other => self.apply(other)?,
            }
        }
        self.write_delivered(&delivered)?;
        blocks.into_iter().try_for_each(|(kept, rows)| self.write_blocks(kept, &rows))
    }

    fn apply(&mut self, write: &Write) -> Result<(), ArchiveError> {
        match write {
            Write::Host(host) => self.run(
                "INSERT INTO host(id, stable_id, name, address, properties) VALUES($1, $2, $3, $4, $5) ON CONFLICT(id) DO \
                 UPDATE SET stable_id = $2, name = $3, address = $4, properties = $5",
                &[&i64::from(host.id.0), &host.stable_id, &host.name, &host.address, &host.properties],
            ),
            Write::Pair(pair) => {
                let family = if pair.family == Family::V4 { 4i64 } else { 6 };
                let [id, source, target] = [pair.id.0, pair.source.0, pair.target.0].map(i64::from);
                let sql = "INSERT INTO pair(id, source, target, family) VALUES($1, $2, $3, $4)";
                self.run(sql, &[&id, &source, &target, &family])
            }
            Write::OpenSegment(id) => self.open_segment(*id),
            Write::RolledTo(id, pair) => self.run(
                "UPDATE segment SET rolled_to = $3 WHERE hour = $1 AND generation = $2",
                &[&id.hour, &i64::from(id.generation), &i64::from(pair.0)],
            ),
            Write::DropSegment(id) => {
                let sql = "DELETE FROM segment WHERE hour = $1 AND generation = $2";
                self.run(sql, &[&id.hour, &i64::from(id.generation)])?;
                self.session.execute_all(WRITE, &format!("DROP TABLE {}", spool_table(*id)))
            }
            Write::FigureName(number, name) => {
                self.run("INSERT INTO figure_name(id, name) VALUES($1, $2)", &[&i64::from(*number), name])
            }
            other => self.apply_record(other),
        }
    }

    fn apply_record(&mut self, write: &Write) -> Result<(), ArchiveError> {
        match write {
            Write::Run(stored, document) => {
                let pair = i64::from(stored.pair.0);
                let (started, ended) = (stored.started.as_nanos(), stored.ended.as_nanos());
                let sql = "INSERT INTO run(id, pair, started, ended, schema, figures) VALUES($1, $2, $3, $4, $5, $6)";
                self.run(sql, &[&stored.id, &pair, &started, &ended, &stored.schema, &stored.figures])?;
                self.run("INSERT INTO document(run, data) VALUES($1, $2)", &[&stored.id, document])?;
                self.run(
                    "INSERT INTO latest_run(pair, run, started) VALUES($1, $2, $3) ON CONFLICT(pair) DO UPDATE SET \
                     run = $2, started = $3 WHERE latest_run.started <= $3",
                    &[&pair, &stored.id, &started],
                )
            }
            Write::Event(event) => {
                let host = event.host.map(|host| i64::from(host.0));
                let pair = event.pair.map(|pair| i64::from(pair.0));
                let sql = "INSERT INTO event(at, kind, host, pair, text) VALUES($1, $2, $3, $4, $5)";
                self.run(sql, &[&event.at.as_nanos(), &event.kind, &host, &pair, &event.text])
            }
            Write::Gap(gap) => self.run(
                "INSERT INTO gap(pair, since, until, cause) VALUES($1, $2, $3, $4) ON CONFLICT(pair, since) DO UPDATE SET \
                 until = $3, cause = $4",
                &[&i64::from(gap.pair.0), &gap.from.as_nanos(), &gap.to.as_nanos(), &gap.cause],
            ),
            Write::Audit(entry) => {
                let sql = "INSERT INTO audit(at, who, what) VALUES($1, $2, $3)";
                self.run(sql, &[&entry.at.as_nanos(), &entry.who, &entry.what])
            }
            Write::State(key, Some(value)) => {
                let sql = "INSERT INTO state(key, value) VALUES($1, $2) ON CONFLICT(key) DO UPDATE SET value = $2";
                self.run(sql, &[key, value])
            }
            Write::State(key, None) => self.run("DELETE FROM state WHERE key = $1", &[key]),
            _ => unreachable!("`apply_all` and `apply` have the others"),
        }
    }

    fn run(&mut self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<(), ArchiveError> {
        self.session.execute(WRITE, sql, parameters).map(drop)
    }

    /// Of all instances at once: each agent of a mesh delivers every second. Most have one range, which becomes longer.
    fn write_delivered(&mut self, delivered: &[DeliveredRanges]) -> Result<(), ArchiveError> {
        let rows = delivered.iter().flat_map(|(instance, at, ranges)| {
            ranges.iter().map(|(first, last)| (*instance, *first, *last, at.as_nanos()))
        });
        let (mut instances, mut firsts, mut lasts, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (instance, first, last, at) in rows {
            instances.push(instance);
            // Big-endian bytes: the server's integers have a sign.
            firsts.push(first.to_be_bytes().to_vec());
            lasts.push(last.to_be_bytes().to_vec());
            times.push(at);
        }
        if instances.is_empty() {
            return Ok(());
        }
        self.run(
            "INSERT INTO delivered(instance, first, last, at) SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[]) \
             ON CONFLICT(instance, first) DO UPDATE SET last = excluded.last, at = excluded.at",
            &[&instances, &firsts, &lasts, &times],
        )?;
        self.run(
            "DELETE FROM delivered WHERE instance = ANY($1::text[]) AND NOT EXISTS \
             (SELECT FROM unnest($1::text[], $2::bytea[]) AS kept(instance, first) \
             WHERE kept.instance = delivered.instance AND kept.first = delivered.first)",
            &[&instances, &firsts],
        )
    }

    fn open_segment(&mut self, id: SegmentId) -> Result<(), ArchiveError> {
        let sql = "INSERT INTO segment(hour, generation) VALUES($1, $2)";
        self.run(sql, &[&id.hour, &i64::from(id.generation)])?;
        let table = spool_table(id);
        let sql = format!(
            "CREATE TABLE {table}(slot bigint NOT NULL, pairs bigint NOT NULL, chunks bytea NOT NULL); \
             ALTER TABLE {table} ALTER COLUMN chunks SET STORAGE EXTERNAL; \
             CREATE INDEX {table}_of_pairs ON {table}(pairs, slot)"
        );
        self.session.execute_all(WRITE, &sql)
    }

    fn write_spool(&mut self, segment: SegmentId, slot: u32, chunks: &[(PairId, Vec<u8>)]) -> Result<(), ArchiveError> {
        let (slot, rows) = (i64::from(slot), encode_rows(chunks));
        let rows = rows.iter().map(|(group, chunks)| (slot, *group, &chunks[..]));
        self.copy(&format!("{}(slot, pairs, chunks)", spool_table(segment)), rows)
    }

    fn write_latest(&mut self, states: &[(PairId, Vec<u8>)]) -> Result<(), ArchiveError> {
        self.stage(states.iter().map(|(pair, data)| (0, i64::from(pair.0), &data[..])))?;
        self.run(
            "INSERT INTO latest(pair, data) SELECT pair, data FROM staging ON CONFLICT(pair) DO UPDATE SET data = excluded.data",
            &[],
        )
    }

    /// One known key would fail a whole COPY: it goes to a table of its own first.
    fn write_blocks(&mut self, kept: Kept, rows: &[BlockRow]) -> Result<(), ArchiveError> {
        self.make_partitions(kept, &rows.iter().map(|(number, _, _)| *number).collect::<Vec<_>>())?;
        self.stage(rows.iter().copied())?;
        let sql = format!(
            "INSERT INTO {}(number, pair, data) SELECT number, pair, data FROM staging ON CONFLICT(number, pair) \
             DO UPDATE SET data = excluded.data",
            kept.name()
        );
        self.run(&sql, &[])
    }

    fn stage<'a>(&mut self, rows: impl Iterator<Item = BlockRow<'a>>) -> Result<(), ArchiveError> {
        let sql = "CREATE TEMP TABLE IF NOT EXISTS staging(number bigint NOT NULL, pair bigint NOT NULL, data bytea NOT NULL) \
                   ON COMMIT DELETE ROWS; TRUNCATE staging";
        self.session.execute_all(WRITE, sql)?;
        self.copy("staging(number, pair, data)", rows)
    }

    fn copy<'a>(&mut self, table: &str, rows: impl Iterator<Item = BlockRow<'a>>) -> Result<(), ArchiveError> {
        let sql = format!("COPY {table} FROM STDIN (FORMAT binary)");
        let name = self.session.name.clone();
        let failed = |error| super::error::engine_error(WRITE, &name, error);
        let writer = self.session.client.copy_in(&sql).map_err(failed)?;
        let mut writer = BinaryCopyInWriter::new(writer, &[Type::INT8, Type::INT8, Type::BYTEA]);
        for (first, second, data) in rows {
            writer.write(&[&first, &second, &data]).map_err(failed)?;
        }
        writer.finish().map(drop).map_err(failed)
    }
}
