//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

mod checks;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn frames() {
    replay("frame", checks::frame);
}

#[test]
fn saved_syns() {
    replay("saved_syn", checks::saved_syn);
}

#[test]
fn headers_of_flows() {
    replay("compressed_headers", checks::compressed_headers);
}
