#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target uses its own check")]
#[path = "../../crates/packet/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::compressed_headers(data));
