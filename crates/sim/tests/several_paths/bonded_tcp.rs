//! What one TCP connection gets of several paths through two gateways: pace, path choice and resequencing together.
//!
//! The table is a committed snapshot. One CUBIC connection; shares are of what the framing leaves of the paths' rates:
//! payload over payload, TCP/IP headers and 54 bytes of the gateways' headers. Loss is in both directions.

use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, PathChange, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use std::fmt::Write;

fn path(mbit: f64, millis: f64, loss: f64) -> PathModel {
    PathModel { loss, ..PathModel::new(Rate::from_f64(mbit * 1e6), Span::from_secs_f64(millis / 1e3)) }
}

fn mbit(path: &PathModel) -> f64 {
    path.rate.as_f64() / 1e6
}

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

/// Packets of 1446 bytes with headers.
fn tcp() -> TcpConfig {
    TcpConfig { segment_bytes: 1394, ..TcpConfig::new(CongestionControl::Cubic) }
}

/// Two sites with one connection.
fn sites(config: &SitesConfig) -> Sites {
    let mut sites = Sites::new(config).unwrap();
    sites.add_flow(FlowConfig::tcp(tcp())).unwrap();
    sites
}

/// Of what the paths can carry, in so many seconds from the tenth on. Nothing may be delivered out of order where nothing is lost.
fn share(paths: &[PathModel], seed: u64, seconds: f64) -> f64 {
    let config = SitesConfig { paths: paths.to_vec(), plane: Plane::default(), seed };
    let mut sites = sites(&config);
    let reports = [(0.0, 10.0), (10.0, 10.0 + seconds)].map(|(from, to)| sites.measure(at(from), at(to)).remove(0));
    if paths.iter().all(|path| path.loss == 0.0) {
        assert!(reports.iter().all(|report| report.out_of_order == 0));
    }
    reports[1].goodput_bytes as f64 * 8.0 / seconds / config.max_goodput(&tcp())
}

fn name([one, other]: &[PathModel; 2]) -> String {
    let text = |path: &PathModel| format!("{}/{}", mbit(path), path.delay.as_secs_f64() * 1e3);
    format!("{} + {}", text(one), text(other))
}

#[test]
fn one_connection_fills_two_paths() {
    let rows = [
        ([path(8.0, 0.0, 0.0), path(8.0, 0.0, 0.0)], 0.97),
        ([path(8.0, 50.0, 0.0), path(8.0, 50.0, 0.0)], 0.93),
        ([path(8.0, 100.0, 0.0), path(8.0, 100.0, 0.0)], 0.93),
        ([path(8.0, 0.0, 0.0), path(8.0, 25.0, 0.0)], 0.95),
        ([path(8.0, 100.0, 0.0), path(8.0, 50.0, 0.0)], 0.95),
        ([path(8.0, 10.0, 0.0), path(1.5, 50.0, 0.0)], 0.92),
        ([path(100.0, 10.0, 0.0), path(100.0, 35.0, 0.0)], 0.93),
        ([path(300.0, 5.0, 0.0), path(80.0, 5.0, 0.0)], 0.90),
    ];
    let mut out = String::from("share of what the paths can carry, in percent\n\n");
    writeln!(out, "{:30} {:>6} {:>6}", "Mbit/s/ms", "mean", "least").unwrap();
    for (paths, bar) in rows {
        let (runs, seconds) = if mbit(&paths[0]) > 50.0 { (1, 8.0) } else { (2, 30.0) };
        let shares: Vec<f64> = (1..=runs).map(|seed| share(&paths, seed, seconds)).collect();
        let (mean, least) = (shares.iter().sum::<f64>() / runs as f64, shares.iter().copied().fold(f64::MAX, f64::min));
        let name = name(&paths);
        writeln!(out, "{name:30} {:6.1} {:6.1}", mean * 100.0, least * 100.0).unwrap();
        assert!(least > bar, "{name}: {least}");
    }
    insta::assert_snapshot!(out);
}

/// What connections get where each path repeats what another one loses (docs/overlays.md has the table): means of eight seeds, since
/// single runs are chaotic. Before, the second and third row were 21 and 28 %.
#[test]
fn losses_are_repaired_before_a_connection_notices() {
    const SEEDS: u64 = 8;
    let rows = [
        ([path(8.0, 0.0, 0.001), path(8.0, 25.0, 0.001)], 0.985),
        ([path(50.0, 10.0, 0.001), path(50.0, 20.0, 0.001)], 0.90),
        ([path(8.0, 100.0, 0.001), path(8.0, 50.0, 0.001)], 0.82),
        ([path(8.0, 0.0, 0.01), path(8.0, 25.0, 0.01)], 0.92),
    ];
    for (paths, bar) in rows {
        let seconds = if mbit(&paths[0]) > 20.0 { 20.0 } else { 60.0 };
        let shares: Vec<f64> = (1..=SEEDS).map(|seed| share(&paths, seed, seconds)).collect();
        let mean = shares.iter().sum::<f64>() / SEEDS as f64;
        let deviation = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (SEEDS - 1) as f64;
        let three_sigma = 3.0 * (deviation / SEEDS as f64).sqrt();
        let (name, loss) = (name(&paths), paths[0].loss * 100.0);
        println!("{name}, {loss} % lost: {:.1} ± {:.1} %", mean * 100.0, three_sigma * 100.0);
        assert!(mean - three_sigma > bar, "{name}, {loss} % lost: {shares:?}");
    }
}

#[test]
fn a_connection_goes_on_when_a_path_is_cut() {
    for (one, other) in [((8.0, 10.0), (8.0, 25.0)), ((50.0, 10.0), (50.0, 10.0)), ((20.0, 50.0), (20.0, 10.0))] {
        let paths = vec![path(one.0, one.1, 0.0), path(other.0, other.1, 0.0)];
        let bound = paths[0].delay.max(paths[1].delay) * 6 + Span::from_millis(100);
        let mut sites = sites(&SitesConfig { paths, plane: Plane::default(), seed: 1 });
        sites.schedule(at(8.0), 0, PathChange::Cut);
        let stall = sites.measure(at(7.9), at(12.0))[0].longest_stall;
        println!("{one:?} {other:?}: {stall} of {bound}");
        assert!(stall <= bound, "{one:?} {other:?}: {stall}");
    }
}
