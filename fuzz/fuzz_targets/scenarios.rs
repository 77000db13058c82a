#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/lab/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::scenarios(data));
