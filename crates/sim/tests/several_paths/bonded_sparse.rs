//! What a sparse flow notices of a TCP connection beside it, and how soon such a connection has what two paths carry, where
//! the gateways have been told nothing of the paths.

use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, FlowReport, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Pairs of paths; others than those by which the rule was made.
const PAIRS: u64 = 24;
const SEED: u64 = 4711;
const SPARSE_BYTES: u32 = 128;
const SPARSE_INTERVAL: Span = Span::from_micros(19_870);
/// IPv4 and UDP headers, those of a sealed datagram, and those of a data message with one predecessor.
const OVERHEAD: u32 = 54;
const FULL_BYTES: u64 = 1500;

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

fn path(mbit: f64, millis: f64) -> PathModel {
    let path = PathModel::new(Rate::from_f64(mbit * 1e6), Span::from_secs_f64(millis / 1e3));
    PathModel { configured_rate: None, ..path }
}

/// A path of 1 to 100 Mbit/s, 1 to 80 ms and up to 0.5 % loss.
fn draw(random: &mut Pcg64Mcg) -> PathModel {
    let spread = |random: &mut Pcg64Mcg, low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
    let (mbit, millis) = (spread(random, 1.0, 100.0), spread(random, 1.0, 80.0));
    let loss = if random.random::<f64>() < 0.4 { 0.0 } else { 0.005 * random.random::<f64>() };
    PathModel { loss, ..path(mbit, millis) }
}

/// Full packets have 1500 bytes on the path.
fn tcp() -> TcpConfig {
    TcpConfig { segment_bytes: 1394, ..TcpConfig::new(CongestionControl::Cubic) }
}

/// What a sparse packet takes on an empty path, from host to host.
fn unloaded_delay(path: &PathModel) -> Span {
    path.delay + path.rate.time_for((SPARSE_BYTES + OVERHEAD).into())
}

fn millis(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The 99th percentile of what a sparse flow's packets take more than on the empty path, in ms. A full packet may already be
/// on its way into the path.
fn added_delay_p99_millis(paths: Vec<PathModel>, seed: u64) -> f64 {
    let best = *paths.iter().min_by_key(|path| unloaded_delay(path)).unwrap();
    let mut sites = Sites::new(&SitesConfig { paths, plane: Plane::default(), seed }).unwrap();
    sites.add_flow(FlowConfig::tcp(tcp())).unwrap();
    let sparse = FlowConfig::udp(Rate::from_bytes_over(SPARSE_BYTES.into(), SPARSE_INTERVAL), SPARSE_BYTES);
    let sparse = sites.add_flow(sparse).unwrap();
    let report: FlowReport = sites.measure(at(5.0), at(20.0)).remove(sparse);
    millis(report.delays.quantile(0.99).unwrap() - unloaded_delay(&best) - best.rate.time_for(FULL_BYTES))
}

/// In two of some 160 runs with other seeds it waits longer, 8 ms and 17 ms the most that was seen: one such pair is let pass.
#[test]
fn a_sparse_flow_waits_less_than_5_ms_beside_a_connection() {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut all = Vec::new();
    for seed in 0..PAIRS {
        let paths = vec![draw(&mut random), draw(&mut random)];
        let text = paths.iter().map(|path| format!("{:.1}/{:.1}", path.rate.as_f64() / 1e6, millis(path.delay)));
        let name = text.collect::<Vec<_>>().join(" + ");
        let added = added_delay_p99_millis(paths, seed);
        println!("{seed}: {name}: {added:.2} ms");
        all.push(added);
    }
    all.sort_by(|one, other| other.total_cmp(one));
    let mean = all.iter().sum::<f64>() / PAIRS as f64;
    println!("seed {SEED}, {PAIRS} pairs: mean {mean:.2} ms, worst {:.2} ms, then {:.2} ms", all[0], all[1]);
    assert!(all[0] <= 25.0 && all[1] <= 5.0, "{all:?}");
}

#[test]
fn a_connection_has_what_two_unknown_paths_carry_after_five_seconds() {
    for paths in [[path(8.0, 100.0), path(8.0, 50.0)], [path(8.0, 50.0), path(8.0, 50.0)]] {
        let share = |seed| {
            let config = SitesConfig { paths: paths.to_vec(), plane: Plane::default(), seed };
            let mut sites = Sites::new(&config).unwrap();
            let start = at(seed as f64 * 0.0173);
            sites.add_flow(FlowConfig { start, ..FlowConfig::tcp(tcp()) }).unwrap();
            let report = sites.measure(at(5.0), at(20.0)).remove(0);
            report.goodput().as_f64() / config.max_goodput(&tcp())
        };
        let shares: Vec<f64> = (40..60).map(share).collect();
        let (mean, least) = (shares.iter().sum::<f64>() / 20.0, shares.iter().copied().fold(f64::MAX, f64::min));
        println!("{}: mean {mean:.3}, least {least:.3}", paths.map(|path| millis(path.delay).to_string()).join(" + "));
        assert!(least >= 0.93, "{paths:?}: {least}");
    }
}
