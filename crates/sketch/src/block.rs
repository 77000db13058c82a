//! Blocks: an hour of minutes, a day of hours, 32 days. The sum of all parts comes first; then, of each of its numbers,
//! what each part has of it, given what is left for the parts behind.

use crate::buckets::BUCKETS;
use crate::range_coder::{BitModel, Coder, NumberModel, RangeDecoder, RangeEncoder};
use crate::sample::{BucketedDelay, Lane};
use crate::summary::Tally;
use crate::{DecodeError, Layer, Summary};
use kumade_units::Time;

const VERSION: u8 = 1;

/// A block that claims more buckets than this, over all parts, is damaged: the hundredfold of what a day of changing routes
/// comes to, and what bounds the memory that a reader needs (about 16 MB).
pub const MAX_BLOCK_BUCKETS: u32 = 1 << 20;

/// A sum that claims more floors than this is damaged: the trackers make some twenty an hour at most.
const MAX_FLOORS: u64 = 1 << 15;

/// A bucket's number is this long.
const BUCKET_BITS: u32 = BUCKETS.ilog2();

/// Expected counts up to this are foreseen by how often each number occurs, greater ones by their difference.
const MAX_SMALL_COUNT: u64 = 8;
/// Classes of expected counts, and of neighbouring counts.
const CLASSES: usize = 40;

/// The summaries of a stretch of time, part by part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    layer: Layer,
    number: i64,
    parts: Vec<Summary>,
}

impl Block {
    /// An empty block, by its number since 1970 ([`Layer::block_number`]).
    pub fn new(layer: Layer, number: i64) -> Self {
        Block { layer, number, parts: vec![Summary::default(); layer.parts()] }
    }

    /// How it divides its time.
    pub fn layer(&self) -> Layer {
        self.layer
    }

    /// Its number since 1970.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// When it begins.
    pub fn start(&self) -> Time {
        self.layer.block_start(self.number)
    }

    /// Its parts in their order; those of times without probes are empty.
    pub fn parts(&self) -> &[Summary] {
        &self.parts
    }

    /// The part that holds a time; none outside the block.
    pub fn part_mut(&mut self, time: Time) -> Option<&mut Summary> {
        let inside = self.layer.block_number(time) == self.number;
        inside.then(|| &mut self.parts[self.layer.part_index(time)])
    }

    /// The sum of its parts: what the next coarser layer keeps of it.
    pub fn total(&self) -> Summary {
        self.parts.iter().collect()
    }

    /// Adds another of the same layer and number; nothing happens with one of others.
    pub fn merge(&mut self, other: &Block) {
        if (self.layer, self.number) == (other.layer, other.number) {
            self.parts.iter_mut().zip(&other.parts).for_each(|(own, other)| own.merge(other));
        }
    }

    /// Whether it has no probes.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Summary::is_empty)
    }

    /// As it is stored. Layer and number are no part of it: they are its key.
    pub fn encode(&self) -> Vec<u8> {
        let mut codec = Codec::new(RangeEncoder::new(vec![VERSION]));
        let (mut total, mut parts) = (self.total(), self.parts.clone());
        // What is written is right whatever comes back.
        _ = codec.code_lanes(&mut total, &mut parts, true);
        codec.coder.finish()
    }

    /// Reads a stored block.
    ///
    /// # Errors
    ///
    /// The data is damaged, or of an unknown version.
    pub fn decode(layer: Layer, number: i64, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut block = Block::new(layer, number);
        let mut codec = Codec::read(bytes)?;
        codec.code_lanes(&mut Summary::default(), &mut block.parts, false)?;
        codec.coder.finish()?;
        Ok(block)
    }
}

/// One for both directions: what is written comes back; what is read replaces what was given.
struct Codec<C> {
    coder: C,
    present: [BitModel; 6],
    floors: NumberModel,
    buckets: Vec<BitModel>,
    totals: [NumberModel; 4],
    /// By the count of the bucket before.
    neighbours: Vec<NumberModel>,
    /// By the count that is expected.
    shares: Vec<NumberModel>,
    buckets_left: u32,
}

impl<'a> Codec<RangeDecoder<'a>> {
    fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        match bytes.split_first() {
            Some((&VERSION, content)) => Ok(Codec::new(RangeDecoder::new(content))),
            Some((&other, _)) => Err(DecodeError::UnknownVersion(other)),
            None => Err(DecodeError::Truncated),
        }
    }
}

impl<C: Coder> Codec<C> {
    fn new(coder: C) -> Self {
        Codec {
            coder,
            present: Default::default(),
            floors: NumberModel::default(),
            buckets: vec![BitModel::default(); BUCKETS],
            totals: Default::default(),
            neighbours: vec![NumberModel::default(); CLASSES],
            shares: vec![NumberModel::default(); CLASSES],
            buckets_left: MAX_BLOCK_BUCKETS,
        }
    }

    fn code_lanes(&mut self, total: &mut Summary, parts: &mut [Summary], writes: bool) -> Result<(), DecodeError> {
        for (place, (lane, disturbed)) in Lane::ALL.into_iter().flat_map(|lane| [(lane, 0), (lane, 1)]).enumerate() {
            let tally = |summary: &mut Summary| std::mem::take(summary[lane].tallies_mut()[disturbed]);
            let mut sum = tally(total);
            if !self.coder.bit(&mut self.present[place], !sum.is_empty()) {
                continue;
            }
            let mut shares: Vec<_> = parts.iter_mut().map(tally).collect();
            self.code_tally(&mut sum, &mut shares, writes)?;
            for (part, share) in parts.iter_mut().zip(shares) {
                *part[lane].tallies_mut()[disturbed] = share;
            }
        }
        Ok(())
    }

    fn code_tally(&mut self, total: &mut Tally, parts: &mut [Tally], writes: bool) -> Result<(), DecodeError> {
        for counter in 0..4 {
            let sum = total.counters()[counter];
            let sum = self.coder.number(&mut self.totals[counter], sum);
            let counts: Vec<_> = parts.iter().map(|part| part.counters()[counter]).collect();
            let counts = self.code_shares(sum, counts)?;
            parts.iter_mut().zip(counts).for_each(|(part, count)| *part.counters_mut()[counter] = count);
        }
        let floors = self.coder.number(&mut self.floors, total.delays.parts().len() as u64);
        if floors > MAX_FLOORS {
            return Err(DecodeError::Damaged("too many floors"));
        }
        let given: Vec<_> = parts.iter_mut().map(|part| std::mem::take(&mut part.delays)).collect();
        let mut floor = 0i64;
        for place in 0..floors as usize {
            let part = total.delays.parts().get(place);
            let known = part.map_or(0, |part| part.floor);
            let difference = self.coder.signed_number(&mut self.floors, known.wrapping_sub(floor));
            floor = floor.checked_add(difference).ok_or(DecodeError::Damaged("a floor beyond all floors"))?;
            let counts = part.map_or(&[][..], |part| &part.counts);
            for (bucket, sum) in self.code_buckets(counts)? {
                let delay = BucketedDelay { floor, bucket };
                let shares = given.iter().map(|sketch| if writes { sketch.bucket_count(delay) } else { 0 });
                let shares = self.code_shares(sum, shares.collect())?;
                parts.iter_mut().zip(shares).for_each(|(part, share)| part.delays.add(delay, share));
            }
        }
        Ok(())
    }

    /// The counts of the sum above one floor, from the first bucket that has any to the last.
    fn code_buckets(&mut self, counts: &[(u16, u64)]) -> Result<Vec<(u16, u64)>, DecodeError> {
        let edge = |count: Option<&(u16, u64)>| count.map_or(0, |(bucket, _)| *bucket);
        let first = self.coder.tree(&mut self.buckets, BUCKET_BITS, edge(counts.first()));
        let last = self.coder.tree(&mut self.buckets, BUCKET_BITS, edge(counts.last()));
        let (mut coded, mut class, mut given) = (Vec::new(), 0, counts.iter().peekable());
        for bucket in first..=last {
            let count = given.next_if(|(at, _)| *at == bucket).map_or(0, |(_, count)| *count);
            let count = self.coder.number(&mut self.neighbours[class], count);
            class = ((u64::BITS - count.leading_zeros()) as usize).min(CLASSES - 1);
            if count > 0 {
                coded.push((bucket, count));
            }
        }
        Ok(coded)
    }

    /// How a sum is divided among the parts.
    fn code_shares(&mut self, sum: u64, mut counts: Vec<u64>) -> Result<Vec<u64>, DecodeError> {
        let mut left = sum;
        let parts = counts.len();
        for (place, count) in counts.iter_mut().enumerate() {
            let behind = (parts - place) as u64;
            let share = match () {
                () if left == 0 => 0,
                () if behind == 1 => left,
                () => self.code_share(left, behind, *count)?,
            };
            if share > 0 {
                self.buckets_left = self.buckets_left.checked_sub(1).ok_or(DecodeError::Damaged("too many buckets"))?;
            }
            left = left.checked_sub(share).ok_or(DecodeError::Damaged("a part greater than the whole"))?;
            *count = share;
        }
        Ok(counts)
    }

    /// What one part has of what is left for it and those behind.
    fn code_share(&mut self, left: u64, behind: u64, count: u64) -> Result<u64, DecodeError> {
        let eighths = left.saturating_mul(8) / behind;
        let model = &mut self.shares[expectation_class(eighths)];
        let expected = eighths / 8;
        if expected < MAX_SMALL_COUNT {
            return Ok(self.coder.number(model, count));
        }
        let difference = self.coder.signed_number(model, count.wrapping_sub(expected) as i64);
        u64::try_from(expected as i64 + difference).map_err(|_| DecodeError::Damaged("a count below zero"))
    }
}

/// The class of an expected count in eighths: two for each doubling.
fn expectation_class(eighths: u64) -> usize {
    let length = u64::BITS - eighths.leading_zeros();
    let next = if length > 1 { eighths >> (length - 2) & 1 } else { 0 };
    (2 * length as usize + next as usize).min(CLASSES - 1)
}
