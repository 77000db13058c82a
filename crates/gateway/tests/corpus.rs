//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found, and random edits in the same way.

mod checks;

use proptest::prelude::*;
use std::fs;
use std::path::Path;

#[test]
fn configuration_files() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/configurations");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        checks::configurations(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the corpus is there: {count}");
}

/// How many: `KUMADE_EXECUTIONS=100000 cargo test -p gateway --test corpus` for a longer search.
fn cases() -> u32 {
    std::env::var("KUMADE_EXECUTIONS").map_or(200, |count| count.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn no_edits_do_harm(bytes in prop::collection::vec(any::<u8>(), 1..60)) {
        checks::configurations(&bytes);
    }
}
