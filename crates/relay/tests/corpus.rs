//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found.

use crate::checks;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn messages_of_a_peer() {
    replay("relayed", checks::messages);
}
