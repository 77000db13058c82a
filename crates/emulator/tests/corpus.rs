//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found, and random bytes in the same way.

mod checks;

use proptest::prelude::*;
use std::fs;
use std::path::Path;

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
fn requests_to_a_link() {
    replay("link_control", checks::link_control);
}

#[test]
fn schedules() {
    replay("schedules", checks::schedules);
}

#[test]
fn traces() {
    replay("traces", checks::traces);
}

/// How many of each: `KUMADE_EXECUTIONS=1000000 cargo test -p emulator --test corpus` for a longer search.
fn cases() -> u32 {
    std::env::var("KUMADE_EXECUTIONS").map_or(200, |count| count.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        checks::link_control(&bytes);
        checks::schedules(&bytes);
        checks::traces(&bytes);
    }
}
