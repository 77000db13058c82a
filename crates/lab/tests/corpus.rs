//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found, and random edits in the same way.

use crate::checks;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;
use replay::{executions, replay};

#[test]
fn scenario_files() {
    replay("scenarios", checks::scenarios);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: executions(200), ..ProptestConfig::default() })]

    #[test]
    fn no_edits_do_harm(bytes in prop::collection::vec(any::<u8>(), 1..60)) {
        checks::scenarios(&bytes);
    }
}
