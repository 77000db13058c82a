//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

mod checks;

use std::fs;
use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the corpus of {target} is there: {count}");
}

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
