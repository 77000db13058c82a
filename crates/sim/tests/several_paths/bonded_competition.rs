//! What a bonded path gets beside one connection of somebody else at the same bottleneck, and what a connection of CUBIC or
//! of BBR gets in its place.
//!
//! A share is bytes on the path in parts of an equal share. The path is told nothing; packets always wait for it. A little random
//! traffic keeps losses from falling into step.

use kumade_link::{CrossConfig, CrossKind, SizeMix};
use kumade_multipath::TrafficClass;
use kumade_sim::network::{TcpConfig, TrafficSource};
use kumade_sim::sites::{FlowConfig, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;

/// What shares the bottleneck with the rival.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Contender {
    /// A bonded path for which packets always wait.
    Path,
    /// A bonded path that carries one CUBIC connection.
    PathWithCubic,
    Connection(CongestionControl),
}

impl Contender {
    fn name(self) -> String {
        match self {
            Contender::Path => "bonded path".into(),
            Contender::PathWithCubic => "bonded path, 1 CUBIC".into(),
            Contender::Connection(control) => control.to_string(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Bottleneck {
    rate: Rate,
    round_trip: Span,
    /// In bandwidth-delay products.
    buffer: f64,
    loss: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    /// Of what the contender got, in parts of an equal share.
    share: f64,
    /// Lost packets of those sent, in percent.
    contender_lost: f64,
    rival_lost: f64,
    /// Of the rate.
    used: f64,
}

const CONTENDERS: [Contender; 4] = [
    Contender::Path,
    Contender::PathWithCubic,
    Contender::Connection(CongestionControl::Cubic),
    Contender::Connection(CongestionControl::Bbr),
];
const BUFFERS: [f64; 5] = [0.1, 0.25, 0.5, 1.0, 2.0];

fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

fn run(bottleneck: Bottleneck, contender: Contender, rival: CongestionControl, seed: u64) -> Outcome {
    let Bottleneck { rate, round_trip, buffer, loss } = bottleneck;
    let queue_bytes = (rate.bytes_in(round_trip) as f64 * buffer) as u64;
    let path = PathModel { queue_bytes, loss, configured_rate: None, ..PathModel::new(rate, round_trip / 2) };
    let plane = match contender {
        Contender::Path | Contender::PathWithCubic => Plane::default(),
        Contender::Connection(_) => Plane::single(0, 1),
    };
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut start = || at(0.5 + random.random::<f64>());
    let mut sites = Sites::new(&SitesConfig { paths: vec![path], plane, seed }).unwrap();
    let tcp = |control, segment_bytes| FlowConfig::tcp(TcpConfig { segment_bytes, ..TcpConfig::new(control) });
    let config = match contender {
        Contender::Path => {
            let class = TrafficClass::Unordered;
            FlowConfig { class, ..FlowConfig::udp(Rate::from_f64(rate.as_f64() * 1.2), 1424) }
        }
        Contender::PathWithCubic => tcp(CongestionControl::Cubic, 1372),
        Contender::Connection(control) => tcp(control, 1448),
    };
    sites.add_flow(FlowConfig { start: start(), ..config }).unwrap();
    sites.add_flow(FlowConfig { start: start(), bypasses_plane: true, ..tcp(rival, 1448) }).unwrap();
    let kind = CrossKind::Poisson { rate: Rate::from_f64(rate.as_f64() * 0.01), sizes: SizeMix::imix() };
    let source = TrafficSource::Udp(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed });
    sites.add_flow(FlowConfig { bypasses_plane: true, source, ..FlowConfig::udp(rate, 100) }).unwrap();
    let (from, to) = (at(10.0), at(70.0));
    sites.run_until(from);
    let before = sites.path_status(0);
    let reports = sites.measure(from, to);
    let after = sites.path_status(0);
    let bytes = |flow: usize| reports[flow].path_bytes[0] as f64;
    let repeated = |flow: usize| {
        100.0 * reports[flow].tcp.retransmissions as f64 / (reports[flow].tcp.sent_segments as f64).max(1.0)
    };
    let contender_lost = match (before, after, contender) {
        (Some(before), Some(after), Contender::Path | Contender::PathWithCubic) => {
            100.0 * (after.lost_packets - before.lost_packets) as f64
                / (after.sent_packets - before.sent_packets) as f64
        }
        _ => repeated(0),
    };
    Outcome {
        share: 2.0 * bytes(0) / (bytes(0) + bytes(1)),
        contender_lost,
        rival_lost: repeated(1),
        used: (0..3).map(bytes).sum::<f64>() * 8.0 / 60.0 / rate.as_f64(),
    }
}

/// Mean, least and greatest share over seeds, and the mean of the rest.
fn summary(bottleneck: Bottleneck, contender: Contender, rival: CongestionControl, seeds: u64) -> (Outcome, [f64; 2]) {
    let mut sum = Outcome::default();
    let mut range = [f64::MAX, 0.0f64];
    for seed in 1..=seeds {
        let got = run(bottleneck, contender, rival, seed);
        let each = 1.0 / seeds as f64;
        sum.share += got.share * each;
        sum.contender_lost += got.contender_lost * each;
        sum.rival_lost += got.rival_lost * each;
        sum.used += got.used * each;
        range = [range[0].min(got.share), range[1].max(got.share)];
    }
    (sum, range)
}

#[test]
fn explore() {
    let env = |name: &str, default: f64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (rate, round_trip) = (Rate::from_f64(env("MBIT", 20.0) * 1e6), Span::from_secs_f64(env("RTT", 40.0) / 1e3));
    let seeds = env("SEEDS", 4.0) as u64;
    let loss = env("LOSS", 0.0);
    let only = std::env::var("ONLY").ok();
    for rival in [CongestionControl::Cubic, CongestionControl::Bbr] {
        for contender in CONTENDERS {
            if only.as_ref().is_some_and(|only| !contender.name().contains(only.as_str())) {
                continue;
            }
            for buffer in BUFFERS {
                let (got, [least, most]) =
                    summary(Bottleneck { rate, round_trip, buffer, loss }, contender, rival, seeds);
                let mut out = String::new();
                write!(out, "{:20} beside {rival}, {buffer:4} BDP: ", contender.name()).unwrap();
                write!(out, "{:.2} ({least:.2}-{most:.2}), lost {:.2} %, ", got.share, got.contender_lost).unwrap();
                println!("{out}rival {:.2} %, used {:.1} %", got.rival_lost, got.used * 100.0);
            }
        }
    }
}
