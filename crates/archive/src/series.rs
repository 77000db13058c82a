//! The probes of a pair over any time, as fine as a picture can show: from blocks of three layers and what is not rolled up yet.

use crate::decoding::decode_block;
use crate::store::ReadStore;
use crate::{ArchiveError, PairId};
use kumade_sketch::{ChunkReader, HOUR_NANOS, Layer, MINUTE_NANOS, Summary};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is asked: the probes of a pair in some time, in about so many points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesQuery {
    /// Of which pair.
    pub pair: PairId,
    /// From when, UTC.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// At most this many points, as far as whole minutes allow, and at least half as many.
    pub points: usize,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Length of a point. Points are at multiples of it since 1970 (UTC).
    pub step: Span,
    /// By time. There is none where no probe was sent.
    pub points: Vec<Point>,
}

/// The probes of one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// When it begins.
    pub start: Time,
    /// The series' step, or longer where only coarser sums are still kept.
    pub length: Span,
    /// Its probes.
    pub summary: Summary,
}

/// Lengths of points, each a divisor of some later ones, so that pictures beside each other match.
const STEPS_NANOS: [i64; 19] = [
    MINUTE_NANOS,
    2 * MINUTE_NANOS,
    5 * MINUTE_NANOS,
    10 * MINUTE_NANOS,
    15 * MINUTE_NANOS,
    20 * MINUTE_NANOS,
    30 * MINUTE_NANOS,
    HOUR_NANOS,
    2 * HOUR_NANOS,
    3 * HOUR_NANOS,
    4 * HOUR_NANOS,
    6 * HOUR_NANOS,
    8 * HOUR_NANOS,
    12 * HOUR_NANOS,
    24 * HOUR_NANOS,
    2 * 24 * HOUR_NANOS,
    4 * 24 * HOUR_NANOS,
    8 * 24 * HOUR_NANOS,
    32 * 24 * HOUR_NANOS,
];

impl SeriesQuery {
    /// When the first point begins, or would, and the step.
    pub fn steps(&self) -> (Time, Span) {
        let step = choose_step(self);
        (Time::from_nanos(self.from.as_nanos().div_euclid(step) * step), Span::from_nanos(step))
    }
}

/// The shortest step that gives no more points than asked for.
fn choose_step(query: &SeriesQuery) -> i64 {
    let length = (query.to - query.from).as_nanos().max(1);
    let least = length / query.points.max(1) as i64;
    STEPS_NANOS.into_iter().find(|step| *step >= least).unwrap_or(STEPS_NANOS[STEPS_NANOS.len() - 1])
}

/// Parts of one length by their beginning, in nanoseconds.
type Parts = BTreeMap<i64, Summary>;

/// What was read, before it is decoded.
struct Stored {
    /// Blocks by layer and number.
    blocks: BTreeMap<(Layer, i64), Vec<u8>>,
    /// Chunks that are not rolled up.
    chunks: Vec<Vec<u8>>,
}

pub(crate) fn read_series(store: &mut impl ReadStore, query: &SeriesQuery) -> Result<Series, ArchiveError> {
    let step = choose_step(query);
    let layer = *Layer::ALL.iter().rev().find(|layer| layer.part_nanos() <= step).unwrap_or(&Layer::Minutes);
    let begin = query.from.as_nanos().div_euclid(step) * step;
    let end = query.to.as_nanos().max(begin + 1);
    let end = end.div_euclid(step).saturating_add(i64::from(end.rem_euclid(step) > 0)).saturating_mul(step);
    let time = begin..end;
    let stored = store.read_at_once(|store| read_stored(store, query.pair, layer, &time))?;
    // Decoding takes longer than reading, and needs nobody's turn.
    let points = combine(query.pair, layer, step, &time, &stored);
    Ok(Series { step: Span::from_nanos(step), points })
}

fn read_stored(
    store: &mut impl ReadStore,
    pair: PairId,
    layer: Layer,
    time: &Range<i64>,
) -> Result<Stored, ArchiveError> {
    let mut stored = Stored { blocks: BTreeMap::new(), chunks: Vec::new() };
    let mut missing = vec![block_numbers(layer, time)];
    // From the layer that fits to finer ones, for the time that is not rolled up so far.
    for finer in Layer::ALL.into_iter().rev().filter(|finer| *finer <= layer) {
        let mut still_missing = Vec::new();
        for numbers in missing {
            let found = store.blocks(finer, pair, numbers.clone())?;
            still_missing.extend(gaps_between(&found, numbers));
            stored.blocks.extend(found.into_iter().map(|(number, data)| ((finer, number), data)));
        }
        if finer == layer {
            for coarser in Layer::ALL.into_iter().filter(|coarser| *coarser > layer) {
                for numbers in &still_missing {
                    let span = numbers.start * layer.block_nanos()..numbers.end * layer.block_nanos();
                    let found = store.blocks(coarser, pair, block_numbers(coarser, &span))?;
                    stored.blocks.extend(found.into_iter().map(|(number, data)| ((coarser, number), data)));
                }
            }
        }
        let parts = finer.parts() as i64;
        missing = still_missing.into_iter().map(|numbers| numbers.start * parts..numbers.end * parts).collect();
    }
    let hours = block_numbers(Layer::Minutes, time);
    for segment in store.segments()?.into_iter().filter(|segment| hours.contains(&segment.id.hour)) {
        if segment.rolled_to.is_none_or(|last| last < pair) {
            stored.chunks.extend(store.spool_of_pair(segment.id, pair)?);
        }
    }
    Ok(stored)
}

/// Each point's sum.
fn combine(pair: PairId, layer: Layer, step: i64, time: &Range<i64>, stored: &Stored) -> Vec<Point> {
    let mut fine = Parts::new();
    let mut add = |start: i64, summary: &Summary| {
        if time.contains(&start) && !summary.is_empty() {
            fine.entry(start.div_euclid(step) * step).or_default().merge(summary);
        }
    };
    let mut coarse = Vec::new();
    for (&(from, number), data) in &stored.blocks {
        let Some(block) = decode_block(from, pair, number, data) else { continue };
        for (place, part) in block.parts().iter().enumerate() {
            let start = block.start().as_nanos() + place as i64 * from.part_nanos();
            if from > layer {
                coarse.push((from.part_nanos(), start, part.clone()));
            } else {
                add(start, part);
            }
        }
    }
    for chunk in &stored.chunks {
        let mut minutes = Parts::new();
        for sample in ChunkReader::new(chunk).map_while(Result::ok) {
            let minute = sample.sent.as_nanos().div_euclid(MINUTE_NANOS) * MINUTE_NANOS;
            minutes.entry(minute).or_default().add_sample(&sample);
        }
        minutes.iter().for_each(|(start, summary)| add(*start, summary));
    }
    let mut points: BTreeMap<i64, Point> = BTreeMap::new();
    for (start, summary) in fine {
        points.insert(start, Point { start: Time::from_nanos(start), length: Span::from_nanos(step), summary });
    }
    // Where nothing finer is left. Finer layers come first, and theirs are points already.
    coarse.sort_by_key(|(length, start, _)| (*length, *start));
    for (length, start, summary) in coarse {
        let inside = start < time.end && start + length > time.start;
        if inside && !summary.is_empty() && points.range(start..start + length).next().is_none() {
            let length = Span::from_nanos(length.max(step));
            points.insert(start, Point { start: Time::from_nanos(start), length, summary });
        }
    }
    points.into_values().collect()
}

/// The blocks that a time reaches into.
fn block_numbers(layer: Layer, time: &Range<i64>) -> Range<i64> {
    layer.block_number(Time::from_nanos(time.start))..layer.block_number(Time::from_nanos(time.end - 1)) + 1
}

/// The ranges of numbers that were not found.
fn gaps_between(found: &[(i64, Vec<u8>)], numbers: Range<i64>) -> Vec<Range<i64>> {
    let mut gaps = Vec::new();
    let mut next = numbers.start;
    for number in found.iter().map(|(number, _)| *number).chain([numbers.end]) {
        if next < number {
            gaps.push(next..number);
        }
        next = number + 1;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_between() {
        let found = [3, 4, 7].map(|number| (number, Vec::new()));
        assert_eq!(gaps_between(&found, 2..10), [2..3, 5..7, 8..10]);
        assert!(gaps_between(&found[..2], 3..5).is_empty());
    }

    #[test]
    fn there_are_about_as_many_points_as_asked_for() {
        let query = |days: i64, points| SeriesQuery {
            pair: PairId(1),
            from: Time::ZERO,
            to: Time::from_nanos(days * 24 * HOUR_NANOS),
            points,
        };
        assert_eq!(choose_step(&query(1, 1440)), MINUTE_NANOS);
        assert_eq!(choose_step(&query(1, 1000)), 2 * MINUTE_NANOS);
        assert_eq!(choose_step(&query(365, 1000)), 12 * HOUR_NANOS);
        assert_eq!(choose_step(&query(3650, 1000)), 4 * 24 * HOUR_NANOS);
    }
}
