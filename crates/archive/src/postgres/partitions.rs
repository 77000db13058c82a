use super::PostgresStore;
use crate::ArchiveError;
use crate::store::Kept;
use kumade_sketch::Layer;

const DELETE: &str = "delete what is too old";

/// How many numbers of blocks lie in one partition: a day of hours, eight days, two years of 32 days.
fn numbers_in_partition(kept: Kept) -> i64 {
    match kept {
        Kept::Blocks(Layer::Hours) => 8,
        _ => 24,
    }
}

impl PostgresStore {
    /// Makes the partitions that these numbers belong to. There is none that takes what is left: a row without one would be
    /// a fault of this program.
    pub(super) fn make_partitions(&mut self, kept: Kept, numbers: &[i64]) -> Result<(), ArchiveError> {
        let (table, each) = (kept.name(), numbers_in_partition(kept));
        let mut places: Vec<_> = numbers.iter().map(|number| number.div_euclid(each)).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            let name = partition_name(table, place);
            let sql = "SELECT to_regclass($1::text) IS NOT NULL";
            let known = self.session.query("look for a partition", sql, &[&name])?;
            if !known.first().is_some_and(|row| row.get(0)) {
                let (from, to) = (place * each, (place + 1) * each);
                let sql = format!(
                    "CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ({from}) TO ({to}); \
                     ALTER TABLE {name} ALTER COLUMN data SET STORAGE EXTERNAL"
                );
                self.session.execute_all("make a partition", &sql)?;
            }
        }
        Ok(())
    }

    /// Drops partitions all of whose numbers are lower, then deletes at most `limit` rows of the oldest one that is left.
    pub(super) fn delete_blocks(&mut self, kept: Kept, number: i64, limit: u32) -> Result<u32, ArchiveError> {
        let deleted = self.in_transaction(DELETE, |store| store.delete_oldest_blocks(kept, number, limit))?;
        Ok(deleted as u32)
    }

    fn delete_oldest_blocks(&mut self, kept: Kept, number: i64, limit: u32) -> Result<u64, ArchiveError> {
        let (table, each) = (kept.name(), numbers_in_partition(kept));
        let operation = DELETE;
        let sql = "SELECT min(number) FROM ".to_owned() + table;
        let oldest = self.session.query(operation, &sql, &[])?.first().and_then(|row| row.get::<_, Option<i64>>(0));
        let Some(oldest) = oldest.filter(|oldest| *oldest < number) else { return Ok(0) };
        let place = oldest.div_euclid(each);
        if (place + 1) * each <= number {
            let name = partition_name(table, place);
            self.session.execute_all(operation, &format!("DROP TABLE {name}"))?;
            return Ok(1);
        }
        let sql = format!(
            "DELETE FROM {table} WHERE (number, pair) IN \
             (SELECT number, pair FROM {table} WHERE number < $1 ORDER BY number, pair LIMIT $2)"
        );
        self.session.execute(operation, &sql, &[&number, &i64::from(limit)])
    }
}

fn partition_name(table: &str, place: i64) -> String {
    format!("{table}_part_{place}")
}
