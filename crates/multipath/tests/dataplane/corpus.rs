//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found, and random instructions in the same way.

use crate::replay::{executions, replay};
use proptest::prelude::*;

#[test]
fn both_ends_of_a_tunnel() {
    replay("ends", super::checks::ends);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: executions(50), ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_happens_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        super::checks::ends(&bytes);
    }
}
