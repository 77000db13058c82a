#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, unused_imports, reason = "each target uses its own check")]
#[path = "../../crates/wire/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|data: &[u8]| checks::stamp_extensions(data));
