//! The processor time that a packet takes through a link, by discipline, medium and impairments: the median of several passes, and the
//! fastest of them, which others on the machine disturb least.
//!
//! `cargo run --release -p kumade-link --example packets_per_second`; `-- fair-share` measures only what has that in its name.

mod load;

use std::{env, fs};

const PACKETS: u64 = 1_000_000;
const PASSES: usize = 5;

fn main() {
    let wanted = env::args().nth(1).unwrap_or_default();
    for mut load in load::loads().into_iter().filter(|load| load.name.contains(&wanted)) {
        let mut delivered = 0;
        let mut passes = [0; PASSES].map(|_: i32| {
            let begin = processor_time();
            delivered += load.carry(PACKETS);
            (processor_time() - begin) as f64 / PACKETS as f64
        });
        passes.sort_unstable_by(f64::total_cmp);
        let median = passes[PASSES / 2];
        println!(
            "{:<40}{median:>7.0} ns a packet, {:.0} in the fastest pass, {delivered} delivered",
            load.name, passes[0]
        );
    }
}

/// Nanoseconds that this process has had on a processor, which others do not prolong.
#[expect(clippy::disallowed_methods, reason = "a benchmark asks the system")]
fn processor_time() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("Linux tells");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number")
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
