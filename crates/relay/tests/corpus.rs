//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found.

mod checks;

use std::fs;
use std::path::Path;

#[test]
fn messages_of_a_peer() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/relayed");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        checks::messages(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the corpus is there: {count}");
}
