//! What one TCP connection gets of two paths of which one fails again and again, and how soon that is used when it is back.

use multipath::PathState;
use sim::network::TcpConfig;
use sim::sites::{Change, FlowConfig, PathModel, Plane, Sites, SitesConfig};
use sim::tcp::congestion::Control;
use units::{Rate, Span, Time};

const SEEDS: u64 = 3;
const MAX_HOLD_SECONDS: f64 = 8.0;

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

fn path(mbit: u64, millis: i64) -> PathModel {
    PathModel { known_rate: None, ..PathModel::new(Rate::from_mbit(mbit), Span::from_millis(millis)) }
}

/// The share of what both paths could carry, and how many seconds the first one takes to return when it is back for good.
fn run(up: f64, down: f64, seed: u64) -> (f64, f64) {
    let config = SitesConfig { paths: vec![path(8, 10), path(8, 25)], plane: Plane::default(), seed };
    let mut sites = Sites::new(&config).unwrap();
    let tcp = TcpConfig { segment_bytes: 1372, ..TcpConfig::new(Control::Cubic) };
    sites.add_flow(FlowConfig::tcp(tcp)).unwrap();
    let mut back = 8.0 + seed as f64 * 0.13;
    while back < 70.0 {
        sites.schedule(at(back + up), 0, Change::Cut);
        sites.schedule(at(back + up + down), 0, Change::Restore);
        back += up + down;
    }
    let report = sites.measure(at(10.0), at(70.0)).remove(0);
    let mut now = back.max(70.0);
    while sites.path_status(0).unwrap().state != PathState::Up {
        now += 0.05;
        sites.run_until(at(now));
        assert!(now < back + 100.0, "it does not return");
    }
    (report.goodput().as_f64() / config.max_goodput(&tcp), now - back)
}

#[test]
fn a_path_that_fails_now_and_then_brings_more_than_it_costs_and_returns_when_it_is_back() {
    // Seconds up, seconds down, and the least share; the other path alone is 0.5.
    for (up, down, bar) in [(0.3, 0.3, 0.45), (1.0, 1.0, 0.48), (3.0, 0.5, 0.75), (5.0, 1.0, 0.8), (10.0, 1.0, 0.88)] {
        for seed in 0..SEEDS {
            let (share, back) = run(up, down, seed);
            println!("up {up} s, down {down} s, seed {seed}: {:.1} %, back after {back:.2} s", share * 100.0);
            assert!(share > bar, "up {up} s, down {down} s, seed {seed}: {share}");
            assert!(back < MAX_HOLD_SECONDS + 1.0, "up {up} s, down {down} s, seed {seed}: {back} s");
        }
    }
}
