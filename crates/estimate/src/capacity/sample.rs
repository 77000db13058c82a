//! Bursts of one shape, and those of them that nothing delayed.

use super::burst::Burst;
use super::plan::Shape;
use crate::fit::lower_hull;
use crate::stats::{mean, quantile, random};
use std::collections::{BTreeMap, BTreeSet};

/// Stamps of one burst are good to this, in seconds.
pub(super) const STAMPS: f64 = 3e-6;
/// Sums of delays that differ by less than this part of the dispersion count as equal.
const EQUAL: f64 = 0.01;
/// Packets of a burst come in steps that differ by less than this part, or by the stamps, if nothing gets between them.
const EVEN: f64 = 0.05;
/// One in so many bursts is even, if evenness means anything on the path.
const SOME: usize = 4;
/// A burst that took so many times as long as those that nothing delayed, or so small a part, was held up by a machine.
const HELD_UP: f64 = 2.5;
/// No clock runs faster or slower than another by more.
const MOST_SKEW: f64 = 200e-6;
/// Delays so many times the interquartile range below the first quartile were not on the path.
const FAR: f64 = 3.0;
/// So many bursts of a shape do even where most were delayed.
const MANY: usize = 8;

/// One shape's bursts, with what the clocks gained removed.
pub(super) struct Sample {
    pub(super) shape: Shape,
    pub(super) bursts: Vec<Burst>,
}

/// Bursts by their shape; shapes of which there is only one burst are left out.
pub(super) fn samples(bursts: &[Burst]) -> Vec<Sample> {
    let bursts = without_late_stamps(bursts);
    let skew = skew(&bursts);
    let mut shapes: BTreeMap<Shape, Vec<Burst>> = BTreeMap::new();
    for burst in bursts {
        let gained = skew * burst.sent;
        let burst =
            Burst { head: burst.head - gained, first: burst.first - gained, last: burst.last - gained, ..burst };
        shapes.entry(burst.shape).or_default().push(burst);
    }
    shapes.into_iter().filter(|(_, bursts)| bursts.len() >= 2).map(|(shape, bursts)| Sample { shape, bursts }).collect()
}

/// Without those whose first packet seems to have come far sooner than any other: it was sent when the path was as it was for
/// the others, and stamped late by a machine that stalled.
fn without_late_stamps(bursts: &[Burst]) -> Vec<Burst> {
    let of_size = |size| bursts.iter().filter(move |burst| burst.shape.size == size);
    let earliest = |size| {
        let heads: Vec<f64> = of_size(size).map(|burst| burst.head).collect();
        let [low, high] = [0.25, 0.75].map(|part| quantile(&heads, part).unwrap_or(f64::NEG_INFINITY));
        low - FAR * (high - low) - STAMPS
    };
    let sizes: BTreeSet<u32> = bursts.iter().map(|burst| burst.shape.size).collect();
    let kept = |size| {
        let earliest = earliest(size);
        of_size(size).filter(move |burst| burst.head >= earliest).copied()
    };
    sizes.into_iter().flat_map(kept).collect()
}

/// How much faster the receiver's clock runs: the slope, in the middle of the time, of the line below all first packets'
/// delays (Moon, Skelly, Towsley).
fn skew(bursts: &[Burst]) -> f64 {
    let Some(largest) = bursts.iter().map(|burst| burst.shape.size).max() else { return 0.0 };
    let firsts = bursts.iter().filter(|burst| burst.shape.size == largest);
    let mut points: Vec<(f64, f64)> = firsts.map(|burst| (burst.sent, burst.head)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by_key(|point| point.0);
    let ([first, .., last], hull) = (&points[..], lower_hull(points.iter().copied())) else { return 0.0 };
    let middle = (first.0 + last.0) / 2.0;
    let spanning = hull.windows(2).find(|pair| pair[1].0 >= middle && pair[1].0 > pair[0].0);
    let slope = spanning.map_or(0.0, |pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
    slope.clamp(-MOST_SKEW, MOST_SKEW)
}

/// As many of the bursts, chosen at random.
pub(super) fn resampled(bursts: &[Burst], state: &mut u64) -> Vec<Burst> {
    (0..bursts.len()).map(|_| bursts[(random(state) * bursts.len() as f64) as usize]).collect()
}

/// Means over the bursts that nothing delayed, in seconds.
pub(super) struct Undelayed {
    /// In bit/s.
    pub(super) rate: f64,
    pub(super) dispersion: f64,
    /// Of the first packet.
    pub(super) delay: f64,
    /// From the sending of the packet from which dispersion counts to the last.
    pub(super) sending: f64,
}

impl Undelayed {
    pub(super) fn of(bursts: &[Burst]) -> Self {
        let undelayed = undelayed(bursts);
        let mean_of = |of: fn(&Burst) -> f64| mean(&undelayed.iter().map(of).collect::<Vec<_>>());
        let dispersion = mean_of(Burst::dispersion).max(1e-9);
        Undelayed {
            rate: mean_of(|burst| burst.bits) / dispersion,
            dispersion,
            delay: mean_of(|burst| burst.head),
            sending: mean_of(|burst| burst.sending),
        }
    }
}

/// Those with the least sum of the first and last packets' delays: what remains may differ by the stamps. Of the even ones,
/// if there are some.
pub(super) fn undelayed(bursts: &[Burst]) -> Vec<Burst> {
    let even = bursts.iter().filter(|burst| burst.is_even()).count() * SOME >= bursts.len();
    let candidates = || bursts.iter().filter(|burst| burst.is_even() || !even);
    let sum = |burst: &Burst| burst.first + burst.last;
    let Some(least) = candidates().min_by(|a, b| sum(a).total_cmp(&sum(b))) else { return Vec::new() };
    let most = sum(least) + STAMPS.max(EQUAL * least.dispersion());
    candidates().filter(|burst| sum(burst) <= most).copied().collect()
}

impl Burst {
    /// Whether its packets came in steps as equal as if nothing had got between them.
    pub(super) fn is_even(&self) -> bool {
        self.unevenness < STAMPS.max(EVEN * self.dispersion() / f64::from(self.gaps))
    }
}

impl Sample {
    /// Whether there are many bursts, or most of them were as long as those that were undelayed.
    pub(super) fn settled(&self) -> bool {
        let dispersions: Vec<f64> = undelayed(&self.bursts).iter().map(Burst::dispersion).collect();
        let dispersion = mean(&dispersions);
        let equal = |burst: &&Burst| (burst.dispersion() - dispersion).abs() < STAMPS.max(EQUAL * dispersion);
        self.bursts.len() >= MANY || self.bursts.iter().filter(equal).count() * 3 >= self.bursts.len() * 2
    }

    /// Without those that a machine held up for long.
    pub(super) fn plausible(&self) -> impl Iterator<Item = Burst> {
        let usual = Undelayed::of(&self.bursts).dispersion;
        self.bursts
            .iter()
            .filter(move |burst| (usual / HELD_UP..usual * HELD_UP).contains(&burst.dispersion()))
            .copied()
    }
}
