//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

mod checks;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn kept_probes() {
    replay("kept_probes", checks::kept_probes);
}
