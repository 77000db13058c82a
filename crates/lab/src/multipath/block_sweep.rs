use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Lengths of writes that are compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockSweep {
    /// These, in bytes, each with and without waiting for acknowledgements.
    pub sizes: Vec<u32>,
    /// Every length from the first to the last of these, to look for a period: with waiting, as programs do that set nothing.
    pub consecutive: Option<[u32; 2]>,
    /// Further lengths, with waiting.
    pub ranges: Vec<BlockRange>,
}

/// Lengths at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRange {
    /// The first.
    pub from: u32,
    /// The last, if the distance leads there.
    pub to: u32,
    /// The distance.
    pub step: u32,
}

/// What a connection carried that was written to in blocks of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockRate {
    /// The length of each write.
    pub block_bytes: u32,
    /// Whether short segments left while others were not acknowledged (TCP_NODELAY).
    pub no_delay: bool,
    /// Payload that arrived per second.
    pub goodput_bits_per_second: f64,
}

/// More than a scenario may have.
const MAX_RANGE_LENGTHS: usize = 65_537;

/// The period that the paper saw in direct connections, in bytes.
const PUBLISHED_PERIOD_BYTES: u32 = 4;

impl BlockSweep {
    /// Every length in the order of measuring, and whether short segments leave at once.
    pub(crate) fn block_settings(&self) -> Vec<(u32, bool)> {
        let both = self.sizes.iter().flat_map(|size| [(*size, false), (*size, true)]);
        let consecutive = self.consecutive.map(|[from, to]| BlockRange { from, to, step: 1 });
        let ranges = consecutive.iter().chain(&self.ranges);
        let lengths: BTreeSet<u32> = ranges.flat_map(|range| range.lengths()).collect();
        let alone = lengths.into_iter().filter(|size| !self.sizes.contains(size)).map(|size| (size, false));
        both.chain(alone).collect()
    }
}

impl BlockRange {
    fn lengths(&self) -> impl Iterator<Item = u32> {
        // More than that are refused, and need not be counted.
        (self.from..=self.to).step_by(self.step.max(1) as usize).take(MAX_RANGE_LENGTHS)
    }
}

/// How much faster writes are whose length is a multiple of four than those of the lengths just before and after, relative to these: the
/// median over all such lengths. None without two neighbours of one.
pub(crate) fn period_ratio(rates: &[BlockRate]) -> Option<f64> {
    let at = |bytes: u32| {
        let found = rates.iter().find(|rate| rate.block_bytes == bytes && !rate.no_delay)?;
        Some(found.goodput_bits_per_second)
    };
    let gain = |rate: &BlockRate| {
        let bytes = rate.block_bytes;
        let neighbours = (at(bytes.checked_sub(1)?)? + at(bytes + 1)?) / 2.0;
        (bytes.is_multiple_of(PUBLISHED_PERIOD_BYTES) && !rate.no_delay && neighbours > 0.0)
            .then(|| rate.goodput_bits_per_second / neighbours - 1.0)
    };
    let gains: Vec<_> = rates.iter().filter_map(gain).collect();
    crate::statistics::median(&gains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(of: impl Fn(u32) -> f64) -> Vec<BlockRate> {
        let rate = |block_bytes| BlockRate { block_bytes, no_delay: false, goodput_bits_per_second: of(block_bytes) };
        (500..540).map(rate).collect()
    }

    #[test]
    fn each_length_comes_once_and_consecutive_ones_only_with_waiting() {
        let ranges = vec![BlockRange { from: 499, to: 503, step: 2 }, BlockRange { from: 2, to: 1, step: 0 }];
        let sweep = BlockSweep { sizes: vec![1, 501], consecutive: Some([500, 502]), ranges };
        let plan = [(1, false), (1, true), (501, false), (501, true)];
        let alone = [(499, false), (500, false), (502, false), (503, false)];
        assert_eq!(sweep.block_settings(), [&plan[..], &alone].concat());
    }

    #[test]
    fn a_period_of_four_is_found_where_there_is_one() {
        let periodic = period_ratio(&rates(|bytes| if bytes % 4 == 0 { 120.0 } else { 100.0 })).unwrap();
        assert!((periodic - 0.2).abs() < 1e-9, "{periodic}");
        let growing = period_ratio(&rates(f64::from)).unwrap();
        assert!(growing.abs() < 1e-9, "{growing}");
        assert_eq!(period_ratio(&[]), None);
    }
}
