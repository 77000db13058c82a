#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tunnel/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::configurations(data));
