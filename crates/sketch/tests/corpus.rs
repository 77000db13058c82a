//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

use crate::checks;
use crate::replay::replay;

#[test]
fn kept_probes() {
    replay("kept_probes", checks::kept_probes);
}
