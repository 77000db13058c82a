//! Replays the fuzzer's corpus (`fuzz/corpus`), so that every find stays found, and random instructions in the same way.

mod checks;

use proptest::prelude::*;
use std::fs;
use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
#[test]
fn both_ends_of_a_tunnel() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ends");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        checks::ends(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "the corpus is there: {count}");
}

/// How many: `KUMADE_EXECUTIONS=100000 cargo test -p dataplane --test corpus` for a longer search.
fn cases() -> u32 {
    std::env::var("KUMADE_EXECUTIONS").map_or(50, |count| count.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_happens_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        checks::ends(&bytes);
    }
}
