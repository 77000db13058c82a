//! Every method on slow and on long paths: what it takes there, and what it finds.
//!
//! The table is a committed snapshot. Each line is the mean of a few runs, which differ in their seeds.

use crate::contenders;
use crate::contenders::build;
use kumade_estimate::{MethodSettings, PathTesterClassicConfig};
use kumade_link::{CrossConfig, CrossKind, LinkConfig};
use kumade_sim::{MethodRun, PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};
use std::fmt::Write;

const RUNS: u64 = 5;

/// As the papers have them, but the original tool with the shortest range that reaches the slowest of these paths.
fn methods() -> Vec<MethodSettings> {
    let reaching = |method: MethodSettings| match method.config() {
        Some(range @ PathTesterClassicConfig { .. }) => {
            MethodSettings::new(PathTesterClassicConfig { last_iunit: 17, ..*range })
        }
        None => method,
    };
    contenders::methods().into_iter().map(reaching).collect()
}

fn run(method: &MethodSettings, capacity: Rate, delay: Span, load: f64, seed: u64) -> MethodRun {
    let rate = Rate::from_f64(capacity.as_f64() * load);
    let link = LinkConfig { rate: Some(capacity), queue_bytes: 200_000, delay, seed, ..LinkConfig::default() };
    let phase = (seed as f64 * 0.618).fract();
    let cross = CrossConfig { kind: CrossKind::Constant { rate, size: 1500 }, start: Time::ZERO, phase, seed };
    let mut path = VirtualPath::new(&[PathHop { link, queue: None, cross: vec![cross] }], Stamping::default(), seed)
        .expect("a path");
    path.wait(Span::from_millis(500));
    measure(&mut *build(method, capacity, seed), &mut path)
}

/// Figures of a method's runs on one path.
struct Line {
    errors: Vec<f64>,
    seconds: f64,
    longest: f64,
    kilobytes: f64,
}

fn line(method: &MethodSettings, capacity: Rate, delay: Span, load: f64) -> Line {
    let runs: Vec<MethodRun> = (0..RUNS).map(|seed| run(method, capacity, delay, load, seed)).collect();
    let error =
        |run: &MethodRun| Some((run.outcome.available?.value.as_f64() - run.truth.as_f64()).abs() / capacity.as_f64());
    let seconds: Vec<f64> = runs.iter().map(|run| (run.ended - run.started).as_secs_f64()).collect();
    Line {
        errors: runs.iter().filter_map(error).collect(),
        seconds: seconds.iter().sum::<f64>() / RUNS as f64,
        longest: seconds.iter().copied().fold(0.0, f64::max),
        kilobytes: runs.iter().map(|run| run.bytes as f64 / 1000.0).sum::<f64>() / RUNS as f64,
    }
}

#[test]
fn every_method_on_slow_and_long_paths() {
    let mut out = format!("{RUNS} runs each; errors in percent of the capacity\n\n");
    let [path, load, method] = ["path", "load", "method"];
    writeln!(out, "{path:<21}{load:>4}    {method:<20}{:>8}{:>8}{:>8}", "error", "s", "kB").unwrap();
    for (kbit, delay_ms) in [(100, 10), (100, 300), (1000, 10), (1000, 300), (5000, 300)] {
        let (capacity, delay) = (Rate::from_bits_per_second(kbit * 1000), Span::from_millis(delay_ms));
        let path = format!("{capacity}, {delay}");
        let loads = [0.0, 0.1, 0.3, 0.6, 0.8];
        for (load, method) in loads.into_iter().flat_map(|load| methods().into_iter().map(move |m| (load, m))) {
            let Line { errors, seconds, kilobytes, .. } = line(&method, capacity, delay, load);
            let mean = errors.iter().sum::<f64>() / errors.len() as f64 * 100.0;
            let error = if errors.is_empty() { "none".to_owned() } else { format!("{mean:.1}") };
            let missing = RUNS as usize - errors.len();
            let note = if missing > 0 { format!("  no value in {missing}") } else { String::new() };
            let load = load * 100.0;
            let name = method.name();
            writeln!(out, "{path:<21}{load:>4.0} %  {name:<20}{error:>8}{seconds:>8.2}{kilobytes:>8.0}{note}").unwrap();
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_narrow_link_is_known_to_six_percent_within_fifteen_seconds() {
    // The worst of these runs is 5.7 % of the capacity off, at 10 ms and a load of 0.3; all others are within 5 %.
    let narrow = Rate::from_bits_per_second(100_000);
    for (delay_ms, load) in [10, 50].into_iter().flat_map(|delay| [0.0, 0.3, 0.6, 0.8].map(|load| (delay, load))) {
        let line = line(&MethodSettings::default(), narrow, Span::from_millis(delay_ms), load);
        assert_eq!(line.errors.len(), RUNS as usize, "{delay_ms} ms, load {load}: not every run has a value");
        let worst = line.errors.iter().copied().fold(0.0, f64::max);
        assert!(worst <= 0.06 && line.longest <= 15.0, "{delay_ms} ms, load {load}: {worst}, {} s", line.longest);
    }
}

#[test]
fn the_papers_comparison_with_pathload_takes_few_seconds() {
    // Table 5: a bottleneck of 5 Mbit/s and cross traffic of 0, 0.5, 1.5 and 3 Mbit/s; there 69 s, and 34 to 129 s.
    for load in [0.0, 0.1, 0.3, 0.6] {
        let line = line(&MethodSettings::default(), Rate::from_mbit(5), Span::from_millis(10), load);
        let worst = line.errors.iter().copied().fold(0.0, f64::max) * 5.0;
        assert!(worst <= 0.1 && line.longest <= 5.0, "load {load}: {worst} Mbit/s, {} s", line.longest);
    }
}
