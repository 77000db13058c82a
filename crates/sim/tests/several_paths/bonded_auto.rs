//! The bonded plane that finds everything by itself against the best that a fixed ratio reaches, and against the better
//! path alone: pairs of paths drawn at random, one CUBIC connection.
//!
//! The table is a committed snapshot. Figures are Mbit/s of the paths' rates: goodput and the framing that it takes. A
//! fixed ratio is kept by the same plane, which is told the paths' rates: the best of that of the rates, of either path alone, and of 1:3, 1:1
//! and 3:1 where they are near that of the rates (farther ones lose a part of a path). The one that finds out by itself knows nothing at the start. What
//! counts begins 40 s later, when a window that an early loss has cut has grown again. The pairs are others than those by
//! which the rule was made.

use kumade_multipath::{PathPolicy, ShareUnit};
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;

const PAIRS: u64 = 5;
const SEEDS: u64 = 1;

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

/// A path of 2 to 200 Mbit/s, 1 to 80 ms and up to 0.5 % loss.
fn draw(random: &mut Pcg64Mcg) -> PathModel {
    let spread = |random: &mut Pcg64Mcg, low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
    let mbit = spread(random, 2.0, 200.0);
    let millis = spread(random, 1.0, 80.0);
    let loss = if random.random::<f64>() < 0.4 { 0.0 } else { 0.005 * random.random::<f64>() };
    PathModel { loss, ..PathModel::new(Rate::from_f64(mbit * 1e6), Span::from_secs_f64(millis / 1e3)) }
}

/// The mean of some runs.
fn run(paths: [PathModel; 2], plane: &Plane, pair: u64) -> f64 {
    let tcp = TcpConfig { segment_bytes: 1448 - plane.overhead_bytes(), ..TcpConfig::new(CongestionControl::Cubic) };
    let sum = paths.iter().map(|path| path.rate.as_f64()).sum::<f64>() / 1e6;
    let seconds = (3000.0 / sum).clamp(15.0, 90.0);
    let of_seed = |seed| {
        let config = SitesConfig { paths: paths.to_vec(), plane: plane.clone(), seed: 1000 * pair + seed };
        let mut sites = Sites::new(&config).unwrap();
        sites.add_flow(FlowConfig::tcp(tcp)).unwrap();
        let report = sites.measure(at(40.0), at(40.0 + seconds)).remove(0);
        report.goodput().as_f64() / config.max_goodput(&tcp) * sum
    };
    (0..SEEDS).map(of_seed).sum::<f64>() / SEEDS as f64
}

fn ratio(shares: [u32; 2]) -> Plane {
    Plane::Bonded { choice: PathPolicy::Ratio { shares: shares.to_vec(), unit: ShareUnit::Packets } }
}

/// The ratio of at most 40 packets that is next to the paths' rates.
fn fair(paths: &[PathModel; 2]) -> [u32; 2] {
    let share = paths[0].rate.as_f64() / (paths[0].rate.as_f64() + paths[1].rate.as_f64());
    let error = |[one, other]: &[u32; 2]| (f64::from(*one) / f64::from(one + other) - share).abs();
    let ratios = (2..=40u32).flat_map(|sum| (1..sum).map(move |one| [one, sum - one]));
    ratios.min_by(|one, other| error(one).total_cmp(&error(other))).unwrap()
}

#[test]
fn what_is_found_is_as_good_as_the_best_fixed_ratio() {
    let mut random = Pcg64Mcg::seed_from_u64(77);
    let mut out =
        String::from("Mbit/s, framing included; ratio: that of the rates, a simple one near it, or one path alone\n\n");
    writeln!(out, "{:36} {:>6} {:>13} {:>6} {:>8}", "Mbit/s/ms/% lost", "found", "best ratio", "alone", "of best")
        .unwrap();
    let mut shares = Vec::new();
    for pair in 0..PAIRS {
        let paths = [0, 1].map(|_| draw(&mut random));
        let found = run(paths.map(|path| PathModel { configured_rate: None, ..path }), &Plane::default(), pair);
        let share = |[one, other]: [u32; 2]| f64::from(one) / f64::from(one + other);
        let simple =
            [[1, 3], [1, 1], [3, 1]].into_iter().filter(|ratio| (share(*ratio) - share(fair(&paths))).abs() < 0.1);
        let ratios = [[1, 0], [0, 1], fair(&paths)].into_iter().chain(simple);
        let tried: Vec<(f64, [u32; 2])> = ratios.map(|shares| (run(paths, &ratio(shares), pair), shares)).collect();
        let alone = tried[0].0.max(tried[1].0);
        let (best, [one, other]) = tried.into_iter().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
        let share = found / best;
        let path = |path: PathModel| {
            let (mbit, millis) = (path.rate.as_f64() / 1e6, path.delay.as_secs_f64() * 1e3);
            format!("{mbit:.1}/{millis:.0}/{:.2}", path.loss * 100.0)
        };
        let name = paths.map(path).join(" + ");
        let text = format!("{best:6.1} {:>6}", format!("{one}:{other}"));
        writeln!(out, "{name:36} {found:6.1} {text:>13} {alone:6.1} {:6.1} %", share * 100.0).unwrap();
        println!("{}", out.lines().last().unwrap());
        // Where one path is used alone, runs differ by chance.
        assert!(share >= 0.92 && found >= 0.97 * alone, "{name}: {found}, {best}, {alone}");
        shares.push(share);
    }
    let mean = shares.iter().sum::<f64>() / PAIRS as f64;
    writeln!(out, "\nmean {:.1} %", mean * 100.0).unwrap();
    assert!(mean >= 0.97, "{mean}");
    insta::assert_snapshot!(out);
}
