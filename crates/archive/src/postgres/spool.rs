//! Samples that are not rolled up, as rows: those of many pairs in one.
//!
//! A row of a pair's own takes some eighty bytes with its entry in the index, and as many in the log; what it would hold, a second of a pair,
//! takes five.

use super::{PostgresStore, SPOOL_PREFIX};
use crate::bytes::{put_unsigned, take, take_unsigned};
use crate::store::SegmentId;
use crate::{ArchiveError, PairId};
use ::postgres::fallible_iterator::FallibleIterator;

const READ: &str = "read the spool";

/// Pairs with the same number after this division are in the same rows.
const PAIRS_IN_GROUP: u32 = 64;
/// Longer rows would be stored apart from the table.
const MAX_ROW_BYTES: usize = 1800;

/// The table of a segment, which is dropped whole.
pub(super) fn spool_table(segment: SegmentId) -> String {
    format!("{SPOOL_PREFIX}{}_{}", segment.hour, segment.generation)
}

fn group(pair: PairId) -> u32 {
    pair.0 / PAIRS_IN_GROUP
}

/// Rows of a group's number and chunks; `chunks` are by pair.
pub(super) fn encode_rows(chunks: &[(PairId, Vec<u8>)]) -> Vec<(i64, Vec<u8>)> {
    let mut rows: Vec<(i64, Vec<u8>)> = Vec::new();
    for (pair, chunk) in chunks {
        let number = i64::from(group(*pair));
        match rows.last_mut() {
            Some((last, row)) if *last == number && row.len() + chunk.len() <= MAX_ROW_BYTES => {
                put_chunk(row, *pair, chunk);
            }
            _ => {
                let mut row = Vec::new();
                put_chunk(&mut row, *pair, chunk);
                rows.push((number, row));
            }
        }
    }
    rows
}

fn put_chunk(row: &mut Vec<u8>, pair: PairId, chunk: &[u8]) {
    put_unsigned(row, u64::from(pair.0 % PAIRS_IN_GROUP));
    put_unsigned(row, chunk.len() as u64);
    row.extend_from_slice(chunk);
}

/// The chunks of a row; damaged ones, and those behind them, are left out.
pub(super) fn decode_row(group: i64, mut row: &[u8]) -> impl Iterator<Item = (PairId, &[u8])> {
    let first = (group as u32).saturating_mul(PAIRS_IN_GROUP);
    std::iter::from_fn(move || {
        let place = u32::try_from(take_unsigned(&mut row)?).ok()?;
        let length = usize::try_from(take_unsigned(&mut row)?).ok()?;
        Some((PairId(first.checked_add(place)?), take(&mut row, length)?))
    })
}

impl PostgresStore {
    pub(super) fn read_spool(
        &mut self,
        segment: SegmentId,
        each: &mut dyn FnMut(u32, PairId, &[u8]),
    ) -> Result<(), ArchiveError> {
        let name = self.session.name.clone();
        let failed = |error| super::error::engine_error(READ, &name, error);
        let sql = format!("SELECT slot, pairs, chunks FROM {} ORDER BY slot, pairs", spool_table(segment));
        // Row by row: an hour of a large mesh is some hundred megabytes.
        let mut rows = self.session.client.query_raw(&sql, [0i64; 0]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let slot = row.get::<_, i64>(0) as u32;
            decode_row(row.get(1), row.get(2)).for_each(|(pair, chunk)| each(slot, pair, chunk));
        }
        Ok(())
    }

    pub(super) fn read_spool_of_pair(
        &mut self,
        segment: SegmentId,
        pair: PairId,
    ) -> Result<Vec<Vec<u8>>, ArchiveError> {
        let number = i64::from(group(pair));
        let sql = format!("SELECT chunks FROM {} WHERE pairs = $1 ORDER BY slot", spool_table(segment));
        let rows = self.session.query(READ, &sql, &[&number])?;
        let chunks = rows.iter().flat_map(|row| decode_row(number, row.get(0)));
        Ok(chunks.filter(|(found, _)| *found == pair).map(|(_, chunk)| chunk.to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_out_of_rows_as_they_went_in() {
        let chunks: Vec<_> = [0, 1, 63, 64, 70, 5000, PairId::MAX.0]
            .into_iter()
            .map(|pair| (PairId(pair), vec![pair as u8; 600 + pair as usize % 1000]))
            .collect();
        let rows = encode_rows(&chunks);
        assert!(rows.len() > 4 && rows.iter().all(|(_, row)| row.len() < MAX_ROW_BYTES + 10), "{}", rows.len());
        let found: Vec<_> = rows.iter().flat_map(|(group, row)| decode_row(*group, row)).collect();
        assert!(found.iter().copied().eq(chunks.iter().map(|(pair, chunk)| (*pair, &chunk[..]))));
        // One longer than a row has one of its own; what is cut off is left out.
        let long = encode_rows(&[(PairId(1), vec![0; 5000]), (PairId(2), vec![1; 5])]);
        assert_eq!(long.len(), 2);
        assert_eq!(decode_row(0, &long[0].1[..4000]).count(), 0);
    }
}
