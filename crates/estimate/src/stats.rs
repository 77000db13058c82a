//! Statistics and random numbers.

pub(crate) use kumade_probe_train::statistics::{mean, median, quantile, standard_deviation, student_t_95};

/// A number from 0 up to but not including 1 (SplitMix64).
pub(crate) fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
