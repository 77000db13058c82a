use crate::PairId;
use crate::store::{Segment, SegmentId};
use kumade_sketch::{BucketedDelay, ChunkReader, ChunkWriter, HOUR_NANOS, PairFloors, Sample};
use kumade_units::Time;
use std::collections::BTreeMap;

/// A segment in memory: some three bytes a sample. What is committed to the spool is here, too, so that rolling up needs not
/// read it again.
#[derive(Debug, Clone)]
pub(crate) struct OpenSegment {
    pub(crate) id: SegmentId,
    pub(crate) pairs: BTreeMap<PairId, ChunkWriter>,
    /// The number of the next part that is committed.
    pub(crate) next_slot: u32,
    /// Takes no more samples.
    pub(crate) rolling: bool,
    /// When the last sample came.
    pub(crate) touched: Time,
}

impl OpenSegment {
    pub(crate) fn new(id: SegmentId, now: Time) -> Self {
        OpenSegment { id, pairs: BTreeMap::new(), next_slot: 0, rolling: false, touched: now }
    }

    /// One that is empty but for how far it is rolled up.
    pub(crate) fn from_stored(segment: &Segment, now: Time) -> Self {
        OpenSegment { rolling: segment.rolled_to.is_some(), ..Self::new(segment.id, now) }
    }

    /// When its hour ends.
    pub(crate) fn end(&self) -> Time {
        Time::from_nanos((self.id.hour + 1).saturating_mul(HOUR_NANOS))
    }

    /// Adds samples that are committed; each is handed to `each`, too. Damaged ones, and those behind them, are left out.
    pub(crate) fn append(&mut self, pair: PairId, chunk: &[u8], mut each: impl FnMut(&Sample<BucketedDelay>)) {
        let writer = self.pairs.entry(pair).or_default();
        for sample in ChunkReader::new(chunk).map_while(Result::ok) {
            writer.push(&sample);
            each(&sample);
        }
    }

    pub(crate) fn samples(&self) -> u64 {
        self.pairs.values().map(ChunkWriter::samples).sum()
    }
}

/// The trackers of all pairs.
#[derive(Debug, Default)]
pub(crate) struct Floors(BTreeMap<PairId, PairFloors>);

impl Floors {
    pub(crate) fn of_pair(&mut self, pair: PairId) -> &mut PairFloors {
        self.0.entry(pair).or_default()
    }
}
