//! Paths drawn at random: what the pace makes of them, and what a sparse flow beside a bulk one notices.
//!
//! The table is a committed snapshot: means and worst cases over paths that differ in all that a path can differ in.

use crate::world::*;
use kumade_multipath::{PathPolicy, TrafficClass};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;

const PATHS: u64 = 24;
/// Not those by which the rule was made.
const SEED: u64 = 1711;
/// What may be added to a sparse flow's delay at most.
const MAX_ADDED_MILLIS: f64 = 5.0;

/// What was seen of one path.
struct Line {
    /// Share of the rate that arrived, in percent of what loss leaves.
    early: f64,
    late: f64,
    /// What the sparse flow's packets took more than on an empty path, 99th percentile, in ms.
    added: f64,
}

/// A path of 2 to 200 Mbit/s, 1 to 80 ms and up to 0.5 % loss.
fn draw(random: &mut Pcg64Mcg) -> PathSpec {
    let spread = |random: &mut Pcg64Mcg, low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
    let mbit = spread(random, 2.0, 200.0);
    let millis = spread(random, 1.0, 80.0);
    let loss = if random.random::<f64>() < 0.4 { 0.0 } else { 0.005 * random.random::<f64>() };
    PathSpec { loss, ..path(mbit, millis) }
}

fn run(spec: PathSpec, seed: u64) -> Line {
    let mut world = World::new(PathPolicy::EarliestArrival, &[spec], seed);
    world.bulk();
    let interval = Span::from_micros(19_870);
    let sparse = world.add(Source::Paced { size: 200, interval }, TrafficClass::Ordered, Time::ZERO, Time::MAX);
    world.run_until(at(20.0));
    let share = |from, to| world.rate(None, at(from), at(to)) / spec.mbit / 1e4 / (1.0 - spec.loss);
    // A full packet may already be on its way into the link.
    let own = spec.delay.as_secs_f64() + f64::from(1500 + 200 + OVERHEAD) * 8.0 / spec.mbit / 1e6;
    let added = (world.delay(sparse, 0.99, at(5.0)).as_secs_f64() - own) * 1e3;
    Line { early: share(1.0, 5.0), late: share(5.0, 20.0), added }
}

fn summary(name: &str, lines: &[Line]) -> String {
    let mean = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>() / lines.len() as f64;
    let least = |of: fn(&Line) -> f64| lines.iter().map(of).fold(f64::MAX, f64::min);
    let most = |of: fn(&Line) -> f64| lines.iter().map(of).fold(f64::MIN, f64::max);
    format!(
        "{name:24} {:7.1} {:7.1} {:7.1} {:7.1} {:7.1} {:7.1}",
        mean(|line| line.early),
        least(|line| line.early),
        mean(|line| line.late),
        least(|line| line.late),
        mean(|line| line.added),
        most(|line| line.added),
    )
}

#[test]
fn paths_at_random_are_used_in_full_whatever_was_believed_of_them() {
    let mut out = format!("{PATHS} paths; share of the rate in percent, delay added to a sparse flow in ms (p99)\n\n");
    writeln!(out, "{:24} {:>15} {:>15} {:>15}", "", "1-5 s", "5-20 s", "added").unwrap();
    writeln!(
        out,
        "rate believed {:>18} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "mean", "least", "mean", "least", "mean", "most"
    )
    .unwrap();
    for (name, told) in
        [("right", Some(1.0)), ("ten times too high", Some(10.0)), ("ten times too low", Some(0.1)), ("unknown", None)]
    {
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let mut line = |seed| {
            let spec = draw(&mut random);
            run(PathSpec { told: told.map(|factor| factor * spec.mbit), ..spec }, seed)
        };
        let lines: Vec<Line> = (0..PATHS).map(&mut line).collect();
        writeln!(out, "{}", summary(name, &lines)).unwrap();
        let mean = lines.iter().map(|line| line.late).sum::<f64>() / PATHS as f64;
        assert!(mean > 99.0, "{name}: {mean} %");
        let most = lines.iter().map(|line| line.added).fold(f64::MIN, f64::max);
        println!("{}", out.lines().last().unwrap());
        // A path that is believed to be far too slow may still be searched when what counts begins.
        assert!(most <= MAX_ADDED_MILLIS || told == Some(0.1), "{name}: {most} ms");
    }
    insta::assert_snapshot!(out);
}
