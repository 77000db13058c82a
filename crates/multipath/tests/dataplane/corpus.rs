//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found, and random instructions in the same way.

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;
use replay::{executions, replay};

#[test]
fn both_ends_of_a_tunnel() {
    replay("ends", crate::checks::ends);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: executions(50), ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_happens_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        crate::checks::ends(&bytes);
    }
}
