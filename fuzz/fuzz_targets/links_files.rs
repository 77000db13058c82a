#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own check")]
#[path = "../../crates/emulator/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::links_files(data));
