//! The buckets of delay above a floor: equal ones of 200 ns up to 5 µs, from there on each 4 % wider than the one before.

/// Delays are kept in units of this.
pub const QUANTUM_NANOS: i64 = 100;

/// A bucket's middle is no further than this part of a delay above the floor from it, or one [quantum](QUANTUM_NANOS).
pub const MAX_RELATIVE_ERROR: f64 = 0.02;

/// Nine bits.
pub(crate) const BUCKETS: usize = 512;

/// Width of the lowest buckets.
const MIN_WIDTH_QUANTA: u64 = 2;

/// The width of a bucket is its lower edge divided by this: twice [`MAX_RELATIVE_ERROR`], since the middle stands for it.
const EDGE_TO_WIDTH: u64 = 25;

/// The lower edge of each bucket, and the upper edge of the last, in quanta.
const EDGES: [u64; BUCKETS + 1] = {
    let mut edges = [0; BUCKETS + 1];
    let mut i = 0;
    while i < BUCKETS {
        let width = edges[i] / EDGE_TO_WIDTH;
        edges[i + 1] = edges[i] + if width > MIN_WIDTH_QUANTA { width } else { MIN_WIDTH_QUANTA };
        i += 1;
    }
    edges
};

/// What lies at or above this, about a quarter of an hour, is in no bucket.
pub(crate) const END_QUANTA: u64 = EDGES[BUCKETS];

/// For each bit length of a delay, the last bucket whose lower edge is not above the least delay of that length.
const FIRST_BY_LENGTH: [u16; 65] = {
    let mut first = [0; 65];
    let mut length = 1;
    while length < 65 {
        let least = 1u64 << (length - 1);
        let mut i = 0;
        while i + 1 < BUCKETS && EDGES[i + 1] <= least {
            i += 1;
        }
        first[length] = i as u16;
        length += 1;
    }
    first
};

/// The bucket of a delay above the floor; the last one for all that is longer.
pub(crate) fn bucket_index(quanta: u64) -> u16 {
    let length = (u64::BITS - quanta.leading_zeros()) as usize;
    let first = FIRST_BY_LENGTH[length] as usize;
    let last = if length == 64 { BUCKETS - 1 } else { FIRST_BY_LENGTH[length + 1] as usize };
    let within = EDGES[first + 1..=last].partition_point(|&edge| edge <= quanta);
    (first + within) as u16
}

/// The least delay of a bucket and the least of the next, in quanta above the floor.
pub(crate) fn bucket_edges(index: u16) -> (u64, u64) {
    let index = usize::from(index).min(BUCKETS - 1);
    (EDGES[index], EDGES[index + 1])
}

/// The delay that stands for a bucket: its middle, in quanta above the floor.
pub(crate) fn bucket_middle(index: u16) -> u64 {
    let (low, high) = bucket_edges(index);
    low.midpoint(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_holds_its_edges_and_its_middle() {
        for index in 0..BUCKETS as u16 {
            let (low, high) = bucket_edges(index);
            assert_eq!([low, bucket_middle(index), high - 1].map(bucket_index), [index; 3]);
        }
        assert_eq!(bucket_index(u64::MAX), BUCKETS as u16 - 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_middle_is_within_the_promised_error(quanta in (0u32..40).prop_flat_map(|bits| 0..1u64 << bits)) {
            prop_assume!(quanta < END_QUANTA);
            let error = bucket_middle(bucket_index(quanta)).abs_diff(quanta);
            prop_assert!(error as f64 <= (MAX_RELATIVE_ERROR * quanta as f64).max(1.0), "{quanta}: {error}");
        }
    }
}
