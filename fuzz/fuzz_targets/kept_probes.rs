#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/sketch/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::kept_probes(data));
