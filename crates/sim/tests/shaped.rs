//! Available bandwidth behind a token bucket: the capacity is looked for first, and the default method told what was
//! found, as `kumade measure` does.
//!
//! The table is a committed snapshot. Each line is several paths, which differ in the line behind the bucket, in the
//! others' traffic and in their seeds; `measure_path(setting, seed)` runs one alone.

use kumade_estimate::{Capacity, CapacityConfig, CapacityProbe, Conditions, Method, MethodSettings, Outcome, Step};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Medium, SizeMix, TokenBucket};
use kumade_sim::{PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};
use std::fmt::Write;

const SEEDS: u64 = 3;
/// The lines' rates in Mbit/s; the last is as good as unlimited.
const LINES: [u64; 3] = [100, 1_000, 100_000];
const TRAFFIC: [(Traffic, f64); 5] = [
    (Traffic::Constant, 0.0),
    (Traffic::Constant, 0.3),
    (Traffic::Constant, 0.6),
    (Traffic::Poisson, 0.3),
    (Traffic::Poisson, 0.6),
];
/// A bucket of which the whole burst is longer than this does not show: no train is as long.
const LONGEST_BURST: f64 = 180_000.0;

#[derive(Debug, Clone, Copy)]
enum Traffic {
    Constant,
    Poisson,
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    rate: Rate,
    burst_bytes: u64,
    line: Rate,
    traffic: Traffic,
    /// The part of the shaped rate that others use.
    load: f64,
}

/// What came of one path.
struct Case {
    setting: Setting,
    seed: u64,
    outcome: Outcome,
    shaper_seen: bool,
    /// Of the value, in percent of the shaped rate; none without a value.
    error: Option<f64>,
    held: bool,
}

impl Setting {
    /// What passes before the bucket is empty, which fills meanwhile.
    fn shows(&self) -> bool {
        self.burst_bytes as f64 / (1.0 - self.rate.as_f64() / self.line.as_f64()) < LONGEST_BURST
    }

    fn path(&self, seed: u64) -> VirtualPath {
        let &Setting { rate, burst_bytes, line, traffic, load } = self;
        let cross = Rate::from_f64(rate.as_f64() * load);
        let kind = match traffic {
            Traffic::Constant => CrossKind::Constant { rate: cross, size: 1500 },
            Traffic::Poisson => CrossKind::Poisson { rate: cross, sizes: SizeMix::imix() },
        };
        let link = LinkConfig {
            rate: Some(line),
            medium: Some(Medium::TokenBucket(TokenBucket { rate, burst_bytes })),
            queue_bytes: 300_000,
            delay: Span::from_millis(5),
            seed,
            ..LinkConfig::default()
        };
        let phase = (seed as f64 * 0.618).fract();
        let hop = PathHop {
            link,
            queue: None,
            cross: vec![CrossConfig { kind, start: Time::ZERO, phase, seed: seed + 1000 }],
        };
        let mut path = VirtualPath::new(&[hop], Stamping::default(), seed).expect("a path that can be");
        path.wait(Span::from_millis(500));
        path
    }
}

fn find_capacity(path: &mut VirtualPath, seed: u64) -> Capacity {
    let mut probe = CapacityProbe::new(CapacityConfig { seed, ..CapacityConfig::new(1500) });
    loop {
        match probe.next(path.now()) {
            Step::Send { wait, train } => {
                path.wait(wait);
                let record = path.send(&train);
                path.wait(path.base_delay());
                probe.record(&record);
            }
            Step::Done(capacity) => return capacity,
        }
    }
}

fn measure_path(setting: Setting, seed: u64) -> Case {
    let mut path = setting.path(seed);
    let capacity = find_capacity(&mut path, seed);
    let shaping = capacity.shaping();
    let run = measure(&mut *primed(&Conditions { seed, shaping, ..Conditions::new(1500) }), &mut path);
    case(setting, seed, capacity.shaper.is_some(), (capacity.refuse_above_capacity(run.outcome, None), run.truth))
}

fn primed(conditions: &Conditions) -> Box<dyn Method> {
    MethodSettings::default().build(conditions)
}

/// Where nobody has looked for the capacity.
fn measure_unknown(setting: Setting, seed: u64) -> Case {
    let mut method = primed(&Conditions { seed, ..Conditions::new(1500) });
    let run = measure(&mut *method, &mut setting.path(seed));
    case(setting, seed, false, (run.outcome, run.truth))
}

fn case(setting: Setting, seed: u64, shaper_seen: bool, (outcome, truth): (Outcome, Rate)) -> Case {
    let off = |value: Rate| (value.as_f64() - truth.as_f64()).abs() / setting.rate.as_f64() * 100.0;
    let error = outcome.available.map(|estimate| off(estimate.value));
    let held = outcome.available.is_some_and(|estimate| (estimate.low..=estimate.high).contains(&truth));
    Case { setting, seed, outcome, shaper_seen, error, held }
}

fn cases(mbit: u64, burst_bytes: u64, run: fn(Setting, u64) -> Case) -> Vec<Case> {
    let rate = Rate::from_mbit(mbit);
    let lines = LINES.map(Rate::from_mbit);
    let settings = lines
        .into_iter()
        .filter(|&line| line > rate)
        .flat_map(|line| TRAFFIC.map(|(traffic, load)| Setting { rate, burst_bytes, line, traffic, load }));
    let shown = settings.filter(Setting::shows);
    shown.flat_map(|setting| (0..SEEDS).map(move |seed| run(setting, seed))).collect()
}

/// Sorted; of those with a value.
fn errors(cases: &[Case]) -> Vec<f64> {
    let mut errors: Vec<f64> = cases.iter().filter_map(|case| case.error).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

fn table(run: fn(Setting, u64) -> Case, rates: &[u64], check: impl Fn(&Case)) -> (String, Vec<Case>) {
    let mut out = String::from("errors in percent of the shaped rate\n\n");
    let [runs, seen, none, median, worst, held] = ["runs", "shaper seen", "no value", "median", "worst", "held"];
    writeln!(out, "{:<28}{runs:>6}{seen:>13}{none:>10}{median:>8}{worst:>8}{held:>6}", "").unwrap();
    let mut all = Vec::new();
    for &mbit in rates {
        for burst_bytes in [5_000, 10_000, 50_000, 150_000] {
            let cases = cases(mbit, burst_bytes, run);
            cases.iter().for_each(&check);
            let errors = errors(&cases);
            let figure = |index: usize| errors.get(index).map_or("–".to_owned(), |error| format!("{error:.2}"));
            let (median, worst) = (figure(errors.len() / 2), figure(errors.len().saturating_sub(1)));
            let [seen, held] =
                [|c: &Case| c.shaper_seen, |c: &Case| c.held].map(|is| cases.iter().filter(|c| is(c)).count());
            let label = format!("{mbit} Mbit/s after {} kB", burst_bytes / 1000);
            let (runs, none) = (cases.len(), cases.len() - errors.len());
            writeln!(out, "{label:<28}{runs:>6}{seen:>13}{none:>10}{median:>8}{worst:>8}{held:>6}").unwrap();
            all.extend(cases);
        }
    }
    (out, all)
}

impl Case {
    fn describe(&self) -> String {
        let Case { setting, seed, outcome, .. } = self;
        format!("{setting:?}, seed {seed}: {outcome:?}")
    }
}

#[test]
fn what_is_available_behind_a_token_bucket_is_right_or_there_is_no_value() {
    let (table, cases) = table(measure_path, &[1, 10, 50, 200], |case| {
        // On a slow path few packets fit the time, and the interval says so.
        let unsure = case.held && case.setting.rate < Rate::from_mbit(5);
        assert!(unsure || case.error.is_none_or(|error| error <= 10.0), "{}", case.describe());
        assert_eq!(case.outcome.available.is_none(), case.outcome.reason.is_some(), "{}", case.describe());
    });
    let errors = errors(&cases);
    let held = cases.iter().filter(|case| case.held).count();
    assert!(errors[errors.len() / 2] < 0.5, "{table}");
    assert!(errors.len() * 100 >= cases.len() * 90, "no value in {} of {}", cases.len() - errors.len(), cases.len());
    assert!(held * 100 >= errors.len() * 95, "the intervals held the truth in {held} of {}", errors.len());
    insta::assert_snapshot!(table);
}

#[test]
fn a_token_bucket_that_nobody_has_looked_for_is_seldom_overlooked() {
    // A line twice as fast as the shaper is not told from one that others use, and a bucket as long as all of a train
    // can be seen by nobody.
    let tenfold = |case: &Case| case.setting.line.as_f64() >= 10.0 * case.setting.rate.as_f64();
    let (table, cases) = table(measure_unknown, &[1, 10, 50], |_| {});
    let misled: Vec<&Case> =
        cases.iter().filter(|c| tenfold(c) && !c.held && c.error.is_some_and(|e| e > 2.0)).collect();
    let described: Vec<String> = misled.iter().map(|case| case.describe()).collect();
    assert!(misled.len() * 100 <= cases.len(), "{} of {}: {}", misled.len(), cases.len(), described.join("\n"));
    insta::assert_snapshot!(table);
}
