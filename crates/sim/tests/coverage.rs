//! The default method on 600 random paths: how far off, and how often its interval holds the truth.
//!
//! The table is a committed snapshot, so that a change of the method shows what it does to accuracy. Every path comes
//! from a seed, which is the row's number: `measure_path(seed)` runs one alone.

use kumade_estimate::{Conditions, MethodSettings};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Loss, PeriodLengths, SizeMix};
use kumade_sim::{PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::fmt::Write;

const PATHS: u64 = 600;

/// A path and what came of measuring it.
struct Case {
    capacity: Rate,
    load: f64,
    kind: &'static str,
    hops: usize,
    /// Error as a part of the capacity, and whether the interval held the truth; none without a value.
    result: Option<(f64, bool)>,
}

#[test]
fn the_interval_holds_the_truth_and_the_table_is_as_committed() {
    let cases: Vec<Case> = (0..PATHS).map(measure_path).collect();
    let measured: Vec<&Case> = cases.iter().filter(|c| c.result.is_some()).collect();
    let held = share(&measured, |c| c.result.is_some_and(|(_, held)| held));
    assert!((0.90..=0.99).contains(&held), "the 95 % interval held the truth in {held:.3} of the runs");
    assert!(measured.len() * 100 >= cases.len() * 97, "no value in {} runs", cases.len() - measured.len());
    insta::assert_snapshot!(table(&cases, held));
}

fn measure_path(seed: u64) -> Case {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let capacity = Rate::from_f64(10f64.powf(random.random_range(6.0..9.0)));
    let load = random.random_range(0.0..0.9);
    let (kind, cross) = cross(&mut random, capacity, load);
    let mut hops = vec![hop(&mut random, capacity, cross)];
    if random.random_bool(0.5) {
        // A wider hop with traffic of its own, before or behind; either may turn out the tighter one.
        let wide = Rate::from_f64(capacity.as_f64() * random.random_range(1.2..10.0));
        let load = random.random_range(0.0..0.7);
        let (_, cross) = cross_poisson(&mut random, wide, load);
        let place = random.random_range(0..=1);
        hops.insert(place, hop(&mut random, wide, cross));
    }
    let mut path = VirtualPath::new(&hops, Stamping::default(), seed).expect("a path that can be");
    path.wait(Span::from_millis(500));
    let run = measure(&mut *MethodSettings::default().build(&Conditions { seed, ..Conditions::new(1500) }), &mut path);
    let result = run.outcome.available.map(|estimate| {
        let error = (estimate.value.as_f64() - run.truth.as_f64()) / capacity.as_f64();
        (error, (estimate.low..=estimate.high).contains(&run.truth))
    });
    Case { capacity, load, kind, hops: hops.len(), result }
}

fn hop(random: &mut Pcg64Mcg, rate: Rate, cross: CrossKind) -> PathHop {
    let link = LinkConfig {
        rate: Some(rate),
        queue_bytes: rate.bytes_in(Span::from_millis(random.random_range(10..200))).max(45_000),
        delay: Span::from_micros(random.random_range(500..25_000)),
        loss: if random.random_bool(0.2) { Loss::Independent(random.random_range(0.0..0.01)) } else { Loss::None },
        seed: random.random(),
        ..LinkConfig::default()
    };
    let phase = random.random_range(0.0..1.0);
    PathHop {
        link,
        queue: None,
        cross: vec![CrossConfig { kind: cross, start: Time::ZERO, phase, seed: random.random() }],
    }
}

fn cross(random: &mut Pcg64Mcg, capacity: Rate, load: f64) -> (&'static str, CrossKind) {
    match random.random_range(0..3) {
        0 => ("constant", CrossKind::Constant { rate: Rate::from_f64(capacity.as_f64() * load), size: 1500 }),
        1 => cross_poisson(random, capacity, load),
        _ => {
            let busy: f64 = random.random_range(load.max(0.05)..0.95);
            let on = capacity.time_for(30_000).as_secs_f64().max(random.random_range(0.005..0.05));
            let kind = CrossKind::OnOff {
                rate: Rate::from_f64(capacity.as_f64() * busy),
                size: 1500,
                on: Span::from_secs_f64(on / (1.0 - load / busy * 0.5)),
                off: Span::from_secs_f64(on / (1.0 - load / busy * 0.5) * (busy / load.max(0.01) - 1.0)),
                periods: PeriodLengths::Exponential,
            };
            ("on/off", kind)
        }
    }
}

fn cross_poisson(random: &mut Pcg64Mcg, capacity: Rate, load: f64) -> (&'static str, CrossKind) {
    let sizes = if random.random_bool(0.5) { SizeMix::imix() } else { SizeMix::fixed(1500) };
    ("poisson", CrossKind::Poisson { rate: Rate::from_f64(capacity.as_f64() * load), sizes })
}

fn table(cases: &[Case], held: f64) -> String {
    let mut out = String::new();
    writeln!(out, "{} paths; the 95 % interval held the truth in {:.1} %", cases.len(), held * 100.0).unwrap();
    writeln!(out, "errors in percent of the capacity\n").unwrap();
    writeln!(out, "{:<24}{:>6}{:>10}{:>8}{:>8}{:>8}", "", "paths", "no value", "median", "mean", "held").unwrap();
    type Label = fn(&Case) -> String;
    let groups: [(&str, Label); 4] = [
        ("capacity", |c| match c.capacity.bits_per_second() {
            0..10_000_000 => "1…10 Mbit/s".into(),
            10_000_000..100_000_000 => "10…100 Mbit/s".into(),
            _ => "100 Mbit/s … 1 Gbit/s".into(),
        }),
        ("load", |c| format!("{:.0}…{:.0} %", (c.load / 0.3).floor() * 30.0, (c.load / 0.3).floor() * 30.0 + 30.0)),
        ("traffic", |c| c.kind.into()),
        ("hops", |c| c.hops.to_string()),
    ];
    for (name, group) in groups {
        writeln!(out, "{name}").unwrap();
        let mut rows: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
        cases.iter().for_each(|case| rows.entry(group(case)).or_default().push(case));
        for (label, members) in rows {
            writeln!(out, "{}", row(&label, &members)).unwrap();
        }
    }
    out
}

fn row(label: &str, members: &[&Case]) -> String {
    let mut errors: Vec<f64> = members.iter().filter_map(|c| Some(c.result?.0.abs() * 100.0)).collect();
    errors.sort_by(f64::total_cmp);
    let measured: Vec<&Case> = members.iter().filter(|c| c.result.is_some()).copied().collect();
    let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let held = share(&measured, |c| c.result.is_some_and(|(_, held)| held)) * 100.0;
    let none = members.len() - measured.len();
    format!("  {label:<22}{:>6}{none:>10}{median:>8.2}{mean:>8.2}{held:>7.0}%", members.len())
}

fn share(cases: &[&Case], is: impl Fn(&Case) -> bool) -> f64 {
    cases.iter().filter(|c| is(c)).count() as f64 / cases.len().max(1) as f64
}
