//! Rolling up, closing days, deleting what is too old, making room: in steps, each a short transaction.

use crate::archive::{Archive, Health};
use crate::decoding::{decode_block, read_packets};
use crate::schedule::{Cursor, cursor_key, is_due};
use crate::segment::OpenSegment;
use crate::store::{Kept, SegmentId, Store, Write};
use crate::{ArchiveError, Event, PairId};
use kumade_sketch::{Block, ChunkReader, ChunkWriter, HOUR_NANOS, Layer, encode_packets};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::ops::Bound;

/// An hour is rolled up this long after its end: agents deliver within seconds.
const ROLL_AFTER: Span = Span::from_secs(120);
/// What comes later is rolled up once nothing more has come for so long …
const LATE_QUIET: Span = Span::from_secs(60);
/// … or so long after the hour, whatever comes.
const LATE_LIMIT: Span = Span::from_secs(1200);

/// A day or 32 days are put together this long after their end.
const CLOSE_AFTER: Span = Span::from_secs(1800);

/// Pairs in one step, and rows that are deleted in one: some tens of milliseconds.
const PAIRS_PER_STEP: usize = 64;
const ROWS_PER_STEP: u32 = 256;

/// How often to look for what is too old, and how often the log is emptied.
const RETENTION_INTERVAL: Span = Span::from_secs(60);
const CHECKPOINT_INTERVAL: Span = Span::from_secs(60);

/// How often to try whether a full disk has room again.
const RESUME_INTERVAL: Span = Span::from_secs(10);

/// What is given back to the file system in a step while the disk is full.
const SHRINK_STEP_BYTES: u64 = 16 << 20;

/// What is stored of an hour, by pair.
#[derive(Debug, Default)]
struct StoredHour {
    minutes: BTreeMap<PairId, Vec<u8>>,
    packets: BTreeMap<PairId, Vec<u8>>,
}

/// A block with what is stored of it.
fn merge_stored(pair: PairId, change: Block, stored: Option<&Vec<u8>>) -> Write {
    let (layer, number) = (change.layer(), change.number());
    let mut block = change;
    let stored = stored.and_then(|data| decode_block(layer, pair, number, data));
    stored.iter().for_each(|stored| block.merge(stored));
    Write::Block { layer, pair, number, data: block.encode() }
}

impl<S: Store> Archive<S> {
    /// One step of what is due: call it again at once while it says true, and every second or so otherwise. A step takes some
    /// tens of milliseconds.
    ///
    /// # Errors
    ///
    /// The disk is full, or the database failed: nothing of the step was done, and the next call tries again.
    pub fn maintain(&mut self, now: Time) -> Result<bool, ArchiveError> {
        if let Health::DiskFull(since) = self.health {
            return self.make_room(since, now);
        }
        if is_due(self.schedule.checkpoint, CHECKPOINT_INTERVAL, now) {
            self.schedule.checkpoint = Some(now);
            self.noting_full_disk(now, |archive| archive.store().checkpoint())?;
        }
        self.write_states(now)?;
        if let Some(id) = self.due_segment(now) {
            self.roll_segment(id, now)?;
            return Ok(true);
        }
        for layer in [Layer::Hours, Layer::Days] {
            if self.close_block(layer, now)? {
                return Ok(true);
            }
        }
        if !is_due(self.schedule.retention, RETENTION_INTERVAL, now) {
            return Ok(false);
        }
        let more = self.noting_full_disk(now, |archive| archive.delete_old(now))?;
        if !more {
            self.schedule.retention = Some(now);
        }
        Ok(more)
    }

    fn due_segment(&self, now: Time) -> Option<SegmentId> {
        let due = |(id, segment): (&SegmentId, &OpenSegment)| {
            let late = segment.end() + ROLL_AFTER <= now;
            let quiet = segment.touched + LATE_QUIET <= now || segment.end() + LATE_LIMIT <= now;
            // What comes to one that is rolled up opens the next generation, which waits for its turn.
            (segment.rolling || late && (quiet || id.generation == 0)).then_some(*id)
        };
        self.segments.iter().find_map(due)
    }

    /// Rolls up some pairs of a segment; the last step drops it.
    fn roll_segment(&mut self, id: SegmentId, now: Time) -> Result<(), ArchiveError> {
        let Some(segment) = self.segments.get_mut(&id) else { return Ok(()) };
        segment.rolling = true;
        let chunks: Vec<_> =
            segment.pairs.iter().take(PAIRS_PER_STEP).map(|(pair, chunk)| (*pair, chunk.clone())).collect();
        let last = chunks.len() == segment.pairs.len();
        let mut writes = Vec::new();
        let stored = self.stored_hour(id.hour, &chunks)?;
        for (pair, chunk) in &chunks {
            self.roll_pair(id.hour, *pair, chunk, &stored, now, &mut writes)?;
        }
        match chunks.last() {
            Some((pair, _)) if !last => writes.push(Write::RolledTo(id, *pair)),
            _ => writes.push(Write::DropSegment(id)),
        }
        self.apply(&writes, now)?;
        if last {
            self.segments.remove(&id);
        } else if let Some(segment) = self.segments.get_mut(&id) {
            chunks.iter().for_each(|(pair, _)| _ = segment.pairs.remove(pair));
        }
        Ok(())
    }

    /// What is stored of an hour of these pairs, such as before something came late.
    fn stored_hour(&mut self, hour: i64, chunks: &[(PairId, ChunkWriter)]) -> Result<StoredHour, ArchiveError> {
        let (Some((first, _)), Some((last, _))) = (chunks.first(), chunks.last()) else {
            return Ok(StoredHour::default());
        };
        let pairs = *first..=*last;
        let minutes = self.store().blocks_of_pairs(Kept::Blocks(Layer::Minutes), hour, pairs.clone())?;
        let packets = self.store().blocks_of_pairs(Kept::Packets, hour, pairs)?;
        Ok(StoredHour { minutes: minutes.into_iter().collect(), packets: packets.into_iter().collect() })
    }

    fn roll_pair(
        &mut self,
        hour: i64,
        pair: PairId,
        chunk: &ChunkWriter,
        stored: &StoredHour,
        now: Time,
        writes: &mut Vec<Write>,
    ) -> Result<(), ArchiveError> {
        let mut samples: Vec<_> = ChunkReader::new(chunk.bytes()).map_while(Result::ok).collect();
        let mut minutes = Block::new(Layer::Minutes, hour);
        for sample in &samples {
            if let Some(minute) = minutes.part_mut(sample.sent) {
                minute.add_sample(sample);
            }
        }
        let start = minutes.start();
        for layer in [Layer::Hours, Layer::Days] {
            let number = layer.block_number(start);
            if self.schedule.is_closed(layer, number, pair) {
                let mut change = Block::new(layer, number);
                if let Some(part) = change.part_mut(start) {
                    *part = minutes.total();
                }
                writes.push(self.merged_block(pair, change)?);
            }
        }
        writes.push(merge_stored(pair, minutes, stored.minutes.get(&pair)));
        if start + Span::from_nanos(HOUR_NANOS) > now - self.retention.packets {
            stored.packets.get(&pair).iter().for_each(|data| samples.extend(read_packets(data)));
            samples.sort_by_key(|sample| sample.sent);
            writes.push(Write::Packets { pair, hour, data: encode_packets(&samples) });
        }
        Ok(())
    }

    /// A block with what is stored of it.
    fn merged_block(&mut self, pair: PairId, change: Block) -> Result<Write, ArchiveError> {
        let number = change.number();
        let stored = self.store().blocks(change.layer(), pair, number..number + 1)?;
        Ok(merge_stored(pair, change, stored.first().map(|(_, data)| data)))
    }

    /// Puts some pairs' blocks together from those of the next finer layer, once their time is over: says whether it did.
    fn close_block(&mut self, layer: Layer, now: Time) -> Result<bool, ArchiveError> {
        let Some(finer) = Layer::ALL.into_iter().find(|finer| finer.coarser() == Some(layer)) else { return Ok(false) };
        let cursor = match self.schedule.cursor(layer) {
            Some(cursor) => cursor,
            None => {
                let Some(oldest) = self.store().oldest(Kept::Blocks(finer))? else { return Ok(false) };
                Cursor { number: layer.block_number(oldest), pair: None }
            }
        };
        let end = layer.block_start(cursor.number + 1);
        // Hours are put together from minutes, which are there as soon as they are rolled up.
        let finer_end = self.schedule.cursor(finer).map(|cursor| finer.block_start(cursor.number));
        let finer_done = finer == Layer::Minutes || finer_end.is_some_and(|finer| finer >= end);
        if now < end + CLOSE_AFTER || !finer_done {
            return Ok(false);
        }
        let after = cursor.pair.map_or(Bound::Unbounded, Bound::Excluded);
        let pairs: Vec<_> =
            self.pairs.range((after, Bound::Unbounded)).map(|(id, _)| *id).take(PAIRS_PER_STEP).collect();
        let mut writes = Vec::new();
        let parts = layer.parts() as i64;
        for &pair in &pairs {
            let mut block = Block::new(layer, cursor.number);
            for (number, data) in
                self.store().blocks(finer, pair, cursor.number * parts..(cursor.number + 1) * parts)?
            {
                if let Some(part) = decode_block(finer, pair, number, &data)
                    && let Some(sum) = block.part_mut(part.start())
                {
                    *sum = part.total();
                }
            }
            if !block.is_empty() {
                writes.push(Write::Block { layer, pair, number: cursor.number, data: block.encode() });
            }
        }
        let next = match pairs.last() {
            Some(pair) if pairs.len() == PAIRS_PER_STEP => Cursor { pair: Some(*pair), ..cursor },
            _ => Cursor { number: cursor.number + 1, pair: None },
        };
        writes.push(Write::State(cursor_key(layer).to_owned(), Some(next.encode())));
        self.apply(&writes, now)?;
        self.schedule.set_cursor(layer, next);
        Ok(true)
    }

    /// Deletes some of what is too old: says whether there may be more.
    fn delete_old(&mut self, now: Time) -> Result<bool, ArchiveError> {
        for kept in Kept::ALL {
            let Some(span) = self.retention.span(kept) else { continue };
            let before = match kept {
                // Not before the coarser layer has it.
                Kept::Blocks(layer) => {
                    let coarser = layer.coarser().map(|coarser| (coarser, self.schedule.cursor(coarser)));
                    match coarser {
                        Some((coarser, Some(cursor))) => coarser.block_start(cursor.number).min(now - span),
                        Some((_, None)) => continue,
                        None => now - span,
                    }
                }
                _ => now - span,
            };
            if kept == Kept::Delivered {
                self.delivered.retain(|_, numbers| numbers.last_delivery() >= before);
            }
            if self.store().delete_before(kept, before, ROWS_PER_STEP)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// While the disk is full: the reserve is given up, what is too old is deleted and its room given back, until the reserve
    /// fits again.
    fn make_room(&mut self, since: Time, now: Time) -> Result<bool, ArchiveError> {
        self.store().release_reserve()?;
        let more = self.delete_old(now)?;
        self.store().shrink(SHRINK_STEP_BYTES)?;
        self.store().checkpoint()?;
        if more || !is_due(self.schedule.resume, RESUME_INTERVAL, now) {
            return Ok(more);
        }
        self.schedule.resume = Some(now);
        if self.store().restore_reserve()? {
            let text = format!("The disk was full for {:.0} s: nothing was written.", (now - since).as_secs_f64());
            let event = Event { at: now, kind: "disk-full".to_owned(), host: None, pair: None, text };
            self.store().commit(&[Write::Event(event)])?;
            self.health = Health::Writing;
        }
        Ok(false)
    }

    fn noting_full_disk<T>(
        &mut self,
        now: Time,
        step: impl FnOnce(&mut Self) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let done = step(self);
        if let Err(ArchiveError::DiskFull { .. }) = done {
            self.health = Health::DiskFull(now);
        }
        done
    }
}
