//! Every method on the same virtual paths: how far off, with how many trains and bytes, and how long it takes.
//!
//! The table is a committed snapshot. Each line is the mean of a few runs, which differ in their seeds.

use crate::contenders::{build, methods};
use kumade_estimate::MethodSettings;
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_sim::{MethodRun, PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};
use std::fmt::Write;

const RUNS: u64 = 5;
const LOADS: [f64; 4] = [0.0, 0.3, 0.6, 0.9];

fn run(method: &MethodSettings, capacity: Rate, kind: &str, load: f64, seed: u64) -> MethodRun {
    let rate = Rate::from_f64(capacity.as_f64() * load);
    let cross = match kind {
        "constant" => CrossKind::Constant { rate, size: 1500 },
        _ => CrossKind::Poisson { rate, sizes: SizeMix::fixed(1500) },
    };
    let link = LinkConfig {
        rate: Some(capacity),
        queue_bytes: 200_000,
        delay: Span::from_millis(5),
        seed,
        ..LinkConfig::default()
    };
    let phase = (seed as f64 * 0.618).fract();
    let hop = PathHop { link, queue: None, cross: vec![CrossConfig { kind: cross, start: Time::ZERO, phase, seed }] };
    let mut path = VirtualPath::new(&[hop], Stamping::default(), seed).expect("a path that can be");
    path.wait(Span::from_millis(500));
    measure(&mut *build(method, capacity, seed), &mut path)
}

/// A method's runs on one path: means, and how many had a value.
struct Line {
    values: usize,
    error: f64,
    trains: f64,
    kilobytes: f64,
    seconds: f64,
}

fn line(method: &MethodSettings, capacity: Rate, kind: &str, load: f64) -> Line {
    let runs: Vec<MethodRun> = (0..RUNS).map(|seed| run(method, capacity, kind, load, seed)).collect();
    let errors: Vec<f64> = runs
        .iter()
        .filter_map(|run| Some((run.outcome.available?.value.as_f64() - run.truth.as_f64()).abs() / capacity.as_f64()))
        .collect();
    let mean = |of: fn(&MethodRun) -> f64| runs.iter().map(of).sum::<f64>() / RUNS as f64;
    Line {
        values: errors.len(),
        error: errors.iter().sum::<f64>() / errors.len() as f64,
        trains: mean(|run| f64::from(run.outcome.trains_used + run.outcome.trains_rejected.values().sum::<u32>())),
        kilobytes: mean(|run| run.bytes as f64 / 1000.0),
        seconds: mean(|run| (run.ended - run.started).as_secs_f64()),
    }
}

fn table(capacity: Rate) -> String {
    let mut out = format!("{capacity}, {RUNS} runs each; errors in percent of the capacity\n\n");
    let [traffic, load, method] = ["traffic", "load", "method"];
    writeln!(out, "{traffic:<10}{load:>6}  {method:<20}{:>8}{:>8}{:>8}{:>8}", "error", "trains", "kB", "s").unwrap();
    for kind in ["constant", "poisson"] {
        for load in LOADS.into_iter().filter(|load| kind == "constant" || *load > 0.0) {
            for method in methods() {
                let figures = figures(&line(&method, capacity, kind, load));
                writeln!(out, "{kind:<10}{:>4.0} %  {:<20}{figures}", load * 100.0, method.name()).unwrap();
            }
        }
    }
    out
}

fn figures(line: &Line) -> String {
    let Line { values, error, trains, kilobytes, seconds } = line;
    let error = if *values == 0 { "none".into() } else { format!("{:.1}", error * 100.0) };
    let missing = RUNS as usize - values;
    let note = if missing > 0 { format!("  no value in {missing}") } else { String::new() };
    format!("{error:>8}{trains:>8.0}{kilobytes:>8.0}{seconds:>8.2}{note}")
}

#[test]
fn methods_at_5_mbit() {
    insta::assert_snapshot!(table(Rate::from_mbit(5)));
}

#[test]
fn methods_at_100_mbit() {
    insta::assert_snapshot!(table(Rate::from_mbit(100)));
}
