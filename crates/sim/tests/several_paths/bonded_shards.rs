//! Gateways whose shards, each on a thread of its own, share the paths, against such of one shard: the same paths, the same
//! flows, the same virtual time.

use kumade_multipath::PathPolicy;
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, PathChange, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SEED: u64 = 2711;
const PATHS: u64 = 6;
/// A flow for each shard, and such that begin and end.
const LONG_FLOWS: usize = 6;
const SHORT_FLOWS: usize = 12;
const SPARSE_BYTES: u32 = 200;

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

fn tcp() -> TcpConfig {
    TcpConfig { segment_bytes: 1394, ..TcpConfig::new(CongestionControl::Cubic) }
}

fn add_flows(sites: &mut Sites, count: usize) {
    for _ in 0..count {
        sites.add_flow(FlowConfig::tcp(tcp())).unwrap();
    }
}

fn millis(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// A path of 4 to 100 Mbit/s and 2 to 40 ms, of which the gateways have been told nothing.
fn draw(random: &mut Pcg64Mcg) -> PathModel {
    let rate = Rate::from_f64(4e6 * 25f64.powf(random.random()));
    let path = PathModel::new(rate, Span::from_secs_f64(random.random_range(0.002..0.04)));
    PathModel { configured_rate: None, ..path }
}

#[derive(Debug)]
struct Outcome {
    /// Of what the path can carry.
    share: f64,
    /// How evenly the long flows have it (Jain et al., DEC-TR-301).
    fairness: f64,
    /// The median and the 99th percentile of a sparse flow's delays, in milliseconds above the path's own.
    added: [f64; 2],
    lost: f64,
}

/// What drawn flows get of a path.
fn run(path: PathModel, shards: usize, seed: u64) -> Outcome {
    let config = SitesConfig { paths: vec![path], plane: Plane::default(), seed };
    let mut sites = Sites::with_shards(&config, shards).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut flow = |bytes, from: f64, to: f64| {
        let start = at(random.random_range(from..to));
        sites.add_flow(FlowConfig { start, ..FlowConfig::tcp(TcpConfig { bytes, ..tcp() }) }).unwrap()
    };
    let long: Vec<_> = (0..LONG_FLOWS).map(|_| flow(None, 0.0, 1.0)).collect();
    let short: Vec<_> = (0..SHORT_FLOWS).map(|_| flow(Some(100_000), 5.0, 24.0)).collect();
    let sparse = sites.add_flow(FlowConfig::udp(Rate::from_bits_per_second(80_000), SPARSE_BYTES)).unwrap();
    let reports = sites.measure(at(5.0), at(25.0));
    assert!(reports.iter().all(|report| report.out_of_order == 0));
    let goodput = |flow: &usize| reports[*flow].goodput().as_f64();
    let sum: f64 = long.iter().chain(&short).map(goodput).sum();
    let (all, squares): (f64, f64) = long.iter().map(goodput).fold((0.0, 0.0), |(a, b), g| (a + g, b + g * g));
    let own = path.delay + path.rate.time_for((SPARSE_BYTES + 54).into());
    let added = [0.5, 0.99].map(|order| millis(reports[sparse].delays.quantile(order).unwrap() - own));
    let status = sites.path_status(0).unwrap();
    let lost = status.lost_packets as f64 / status.sent_packets as f64;
    Outcome { share: sum / config.max_goodput(&tcp()), fairness: all * all / squares / LONG_FLOWS as f64, added, lost }
}

#[test]
fn shards_get_of_a_path_what_one_gets_and_queue_no_more() {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut losses = Vec::new();
    for seed in 0..PATHS {
        let path = draw(&mut random);
        let packet = millis(path.rate.time_for(1500));
        println!("{:.1} Mbit/s, {:.1} ms", path.rate.as_f64() / 1e6, millis(path.delay));
        let one = run(path, 1, seed);
        println!("  1: {one:.3?}");
        for shards in [2, 3] {
            let several = run(path, shards, seed);
            println!("  {shards}: {several:.3?}");
            // A loss more or less in a run moves it by two hundredths.
            assert!(several.share > one.share - 0.06, "{shards} shards: {several:?} against {one:?}");
            losses.push(one.share - several.share);
            assert!(several.fairness > 0.9, "{shards} shards: {several:?} against {one:?}");
            // The packets of other shards take their turns before it, too.
            let turns = packet * (shards - 1) as f64;
            let [median, longest] = [0, 1].map(|n| several.added[n] - one.added[n]);
            assert!(median < 1.0 + turns && longest < 4.0 + 3.0 * turns, "{shards}: {several:?} against {one:?}");
            assert!(several.lost < one.lost + 0.005, "{shards} shards: {several:?} against {one:?}");
        }
    }
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean < 0.02, "{mean}");
}

#[test]
fn one_busy_shard_has_the_whole_path_while_others_have_nothing() {
    for shards in [1, 2, 4] {
        let path = PathModel::new(Rate::from_mbit(50), Span::from_millis(10));
        let config = SitesConfig { paths: vec![path; 2], plane: Plane::default(), seed: 1 };
        let mut sites = Sites::with_shards(&config, shards).unwrap();
        sites.add_flow(FlowConfig::tcp(tcp())).unwrap();
        let share = sites.measure(at(3.0), at(8.0))[0].goodput().as_f64() / config.max_goodput(&tcp());
        println!("{shards} shards: {share:.3}");
        assert!(share > 0.97, "{shards} shards: {share}");
    }
}

#[test]
fn shards_follow_a_path_that_becomes_slower_and_faster() {
    const SEEDS: u64 = 8;
    for shards in [1, 2, 3] {
        let runs: Vec<_> = (1..=SEEDS).map(|seed| goodput_of_a_changing_path(shards, seed)).collect();
        // What single runs differ by is chance: when the queue was full.
        let mean = |get: fn(&(f64, f64)) -> f64| runs.iter().map(get).sum::<f64>() / SEEDS as f64;
        let (slow, fast) = (mean(|run| run.0), mean(|run| run.1));
        println!("{shards} shards: {slow:.2} of 10, {fast:.2} of 40 Mbit/s: {runs:.2?}");
        assert!(slow > 8.5 && fast > 33.0, "{shards} shards: {slow} {fast}");
    }
}

/// What six connections get of a path, in Mbit/s, while it carries 10 and when it carries 40 again.
fn goodput_of_a_changing_path(shards: usize, seed: u64) -> (f64, f64) {
    let events = [(8.0, PathChange::Rate(Rate::from_mbit(10))), (14.0, PathChange::Rate(Rate::from_mbit(40)))];
    let path = PathModel { configured_rate: None, ..PathModel::new(Rate::from_mbit(40), Span::from_millis(10)) };
    let config = SitesConfig { paths: vec![path], plane: Plane::default(), seed };
    let mut sites = Sites::with_shards(&config, shards).unwrap();
    // They begin at other times in each run.
    for flow in 0..6 {
        let start = at((seed * flow % 7) as f64 / 10.0);
        sites.add_flow(FlowConfig { start, ..FlowConfig::tcp(tcp()) }).unwrap();
    }
    events.iter().for_each(|(time, change)| sites.schedule(at(*time), 0, *change));
    let mut mbit = |from, to| {
        let reports = sites.measure(at(from), at(to));
        reports.iter().map(|report| report.goodput().as_f64() / 1e6).sum::<f64>()
    };
    (mbit(9.0, 14.0), mbit(16.0, 20.0))
}

#[test]
fn every_shard_goes_on_when_a_path_is_cut_and_uses_it_when_it_is_back() {
    for choice in [PathPolicy::EarliestArrival, PathPolicy::Weighted] {
        for shards in [2, 3] {
            let paths =
                [(20, 10), (20, 25)].map(|(mbit, ms)| PathModel::new(Rate::from_mbit(mbit), Span::from_millis(ms)));
            let plane = Plane::Bonded { choice: choice.clone() };
            let config = SitesConfig { paths: paths.to_vec(), plane, seed: 5 };
            let mut sites = Sites::with_shards(&config, shards).unwrap();
            add_flows(&mut sites, shards);
            sites.schedule(at(8.0), 0, PathChange::Cut);
            sites.schedule(at(10.0), 0, PathChange::Restore);
            let stalls = sites.measure(at(7.9), at(9.9));
            let stall = stalls.iter().map(|report| report.longest_stall).max().unwrap();
            let after = sites.measure(at(13.0), at(18.0));
            let sum: f64 = after.iter().map(|report| report.goodput().as_f64()).sum();
            let share = sum / config.max_goodput(&tcp());
            println!("{choice:?}, {shards} shards: {stall}, then {share:.3}");
            assert!(stall <= Span::from_millis(3 * 50 + 100), "{choice:?}, {shards} shards: {stall}");
            assert!(share > 0.9, "{choice:?}, {shards} shards: {share}");
        }
    }
}
