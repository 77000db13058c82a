//! What the tests of several crates do with the fuzzers' corpora (`fuzz/corpus`): they replay them, so that every find stays
//! found, and try random inputs in the same way.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

/// Inputs that a corpus has at least.
const MIN_INPUTS: usize = 5;

/// Gives each input of the target's corpus to the check.
#[allow(clippy::disallowed_methods, reason = "also a pure crate's test reads its corpus")]
pub fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let inputs: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inputs.len() >= MIN_INPUTS, "the corpus of {target} is there: {}", inputs.len());
    inputs.iter().for_each(|input| check(&std::fs::read(input).unwrap()));
}

/// How many random inputs a test tries; `KUMADE_EXECUTIONS=100000 cargo test -p CRATE --test tests corpus` is a longer search.
pub fn executions(default: u32) -> u32 {
    std::env::var("KUMADE_EXECUTIONS").map_or(default, |count| count.parse().unwrap())
}
