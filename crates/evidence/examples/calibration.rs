//! Coverage of the posterior's quantiles on simulated FIFO links whose cross traffic is constant, Poisson or in bursts: packets in, packets out, no
//! other part of the program.
//!
//! `cargo run --release -p kumade-evidence --example calibration -- [PATHS] [-v]`
use kumade_evidence::{Evidence, EvidenceCollector};
use kumade_probe_train::statistics::{mean, standard_deviation};
use kumade_probe_train::{PacketRecord, Segment, Train, TrainRecord};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cross {
    Constant,
    Poisson,
    Bursts(u32),
}

fn main() {
    let paths: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let is_verbose = std::env::args().any(|word| word == "-v");
    for cross in [Cross::Constant, Cross::Poisson, Cross::Bursts(8), Cross::Bursts(40)] {
        let mut deviations: Vec<f64> = Vec::new();
        let (mut covered, mut leading, mut widths, mut bias, mut time) = ([0; 3], 0, 0.0, 0.0, 0.0);
        for seed in 0..paths {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let capacity = 2e6 * 150f64.powf(random.random_range(0.0..1.0));
            let load = random.random_range(0.05..0.8);
            let (collector, truth) = simulate(capacity, load, cross, &mut random);
            #[expect(clippy::disallowed_methods, reason = "it prints what an evaluation costs")]
            let started = Instant::now();
            let Some(found) = collector.evidence() else { continue };
            time += started.elapsed().as_secs_f64();
            for (count, is_inside) in covered.iter_mut().zip(found.quantiles.cover(truth)) {
                *count += i32::from(is_inside);
            }
            leading += i32::from(found.models[0].name == "fifo");
            widths += (found.quantiles.0[6] - found.quantiles.0[0]) / truth;
            bias += (found.quantiles.median() - truth) / truth;
            deviations
                .push((truth - found.quantiles.median()) / ((found.quantiles.0[5] - found.quantiles.0[1]) / 2.563));
            if is_verbose {
                print_path(seed, capacity, truth, &found);
            }
        }
        let n = paths as f64;
        println!(
            "{cross:?}: covered {:?} of {paths}, fifo leads {leading}, mean width {:.3}, bias {:+.4}, deviations {:+.2} ± {:.2}, {:.1} ms an evaluation",
            covered,
            widths / n,
            bias / n,
            mean(&deviations),
            standard_deviation(&deviations),
            time / n * 1e3
        );
    }
}

fn print_path(seed: u64, capacity: f64, truth: f64, found: &Evidence) {
    let q = found.quantiles.0.map(|rate| (rate / 1e4).round() / 100.0);
    println!(
        "  {seed}: {:.2} Mbit/s, truth {:.3}: {q:?} fit {:.3} trains {} worth {:.1}",
        capacity / 1e6,
        truth / 1e6,
        found.fit_probability,
        found.trains,
        found.effective_trains
    );
    let masses: Vec<String> = found.models.iter().map(|m| format!("{} {:.3}", m.name, m.mass)).collect();
    println!("     {} by {:?}", masses.join(", "), found.decided_by);
}

/// The trains of a measurement, and what cross traffic left from the first to the last.
fn simulate(capacity: f64, load: f64, cross: Cross, random: &mut Pcg64Mcg) -> (EvidenceCollector, f64) {
    let available = capacity * (1.0 - load);
    let trains = random.random_range(9..30);
    let gap = random.random_range(0.02..0.06);
    let mut arrivals = cross_arrivals(capacity, load, cross, 0.5 + f64::from(trains) * (gap + 0.2), random);
    let (mut now, mut queue_free) = (0.3, 0.0);
    let mut collector = EvidenceCollector::default();
    let mut served = arrivals.drain(..).peekable();
    let (mut start, mut end, mut cross_bits) = (0.0, 0.0, 0.0);
    for number in 0..trains {
        let rate = available * random.random_range(1.01..1.07) * if number == 0 { 1.3 } else { 1.0 };
        let plan = plan_train(rate, capacity);
        let mut packets = Vec::new();
        if number == 0 {
            start = now;
        }
        for planned in plan.packets() {
            let sent = now + planned.offset.as_secs_f64() + 5e-6 * packets.len().min(8) as f64;
            while let Some((at, bits)) = served.next_if(|(at, _)| *at <= sent) {
                queue_free = f64::max(queue_free, at) + bits / capacity;
                if at > start && start > 0.0 {
                    cross_bits += bits;
                }
            }
            queue_free = f64::max(queue_free, sent) + f64::from(planned.size) * 8.0 / capacity;
            let arrived = queue_free + 5e-3 + random.random_range(0.0..3e-6);
            let stamp = |seconds: f64| Some(Time::ZERO + Span::from_secs_f64(seconds));
            packets.push(PacketRecord {
                size: planned.size,
                sent: stamp(sent),
                submitted: None,
                received: stamp(arrived),
            });
            end = sent;
        }
        collector.add_train(&TrainRecord { packets }, &plan);
        now = end + f64::max(gap, 2.0 * (queue_free - end));
    }
    (collector, capacity - cross_bits / (end - start))
}

fn plan_train(rate: f64, capacity: f64) -> Train {
    let size = ((rate * 0.006 / 8.0).max(300.0) as u32).min(1500);
    let interval = f64::from(size) * 8.0 / rate;
    let body = (0.0035 / interval).clamp(30.0, 120.0) as u32;
    let prime = ((0.020 / (f64::from(size) * 8.0 / capacity)).max(4.0) as u32).clamp(2, 8);
    let segment = |count, interval| Segment { count, interval, first_size: size, size_step: 0 };
    Train { segments: vec![segment(prime - 1, Span::ZERO), segment(body, Span::from_secs_f64(interval))] }
}

/// When cross traffic arrives, and how many bits at once.
fn cross_arrivals(capacity: f64, load: f64, cross: Cross, until: f64, random: &mut Pcg64Mcg) -> Vec<(f64, f64)> {
    let packets = if let Cross::Bursts(packets) = cross { packets } else { 1 };
    let bits = f64::from(packets) * 12_000.0;
    let interval = bits / (load * capacity);
    let mut at = interval * random.random_range(0.0..1.0);
    let mut found = Vec::new();
    while at < until {
        found.push((at, bits));
        at += match cross {
            Cross::Constant => interval,
            _ => -interval * (1.0 - random.random_range(0.0..1.0f64)).ln(),
        };
    }
    found
}
