//! How many packets a second one core takes through a link, by discipline, medium and impairments.
//!
//! `cargo run --release -p link --example packets_per_second`

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Once a link's buffers have grown to what a load needs, packets pass without an allocation.
    #[test]
    fn nothing_is_allocated_per_packet() {
        for mut load in load::loads() {
            load.carry(100_000);
            let mut delivered = 0;
            let counted = allocation_counter::measure(|| delivered = load.carry(100_000));
            assert!(delivered > 10_000, "{}: {delivered}", load.name);
            assert!(counted.count_total < 10, "{}: {} allocations", load.name, counted.count_total);
        }
    }
}
