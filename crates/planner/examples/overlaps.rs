//! A million runs in virtual time, of which no two may use a resource at once: with crashes, stopped processes, partitions, clocks
//! that are set by an hour, lost, late and duplicated frames, and two coordinators. Then the same without each of the
//! protections, to see that the observer finds what they protect from.
//!
//! `cargo run --release -p kumade-planner --example overlaps [RUNS [SEED]]`

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use simulation::{Ablation, Settings, Tally, simulate};
use std::process::ExitCode;

/// A world has so many runs.
const RUNS_PER_WORLD: u64 = 10_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let runs = arguments.next().unwrap_or(1_000_000);
    let first_seed = arguments.next().unwrap_or(1);
    let protected = simulate_worlds(Ablation::None, first_seed, runs);
    print("all protections", &protected);
    for ablation in Ablation::ALL {
        print(&format!("{ablation:?}"), &simulate_worlds(ablation, first_seed, runs / 20));
    }
    if protected.overlaps == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn simulate_worlds(ablation: Ablation, first_seed: u64, runs: u64) -> Tally {
    let mut sum = Tally::default();
    for seed in first_seed.. {
        if sum.runs >= runs {
            break;
        }
        let tally = simulate(Settings { seed, runs: RUNS_PER_WORLD.min(runs - sum.runs), ablation });
        if ablation == Ablation::None && tally.overlaps + tally.trains_during_claims > 0 {
            println!("seed {seed}: {} overlaps, {} trains during claims", tally.overlaps, tally.trains_during_claims);
        }
        add(&mut sum, &tally);
    }
    sum
}

fn add(sum: &mut Tally, tally: &Tally) {
    sum.runs += tally.runs;
    sum.trains += tally.trains;
    sum.overlaps += tally.overlaps;
    sum.trains_during_claims += tally.trains_during_claims;
    sum.virtual_time += tally.virtual_time;
    sum.events += tally.events;
    tally.outcomes.iter().for_each(|(name, count)| *sum.outcomes.entry(name).or_default() += count);
    tally.faults.iter().for_each(|(name, count)| *sum.faults.entry(name).or_default() += count);
}

fn print(name: &str, tally: &Tally) {
    let days = tally.virtual_time.as_secs_f64() / 86_400.0;
    let Tally { runs, trains, overlaps, trains_during_claims, events, .. } = tally;
    println!("{name}: {overlaps} overlaps, {trains_during_claims} trains during claims");
    println!("  {runs} runs with {trains} trains in {days:.1} virtual days, {events} events");
    println!("  ended: {:?}", tally.outcomes);
    println!("  faults: {:?}", tally.faults);
}
