#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/multipath/tests/nat_checks/mod.rs"]
mod nat_checks;

fuzz_target!(|data: &[u8]| nat_checks::messages(data));
