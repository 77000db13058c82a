//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

mod checks;

use std::fs;
use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
fn frames() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frame");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        checks::frame(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the corpus is there: {count}");
}
