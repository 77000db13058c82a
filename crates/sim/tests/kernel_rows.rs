//! Paths of the kernel's shapers on which measurements were wrong with confidence, as the simulator forms them. What is wrong prints its seed.

use kumade_estimate::MethodSettings;
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Medium, PeriodLengths, SizeMix, TokenBucket};
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Transport;
use kumade_sim::PathHop;
use kumade_sim::atlas::{DrawnPath, PathKind, Seeds};
use kumade_units::{Rate, Span, Time};

/// An interval is wrong that misses the truth by more than this part of it, and by more than this part of its width on that side.
const MAX_MISS_RATIO: f64 = 0.05;
const MAX_MISS_PER_SIDE: f64 = 0.5;

/// A link of this rate, and what passes it besides.
fn hop(mbit: f64, cross: CrossKind, seed: u64) -> PathHop {
    let link = LinkConfig {
        rate: Some(Rate::from_f64(mbit * 1e6)),
        queue_bytes: 600_000,
        delay: Span::from_micros(300),
        seed,
        ..LinkConfig::default()
    };
    let phase = (seed % 97) as f64 / 97.0;
    PathHop { link, queue: None, cross: vec![CrossConfig { kind: cross, start: Time::ZERO, phase, seed }] }
}

/// These links in series, drawn again by the number.
fn path(hops: Vec<PathHop>, number: u32) -> DrawnPath {
    let drawn = DrawnPath::new(PathKind::TightLink, Seeds::Tuning.seed(number));
    let rate = |hop: &PathHop| hop.link.rate.unwrap_or_default();
    let narrow = hops.iter().map(rate).min().unwrap_or_default();
    DrawnPath { hops, sustained_rate: narrow, cross_rate: Rate::ZERO, cross_flows: 1, token_bucket: None, ..drawn }
}

/// Whether the report has a value; panics where it is wrong.
fn is_wrong(report: &DirectionReport, truth: Rate) -> bool {
    let truth = truth.as_f64();
    let bound = |bound: Option<Rate>, sign: f64| bound.is_some_and(|bound| sign * (bound.as_f64() / truth - 1.0) > MAX_MISS_RATIO);
    let Some(found) = report.available_bits_per_second else {
        return bound(report.at_least_bits_per_second, 1.0) || bound(report.at_most_bits_per_second, -1.0);
    };
    let [value, low, high] = [found.value, found.low, found.high].map(Rate::as_f64);
    let (miss, side) = if truth < low { (low - truth, value - low) } else { (truth - high, high - value) };
    miss > MAX_MISS_PER_SIDE * side && miss > MAX_MISS_RATIO * truth
}

/// Measures paths of these numbers, and prints what is wrong: how many are, have a value, and the median width as a part of the truth.
fn count_wrong(build: impl Fn(u32) -> Vec<PathHop>, numbers: std::ops::Range<u32>, transport: Transport) -> (u32, usize, f64) {
    let (mut wrong, mut widths) = (0, Vec::new());
    for number in numbers {
        let path = path(build(number), number);
        let measured = path.measure(transport, &MethodSettings::default()).expect("a path that can be measured");
        let truth = measured.truth.available;
        if let Some(found) = measured.report.available_bits_per_second {
            widths.push((found.high.as_f64() - found.low.as_f64()) / truth.as_f64());
        }
        if is_wrong(&measured.report, truth) {
            wrong += 1;
            println!("{transport} {number}: {truth} was available, {} {:?}", measured.report, measured.report.capacity.map(|c| c.to_string()));
        }
    }
    widths.sort_by(f64::total_cmp);
    (wrong, widths.len(), widths.get(widths.len() / 2).copied().unwrap_or(0.0))
}

/// 40 packets at a time, twice as fast as the link.
fn bursts(number: u32) -> Vec<PathHop> {
    let (link, part) = (90.0 - f64::from(number % 4) * 15.0, 0.3);
    let fast = Rate::from_f64(2.0 * link * 1e6);
    let on = fast.time_for(40 * 1500);
    let off = Span::from_secs_f64(on.as_secs_f64() * (2.0 / part - 1.0));
    vec![hop(link, CrossKind::OnOff { rate: fast, size: 1500, on, off, periods: PeriodLengths::Fixed }, number.into())]
}

fn on_off(number: u32) -> Vec<PathHop> {
    let (on, off) = (Span::from_millis(1600), Span::from_millis(2400));
    let link = 25.0 + f64::from(number % 3) * 20.0;
    let rate = Rate::from_f64(0.64 * link * 1e6);
    vec![hop(link, CrossKind::OnOff { rate, size: 1500, on, off, periods: PeriodLengths::Fixed }, number.into())]
}

fn tight(number: u32) -> Vec<PathHop> {
    let idle = CrossKind::Constant { rate: Rate::ZERO, size: 1500 };
    let rate = Rate::from_mbit(195);
    let cross = match number % 3 {
        0 => CrossKind::Jittered { rate, size: 1500, jitter: 0.05 },
        1 => CrossKind::Poisson { rate, sizes: SizeMix::fixed(1500) },
        _ => CrossKind::Constant { rate, size: 1500 },
    };
    let mut hops = vec![hop(60.0, idle, number.into()), hop(220.0, cross, u64::from(number) + 1)];
    if number % 2 == 1 {
        hops.reverse();
    }
    hops
}

fn small_bucket(number: u32) -> Vec<PathHop> {
    let rate = Rate::from_mbit(37);
    let cross = CrossKind::Poisson { rate: Rate::from_mbit(11), sizes: SizeMix::fixed(1500) };
    let mut hop = hop(5000.0, cross, number.into());
    hop.link.medium = Some(Medium::TokenBucket(TokenBucket { rate, burst_bytes: 3000 + u64::from(number % 5) * 1514 }));
    vec![hop]
}

#[test]
#[ignore = "explores"]
fn rows() {
    let numbers = || std::env::var("ROWS").ok().and_then(|rows| rows.parse().ok()).map_or(0..20, |rows: u32| 1000..1000 + rows);
    for transport in [Transport::Udp, Transport::Rake] {
        println!("{transport} bursts {:?}", count_wrong(bursts, numbers(), transport));
        println!("{transport} on-off {:?}", count_wrong(on_off, numbers(), transport));
        println!("{transport} tight {:?}", count_wrong(tight, numbers(), transport));
        println!("{transport} small bucket {:?}", count_wrong(small_bucket, numbers(), transport));
    }
}
