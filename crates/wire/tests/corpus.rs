//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

mod checks;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn control_connections() {
    replay("control", checks::control);
}

#[test]
fn conversations() {
    replay("conversation", checks::conversation);
}

#[test]
fn preambles_and_udp_packets() {
    replay("preamble", checks::preamble);
}

#[test]
fn stamp_packets() {
    replay("stamp", checks::stamp);
}

#[test]
fn stamp_extensions() {
    replay("stamp_extensions", checks::stamp_extensions);
}
