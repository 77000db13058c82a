//! What one TCP connection gets of two paths of which one fails again and again, and how soon that is used when it is back.

use kumade_multipath::PathState;
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, PathChange, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SEEDS: u64 = 3;
const MAX_HOLD_SECONDS: f64 = 8.0;

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

fn path(mbit: u64, millis: i64) -> PathModel {
    PathModel { configured_rate: None, ..PathModel::new(Rate::from_mbit(mbit), Span::from_millis(millis)) }
}

/// The share of what both paths could carry, and how many seconds the first one takes to return when it is back for good.
fn run(up: f64, down: f64, seed: u64) -> (f64, f64) {
    let config = SitesConfig { paths: vec![path(8, 10), path(8, 25)], plane: Plane::default(), seed };
    let mut sites = Sites::new(&config).unwrap();
    let tcp = TcpConfig { segment_bytes: 1394, ..TcpConfig::new(CongestionControl::Cubic) };
    sites.add_flow(FlowConfig::tcp(tcp)).unwrap();
    let mut back = 8.0 + seed as f64 * 0.13;
    while back < 70.0 {
        sites.schedule(at(back + up), 0, PathChange::Cut);
        sites.schedule(at(back + up + down), 0, PathChange::Restore);
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

/// Each path fails for 0.2 to 2 s every 3 to 20 s, and now and then has another rate, delay and loss.
fn schedule_faults(sites: &mut Sites, path: usize, random: &mut Pcg64Mcg, end: f64) {
    let mut now = random.random_range(3.0..20.0);
    while now < end {
        let down = random.random_range(0.2..2.0);
        sites.schedule(at(now), path, PathChange::Cut);
        sites.schedule(at(now + down), path, PathChange::Restore);
        now += down + random.random_range(3.0..20.0);
        if random.random_bool(0.2) {
            sites.schedule(at(now), path, PathChange::Rate(Rate::from_f64(random.random_range(3e6..9e6))));
            sites.schedule(at(now), path, PathChange::Delay(Span::from_secs_f64(random.random_range(0.005..0.05))));
            sites.schedule(at(now), path, PathChange::Loss(random.random_range(0.0..0.003)));
        }
    }
}

#[test]
fn what_connections_carry_arrives_through_ten_minutes_of_failing_paths() {
    const BYTES: u64 = 4_000_000;
    for seed in [3, 57] {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let config = SitesConfig { paths: vec![path(8, 10), path(6, 25)], plane: Plane::default(), seed };
        let mut sites = Sites::new(&config).unwrap();
        (0..2).for_each(|path| schedule_faults(&mut sites, path, &mut random, 600.0));
        let tcp = TcpConfig { segment_bytes: 1394, bytes: Some(BYTES), ..TcpConfig::new(CongestionControl::Cubic) };
        for n in 0..40 {
            sites.add_flow(FlowConfig { start: at(14.0 * f64::from(n)), ..FlowConfig::tcp(tcp) }).unwrap();
        }
        let udp = sites.add_flow(FlowConfig::udp(Rate::from_bits_per_second(80_000), 200)).unwrap();
        let reports = sites.measure(at(0.0), at(630.0));
        let (delivered, sent) = (reports[udp].delivered_packets, reports[udp].sent_packets);
        println!("seed {seed}: {delivered} of {sent} UDP packets, longest stall {}", reports[udp].longest_stall);
        assert!(reports[..udp].iter().all(|report| report.goodput_bytes == BYTES), "seed {seed}");
        assert_eq!(reports[udp].duplicates, 0, "seed {seed}");
        // What is on a path when it fails is lost, and what is sent until that is noticed, or while both are down.
        assert!(delivered * 100 > sent * 93, "seed {seed}: {delivered} of {sent}");
    }
}
