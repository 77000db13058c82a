#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/multipath/tests/dataplane/checks.rs"]
mod checks;
#[path = "../../crates/multipath/tests/dataplane/faulty.rs"]
mod faulty;

fuzz_target!(|data: &[u8]| checks::ends(data));
