//! The default method where the tight link is not the narrow link: two and three links in series, in either order.
//!
//! Packets sent back to back show the rate of the narrow link, but queues grow at the tight link, by the rate of that one. These
//! are paths beside constant traffic, by the method alone; random ones, also beside Poisson traffic, are a kind of the atlas
//! (`atlas.rs`).

use kumade_estimate::{Conditions, MethodSettings};
use kumade_link::{CrossConfig, CrossKind, LinkConfig};
use kumade_sim::{MethodRun, PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What is off by more than this part of the truth, with an interval that does not hold it, is wrong with confidence.
const TOLERANCE: f64 = 0.05;

/// A link and how much of it is left, both in Mbit/s.
#[derive(Debug, Clone, Copy)]
struct Leg {
    rate: f64,
    left: f64,
}

fn hop(leg: Leg, random: &mut Pcg64Mcg) -> PathHop {
    let link = LinkConfig {
        rate: Some(Rate::from_f64(leg.rate * 1e6)),
        queue_bytes: 400_000,
        delay: Span::from_micros(random.random_range(500..10_000)),
        seed: random.random(),
        ..LinkConfig::default()
    };
    let rate = Rate::from_f64((leg.rate - leg.left) * 1e6);
    let kind = CrossKind::Constant { rate, size: 1500 };
    let phase = random.random_range(0.0..1.0);
    PathHop { link, queue: None, cross: vec![CrossConfig { kind, start: Time::ZERO, phase, seed: random.random() }] }
}

fn run(legs: &[Leg], seed: u64) -> MethodRun {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let hops: Vec<PathHop> = legs.iter().map(|&leg| hop(leg, &mut random)).collect();
    let mut path = VirtualPath::new(&hops, Stamping::default(), seed).expect("a path that can be");
    path.wait(Span::from_millis(500));
    measure(&mut *MethodSettings::default().build(&Conditions { seed, ..Conditions::new(1500) }), &mut path)
}

/// A measured path.
struct Case {
    legs: Vec<Leg>,
    run: MethodRun,
}

impl Case {
    /// Error as a part of the truth, and whether the interval holds it; none without a value.
    fn result(&self) -> Option<(f64, bool)> {
        let found = self.run.outcome.available?;
        let truth = self.run.truth;
        Some((found.value.as_f64() / truth.as_f64() - 1.0, (found.low..=found.high).contains(&truth)))
    }

    /// The interval misses the truth by more than the tolerance.
    fn is_wrong(&self) -> bool {
        let truth = self.run.truth.as_f64();
        self.run.outcome.available.is_some_and(|found| {
            found.low.as_f64() > truth * (1.0 + TOLERANCE) || found.high.as_f64() < truth * (1.0 - TOLERANCE)
        })
    }
}

fn constant_paths() -> Vec<Vec<Leg>> {
    let pairs = [[(20.0, 20.0), (100.0, 10.0)], [(50.0, 50.0), (100.0, 20.0)], [(50.0, 50.0), (100.0, 40.0)]];
    let legs = pairs.map(|pair| pair.map(|(rate, left)| Leg { rate, left }));
    legs.iter().flat_map(|[narrow, tight]| [vec![*narrow, *tight], vec![*tight, *narrow]]).collect()
}

#[test]
fn the_tight_link_is_found_beside_constant_traffic_in_either_order() {
    let mut values = 0;
    for legs in constant_paths() {
        for seed in 0..6 {
            let case = Case { run: run(&legs, seed), legs: legs.clone() };
            assert!(!case.is_wrong(), "{:?}, seed {seed}: {:?}, not {}", case.legs, case.run.outcome, case.run.truth);
            values += usize::from(case.result().is_some_and(|(error, _)| error.abs() < TOLERANCE));
        }
    }
    assert!(values >= 28, "a value in {values} runs of 36");
}
