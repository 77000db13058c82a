//! No two runs use a resource at once, whatever goes wrong; and the simulation would show it.

use crate::simulation::{Ablation, Settings, simulate};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// A million runs: `cargo run --release -p kumade-planner --example overlaps`.
    #[test]
    fn no_two_runs_use_a_resource_at_once(seed: u64) {
        let tally = simulate(Settings { seed, runs: 500, ablation: Ablation::None });
        prop_assert_eq!(tally.overlaps, 0, "seed {}: {:?}", seed, tally);
    }
}

/// Each protection is needed: without it, the observer sees runs that overlap.
#[test]
fn without_any_of_the_protections_runs_overlap() {
    for ablation in Ablation::ALL {
        let overlaps = |seed| simulate(Settings { seed, runs: 2000, ablation }).overlaps;
        let found = (1..=20).find(|seed| overlaps(*seed) > 0);
        assert!(found.is_some(), "{ablation:?}: no overlap in 40 000 runs");
    }
}
