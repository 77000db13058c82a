//! How many packets a second one core takes through a link, by discipline, medium and impairments.
//!
//! `cargo run --release -p link --example packets_per_second`

#[path = "../tests/load/mod.rs"]
mod load;

use std::time::Instant;

const PACKETS: u64 = 1_000_000;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn main() {
    for mut load in load::loads() {
        let begin = Instant::now();
        let delivered = load.carry(PACKETS);
        let rate = PACKETS as f64 / begin.elapsed().as_secs_f64() / 1e6;
        println!("{:<18}{rate:>7.2} million packets/s, {delivered} delivered", load.name);
    }
}
