//! Paths that are measured now and then, with noise, over days of virtual time.

use kumade_multipath::measured::{MeasuredPaths, PathMeasurement, ScheduleConfig, rates_to_ratio};
use kumade_multipath::{Bond, BondConfig, PathConfig, PathId, PathPolicy};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const HOUR: i64 = 3600;
/// How long a measurement takes.
const DURATION: i64 = 3;

/// Paths as they are, which may change.
struct Trial {
    paths: MeasuredPaths,
    random: Pcg64Mcg,
    /// Standard deviation of measurements.
    noise: f64,
    second: i64,
    /// When the weights changed.
    changes: Vec<i64>,
    bytes: Vec<u64>,
    measurements: usize,
}

impl Trial {
    fn new(paths: usize, noise: f64, seed: u64) -> Self {
        let config = ScheduleConfig { seed, ..ScheduleConfig::default() };
        Trial {
            paths: MeasuredPaths::new(config, paths, Time::ZERO),
            random: Pcg64Mcg::seed_from_u64(seed),
            noise,
            second: 0,
            changes: Vec::new(),
            bytes: vec![0; paths],
            measurements: 0,
        }
    }

    /// Rates in bits per second.
    fn run(&mut self, rates: &[f64], delays: &[Span], until: i64) {
        let idle = vec![Rate::ZERO; rates.len()];
        while self.second < until {
            self.second += 1;
            let Some(path) = self.paths.start_measurement(&idle, self.now()) else { continue };
            self.second += DURATION;
            assert_eq!(self.paths.start_measurement(&idle, self.now()), None, "one at a time");
            let measured = self.measure(rates[path], delays[path]);
            self.bytes[path] += measured.cost_bytes;
            self.measurements += 1;
            if self.paths.record_measurement(path, &measured, self.now()) {
                self.changes.push(self.second);
            }
        }
    }

    fn measure(&mut self, rate: f64, delay: Span) -> PathMeasurement {
        // About normal: the sum of twelve uniform variates has variance 1.
        let normal = (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0;
        let value = rate * (1.0 + self.noise * normal);
        let [value, low, high] =
            [value, value - 2.0 * self.noise * rate, value + 2.0 * self.noise * rate].map(Rate::from_f64);
        let available = Estimate { value, low, high, confidence: 0.95 };
        let bytes = 100_000 + (rate * 0.1 / 8.0) as u64;
        PathMeasurement { available, own_traffic: Rate::ZERO, delay: Some(delay), cost_bytes: bytes }
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from_secs(self.second)
    }

    /// What the paths carry at these weights, against the best that any ratio makes of them.
    fn share(&self, rates: &[f64]) -> f64 {
        let carried = |weights: &[u32]| {
            let used = rates.iter().zip(weights).filter(|(_, weight)| **weight > 0);
            let least = used.map(|(rate, weight)| rate / f64::from(*weight)).fold(f64::MAX, f64::min);
            least * f64::from(weights.iter().sum::<u32>())
        };
        carried(self.paths.weights().unwrap()) / carried(&rates_to_ratio(rates))
    }
}

fn draw(random: &mut Pcg64Mcg) -> f64 {
    2e6 * 100f64.powf(random.random::<f64>())
}

const ALIKE: [Span; 2] = [Span::from_millis(10), Span::from_millis(12)];

#[test]
fn weights_settle_within_minutes_and_do_not_follow_noise() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for (noise, max_changes, min_share) in [(0.02, 0, 0.9), (0.05, 6, 0.85), (0.10, 30, 0.7)] {
        for seed in 0..20 {
            let rates = [draw(&mut random), draw(&mut random)];
            let mut trial = Trial::new(2, noise, seed);
            trial.run(&rates, &ALIKE, 60);
            assert_eq!(trial.changes.len(), 1, "each path is measured at once");
            trial.run(&rates, &ALIKE, 24 * HOUR);
            let (changes, share) = (trial.changes.len() - 1, trial.share(&rates));
            assert!(changes <= max_changes, "noise {noise}, seed {seed}: {changes} of {}", trial.measurements);
            assert!(share > min_share, "noise {noise}, seed {seed}, {rates:?}: {share}");
        }
    }
}

#[test]
fn a_lasting_change_is_followed_within_ten_minutes() {
    for seed in 0..20 {
        let mut trial = Trial::new(2, 0.03, seed);
        trial.run(&[100e6, 100e6], &ALIKE, 2 * HOUR);
        assert!(trial.share(&[100e6, 100e6]) > 0.9, "seed {seed}: {:?}", trial.paths.weights());
        let (from, before) = (trial.second, trial.changes.len());
        trial.run(&[100e6, 25e6], &ALIKE, from + 600);
        assert!(trial.share(&[100e6, 25e6]) > 0.9, "seed {seed}: {:?}", trial.paths.weights());
        let changes = trial.changes.len() - before;
        assert!(changes == 1, "seed {seed}: {changes}");
    }
}

#[test]
fn measurements_cost_no_more_than_their_share_of_each_path() {
    for rate in [500e3, 2e6, 20e6, 200e6] {
        let mut trial = Trial::new(2, 0.2, 1);
        trial.run(&[rate, rate * 2.0], &ALIKE, 48 * HOUR);
        for (bytes, rate) in trial.bytes.iter().zip([rate, rate * 2.0]) {
            let share = *bytes as f64 * 8.0 / rate / (48 * HOUR) as f64;
            // Measured rates are high at times; then the share of the true rate is more.
            assert!(share < 0.011, "{rate}: {share}");
        }
    }
}

#[test]
fn paths_whose_delays_differ_are_not_used_together() {
    let millis = |one, other| [Span::from_millis(one), Span::from_millis(other)];
    let weights = |rates: [f64; 2], delays: [Span; 2]| {
        let mut trial = Trial::new(2, 0.0, 1);
        trial.run(&rates, &delays, HOUR);
        trial.paths.weights().unwrap().to_vec()
    };
    assert_eq!(weights([8e6, 8e6], millis(1, 26)), [1, 0]);
    assert_eq!(weights([8e6, 1.5e6], millis(10, 50)), [1, 0]);
    assert_eq!(weights([8e6, 32e6], millis(10, 50)), [0, 1], "the better one");
    assert_eq!(weights([8e6, 8e6], millis(100, 50)), [0, 1], "the shorter one");
    assert_eq!(weights([8e6, 8e6], millis(60, 50)), [1, 1]);
    // One in use stays until its delay differs clearly.
    let mut trial = Trial::new(2, 0.0, 1);
    for (other, weights) in [(14, [1, 1]), (16, [1, 1]), (18, [1, 0]), (16, [1, 0]), (14, [1, 1])] {
        let until = trial.second + HOUR;
        trial.run(&[8e6, 8e6], &millis(10, other), until);
        assert_eq!(trial.paths.weights(), Some(&weights[..]), "{other} ms");
    }
}

#[test]
fn what_was_measured_replaces_a_belief_that_differs_clearly() {
    let config = BondConfig {
        policy: PathPolicy::EarliestArrival,
        queue: BondConfig::managed_queue(),
        paths: vec![PathConfig::default(); 2],
        seed: 1,
    };
    let mut bond = Bond::<()>::new(&config, Time::ZERO).unwrap();
    let [one, other] = [0, 1].map(|number| PathId::new(number).unwrap());
    let rate = |bond: &Bond<()>, path| bond.status(path).unwrap().rate;
    let unknown = rate(&bond, other);
    for (measured, believed) in [(50, 50), (52, 50), (46, 50), (40, 40)] {
        bond.suggest_rate(one, Rate::from_mbit(measured), Time::ZERO);
        assert_eq!(rate(&bond, one), Rate::from_mbit(believed));
    }
    bond.suggest_rate(PathId::new(2).unwrap(), Rate::from_mbit(9), Time::ZERO);
    assert_eq!(rate(&bond, other), unknown);
}
