use kumade_sketch::{LostIn, Outcome, Sample};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A path whose route changes now and then, with log-normal variation, queues in working hours, losses, and an exclusive run every
/// six hours.
pub struct PathModel {
    random: Pcg64Mcg,
    base_nanos: [f64; 2],
    kind: &'static Kind,
}

/// What a path is like.
struct Kind {
    /// Median of the delay above the route's least, and the spread of its logarithm.
    variation_nanos: f64,
    sigma: f64,
    /// Part of the probes that meet a queue in working hours, and how long it is on average.
    queue_ratio: f64,
    queue_nanos: f64,
}

const WIRED: Kind = Kind { variation_nanos: 40e3, sigma: 0.4, queue_ratio: 0.05, queue_nanos: 300e3 };
const INTERNET: Kind = Kind { variation_nanos: 150e3, sigma: 0.6, queue_ratio: 0.2, queue_nanos: 800e3 };
const ACCESS_LINE: Kind = Kind { variation_nanos: 600e3, sigma: 0.7, queue_ratio: 0.3, queue_nanos: 5e6 };

/// Of four pairs two are between well-connected sites.
const KINDS: [&Kind; 4] = [&WIRED, &INTERNET, &WIRED, &ACCESS_LINE];

const LOSS_RATIO: f64 = 0.001;
/// A route lasts about three days.
const ROUTE_SECONDS: f64 = 3.0 * 86_400.0;
/// A real document of this version, over the loopback interface.
const DOCUMENT: &str = include_str!("../../src/document_dictionary.json");

impl PathModel {
    pub fn new(seed: u64) -> Self {
        let kind = KINDS[seed as usize % KINDS.len()];
        let mut model = PathModel { random: Pcg64Mcg::seed_from_u64(seed), base_nanos: [0.0; 2], kind };
        model.change_route();
        model
    }

    /// A probe a second on average, by Poisson times.
    pub fn probes(&mut self, from: Time, seconds: i64) -> Vec<Sample> {
        let mut at = 0.0;
        let mut probes = Vec::with_capacity(seconds as usize + 100);
        loop {
            at += self.exponential();
            if at >= seconds as f64 {
                return probes;
            }
            if self.random.random::<f64>() < 1.0 / ROUTE_SECONDS {
                self.change_route();
            }
            let sent = from + Span::from_secs_f64(at);
            let outcome = if self.random.random::<f64>() < LOSS_RATIO {
                Outcome::Lost([LostIn::Up, LostIn::Down, LostIn::EitherWay][self.random.random_range(0..3)])
            } else {
                Outcome::Answered { up: self.delay(0, sent), down: self.delay(1, sent) }
            };
            let in_run = sent.as_secs_f64() % 21_600.0 < 8.0;
            probes.push(Sample { disturbed: in_run, ..Sample::new(sent, outcome) });
        }
    }

    /// A run's document with other digits each time.
    pub fn document(&mut self) -> String {
        let other =
            |c: char| if matches!(c, '1'..='9') { char::from(b'0' + self.random.random_range(1..=9)) } else { c };
        let (head, numbers) = DOCUMENT.split_once("\"up\"").expect("a document has a direction");
        // Words that have digits in them stay.
        let numbers: String = numbers.chars().map(other).collect();
        format!("{head}\"up\"{numbers}")
    }

    fn delay(&mut self, lane: usize, sent: Time) -> Span {
        let hour = sent.as_secs_f64() / 3600.0 % 24.0;
        let busy = (0.0f64).max(((hour - 6.0) / 12.0 * std::f64::consts::PI).sin());
        let kind = self.kind;
        let variation = kind.variation_nanos * (kind.sigma * self.normal()).exp();
        let waits = self.random.random::<f64>() < busy * kind.queue_ratio;
        let queue = if waits { kind.queue_nanos * busy * self.exponential() } else { 0.0 };
        Span::from_nanos((self.base_nanos[lane] + variation + queue) as i64)
    }

    fn change_route(&mut self) {
        let base = self.random.random_range(1e6..80e6);
        self.base_nanos = [base, base + self.random.random_range(-0.5e6..0.5e6)];
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.random.random::<f64>()).ln()
    }

    fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.random.random::<f64>()).cos()
    }
}
