use crate::path::id::PathId;

/// The path of a flow by weighted rendezvous hashing (Thaler, Ravishankar 1998; weights: Schindelhauer, Schomaker 2005):
/// each path draws a number from its own hash of the flow, and the highest `-weight / ln(draw)` wins. So each has a share
/// by its weight, and only the flows of a path that goes move.
pub(crate) fn rendezvous_path(flow: u64, paths: impl Iterator<Item = (PathId, f64)>) -> Option<PathId> {
    let score = |(path, weight): (PathId, f64)| {
        let hash = mix_bits(flow ^ mix_bits(path.index() as u64 + 1));
        let draw = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (weight.max(1.0) / -draw.ln(), path)
    };
    paths.map(score).max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, path)| path)
}

/// Spreads a number over all 64 bits (the finaliser of SplitMix64).
pub(crate) fn mix_bits(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_spread_by_weight_and_only_those_of_a_lost_path_move() {
        let path = |number| PathId::new(number).unwrap();
        let three = [(path(0), 10e6), (path(1), 20e6), (path(2), 70e6)];
        let of = |flow, paths: &[(PathId, f64)]| rendezvous_path(flow, paths.iter().copied()).unwrap();
        let mut counts = [0i32; 3];
        for flow in 0..10_000 {
            let before = of(flow, &three);
            counts[before.index()] += 1;
            let after = of(flow, &[three[0], three[2]]);
            assert!(before == path(1) || after == before);
        }
        for (count, expected) in counts.into_iter().zip([1000, 2000, 7000]) {
            assert!((count - expected).abs() < 150, "{counts:?}");
        }
        assert_eq!(rendezvous_path(1, std::iter::empty()), None);
    }
}
