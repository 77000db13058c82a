//! Simulation-based calibration (Talts et al.: Validating Bayesian Inference Algorithms with Simulation-Based Calibration, 2018): on paths drawn from
//! a model's own prior, with trains drawn from its own likelihood, the posterior's rank of the truth is uniform.

use crate::grid::integrate;
use crate::model::{PathModel, Silence, Tells};
use crate::models::MODELS;
use crate::observations::{Fact, Observation, Observations};
use crate::posterior::ln_likelihood;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const CAPACITY: f64 = 50e6;
const PATHS: usize = 120;
const TRAINS: usize = 12;

fn empty() -> Observations {
    Observations {
        segments: Vec::new(),
        crude_capacity: CAPACITY,
        quick_rate: None,
        idle_wait: None,
        loss_fraction: 0.0,
        watched_fraction: 0.0,
        window: 1.0,
        fastest_arrival: CAPACITY,
        bodies: TRAINS,
        effective_bodies: TRAINS as f64,
    }
}

fn segment(fact: Fact, bits: f64, duration: f64) -> Observation {
    Observation {
        fact,
        bits,
        duration,
        growth: 0.0,
        idle: 0.0,
        first_wait: 1e-3,
        host_variance: 1e-11,
        is_behind_head: true,
        weight: 1.0,
    }
}

fn normal(random: &mut Pcg64Mcg) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random_range(0.0..1.0), random.random_range(0.0..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The segment as the model may have it.
fn drawn(model: &dyn PathModel, parameters: &[f64], planned: Observation, random: &mut Pcg64Mcg) -> Observation {
    let expected = model.expect(parameters, &planned);
    let (growth, variance) = match expected.silence {
        Some(Silence { probability, growth }) if random.random_bool(probability.clamp(0.0, 1.0)) => (growth, 0.0),
        Some(silence) => expected.beside_silence(&silence),
        None => (expected.growth, expected.variance),
    };
    let scale = (variance + planned.host_variance).sqrt();
    Observation { growth: growth + scale * normal(random), ..planned }
}

fn told_rate(model: &dyn PathModel, parameters: &[f64], seen: &Observations) -> f64 {
    match model.tell(parameters, seen) {
        Tells::Available(rate) | Tells::Share(rate) | Tells::AtMost(rate) => rate,
    }
}

/// The posterior probability of less than the truth.
fn rank(model: &dyn PathModel, random: &mut Pcg64Mcg) -> f64 {
    let mut seen = empty();
    let truth: Vec<f64> = model.axes(&seen).iter().map(|axis| axis.quantile(random.random_range(0.0..1.0))).collect();
    let rate = told_rate(model, &truth, &seen);
    for _ in 0..TRAINS {
        let head = segment(Fact::Dispersion, 84_000.0, 35e-6);
        let bits = 40.0 * 12_000.0;
        // The rates must not follow from the truth: that would tell of it.
        let body = segment(Fact::Growth, bits, bits / (CAPACITY * random.random_range(0.1..1.4)));
        for planned in [head, body] {
            seen.segments.push(drawn(model, &truth, planned, random));
        }
    }
    let found = integrate(model.axes(&seen), |parameters, extra| ln_likelihood(model, parameters, &seen, extra));
    let highest = found.points.iter().map(|p| p.ln_likelihood).fold(f64::NEG_INFINITY, f64::max);
    let (mut below, mut total) = (0.0, 0.0);
    for point in &found.points {
        let weight = (point.ln_likelihood - highest).exp();
        total += weight;
        // Places of a grid are some apart: half of what lies at the truth is below.
        let told = told_rate(model, &point.parameters, &seen);
        below += weight * if told < rate { 1.0 } else { 0.0 };
    }
    below / total
}

#[test]
fn on_its_own_paths_each_model_ranks_the_truth_evenly() {
    for model in MODELS.iter().filter(|model| !["other", "idle"].contains(&model.name())) {
        let mut random = Pcg64Mcg::seed_from_u64(46);
        let ranks: Vec<f64> = (0..PATHS).map(|_| rank(*model, &mut random)).collect();
        let n = PATHS as f64;
        let inside = |nominal: f64| ranks.iter().filter(|rank| (**rank - 0.5).abs() < nominal / 2.0).count() as f64 / n;
        println!("{}: {:?} inside of 0.5, 0.8, 0.95", model.name(), [0.5, 0.8, 0.95].map(inside));
        let mean = ranks.iter().sum::<f64>() / n;
        // Three standard deviations of a mean of uniform numbers, and of a count.
        assert!((mean - 0.5).abs() < 3.0 * (1.0 / 12.0 / n).sqrt() + 0.03, "{}: mean rank {mean}", model.name());
        for nominal in [0.5, 0.8, 0.95] {
            let inside = inside(nominal);
            let room = 3.0 * (nominal * (1.0 - nominal) / n).sqrt() + 0.03;
            assert!((inside - nominal).abs() < room, "{}: {inside} inside of {nominal}", model.name());
        }
    }
}
