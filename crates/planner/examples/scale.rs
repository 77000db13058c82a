//! How long a cycle of list scheduling takes against its lower bound, and what planning it costs: meshes of 100 sites, and
//! 1000 sites with 1000 targets.
//!
//! `cargo run --release -p kumade-planner --example scale [SEEDS]`

#[path = "../tests/cycles/mod.rs"]
mod cycles;

use cycles::{Topology, run_cycle};
use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn main() {
    let seeds = std::env::args().nth(1).map_or(3, |text| text.parse::<u64>().expect("a number"));
    let topologies = [
        Topology::FullMesh { sites: 100 },
        Topology::SharedUplinks { sites: 100, sites_per_uplink: 10 },
        Topology::Star { sites: 100, targets: 4 },
        Topology::Star { sites: 1000, targets: 1000 },
    ];
    for topology in topologies {
        let plan = topology.plan();
        for seed in 0..seeds {
            let begin = Instant::now();
            let result = run_cycle(&plan, seed);
            println!(
                "{topology:?}, seed {seed}: {} runs, bound {:.0} s, cycle {:.0} s = {:.3} × the bound, {} overlaps, {} missed, planned in \
                 {:.2} s",
                result.served,
                result.lower_bound.as_secs_f64(),
                result.took.as_secs_f64(),
                result.ratio(),
                result.overlaps,
                result.missed,
                begin.elapsed().as_secs_f64()
            );
            assert_eq!(result.served, result.runs, "runs served in their cycle");
        }
    }
}
