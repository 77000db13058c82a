//! Bursts of one shape, and those of them that were not delayed.

use super::burst::BurstSample;
use super::shape::BurstShape;
use crate::stats::{mean, quantile, random};
use kumade_probe_train::fit::lower_hull;
use std::collections::{BTreeMap, BTreeSet};

/// Replicates of the bootstrap.
pub(super) const REPLICATES: usize = 200;
/// The accuracy of time stamps within a burst.
pub(super) const STAMP_SCATTER_SECONDS: f64 = 3e-6;
/// Sums of delays that differ by less than this part of the dispersion count as equal.
const MAX_EQUAL_DIFFERENCE_PART: f64 = 0.01;
/// Packets of a burst arrive at intervals that differ by less than this part, or by the accuracy of the stamps, if no
/// other packets get between them.
const MAX_EVEN_DIFFERENCE_PART: f64 = 0.05;
/// A burst that arrived in less than this part of the time in which it was sent had been held back by the receiving host.
pub(super) const MIN_DISPERSION_RATIO: f64 = 0.8;
/// Evenness is a criterion where at least one in this many bursts is even.
const MAX_BURSTS_PER_EVEN_ONE: usize = 4;
/// A burst whose dispersion differs by more than this factor from that of undelayed ones was held back by a host.
const MAX_DISPERSION_RATIO: f64 = 2.5;
/// The maximum skew between two clocks.
const MAX_SKEW_RATIO: f64 = 200e-6;
/// Delays this many interquartile ranges below the first quartile are errors of the stamps.
const OUTLIER_QUARTILE_RANGES: f64 = 3.0;
/// At most one in this many bursts is stamped late.
const MIN_BURSTS_PER_LATE_ONE: usize = 12;
/// This many bursts of a shape suffice even where most were delayed.
const MIN_SETTLED_BURSTS: usize = 8;

/// One shape's bursts, with what the clocks gained removed.
pub(super) struct SizeSample {
    pub(super) shape: BurstShape,
    pub(super) bursts: Vec<BurstSample>,
    pub(super) undelayed: UndelayedBursts,
}

/// Bursts by their shape; shapes of which there is only one burst are left out.
pub(super) fn samples(bursts: &[BurstSample]) -> Vec<SizeSample> {
    let bursts = without_late_stamps(bursts);
    let skew = skew(&bursts);
    let mut shapes: BTreeMap<BurstShape, Vec<BurstSample>> = BTreeMap::new();
    for burst in bursts {
        let gained = skew * burst.sent;
        let burst = BurstSample {
            first_packet_delay: burst.first_packet_delay - gained,
            dispersion_start: burst.dispersion_start - gained,
            last_packet_delay: burst.last_packet_delay - gained,
            ..burst
        };
        shapes.entry(burst.shape).or_default().push(burst);
    }
    let sample = |(shape, bursts): (BurstShape, Vec<BurstSample>)| {
        (bursts.len() >= 2).then(|| SizeSample { shape, undelayed: UndelayedBursts::select(&bursts), bursts })
    };
    shapes.into_iter().filter_map(sample).collect()
}

/// Without the few whose first packet seems to have arrived far sooner than nearly all: a host scheduling delay of the
/// sender, which stamped it late.
fn without_late_stamps(bursts: &[BurstSample]) -> Vec<BurstSample> {
    let sizes: BTreeSet<u32> = bursts.iter().map(|burst| burst.shape.size).collect();
    let kept = |size| {
        let of_size = || bursts.iter().filter(move |burst| burst.shape.size == size);
        let heads: Vec<f64> = of_size().map(|burst| burst.first_packet_delay).collect();
        let [low, high] = [0.25, 0.75].map(|part| quantile(&heads, part).unwrap_or(f64::NEG_INFINITY));
        let earliest = low - OUTLIER_QUARTILE_RANGES * (high - low) - STAMP_SCATTER_SECONDS;
        // More than a few: the path is that fast, and mostly filled by cross traffic.
        let few = of_size().filter(|burst| burst.first_packet_delay < earliest).count() * MIN_BURSTS_PER_LATE_ONE
            <= heads.len();
        of_size().filter(move |burst| !few || burst.first_packet_delay >= earliest).copied()
    };
    sizes.into_iter().flat_map(kept).collect()
}

/// How much faster the receiver's clock runs: the slope, in the middle of the time, of the line below all first packets'
/// delays (Moon, Skelly, Towsley).
fn skew(bursts: &[BurstSample]) -> f64 {
    let Some(largest) = bursts.iter().map(|burst| burst.shape.size).max() else { return 0.0 };
    let firsts = bursts.iter().filter(|burst| burst.shape.size == largest);
    let mut points: Vec<(f64, f64)> = firsts.map(|burst| (burst.sent, burst.first_packet_delay)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by_key(|point| point.0);
    let ([first, .., last], hull) = (&points[..], lower_hull(points.iter().copied())) else { return 0.0 };
    let middle = (first.0 + last.0) / 2.0;
    let spanning = hull.windows(2).find(|pair| pair[1].0 >= middle && pair[1].0 > pair[0].0);
    let slope = spanning.map_or(0.0, |pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
    slope.clamp(-MAX_SKEW_RATIO, MAX_SKEW_RATIO)
}

/// As many of the bursts, chosen at random.
pub(super) fn resample(bursts: &[BurstSample], state: &mut u64) -> Vec<BurstSample> {
    (0..bursts.len()).map(|_| bursts[(random(state) * bursts.len() as f64) as usize]).collect()
}

/// Means over the bursts that nothing delayed, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct UndelayedBursts {
    /// In bit/s.
    pub(super) rate: f64,
    pub(super) dispersion: f64,
    /// Of the first packet.
    pub(super) delay: f64,
    /// From the sending of the packet from which dispersion counts to the last.
    pub(super) input_dispersion: f64,
    /// Whether all their packets arrived at even intervals.
    pub(super) is_even: bool,
}

impl UndelayedBursts {
    pub(super) fn select(bursts: &[BurstSample]) -> Self {
        let undelayed = undelayed_bursts(bursts);
        let mean_of = |of: fn(&BurstSample) -> f64| mean(&undelayed.iter().map(of).collect::<Vec<_>>());
        let dispersion = mean_of(BurstSample::dispersion).max(1e-9);
        UndelayedBursts {
            rate: mean_of(|burst| burst.bits) / dispersion,
            dispersion,
            delay: mean_of(|burst| burst.first_packet_delay),
            input_dispersion: mean_of(|burst| burst.input_dispersion),
            is_even: undelayed.iter().all(is_even),
        }
    }
}

/// Those whose packets arrived at even intervals, or all where that is rare; and of these the ones with the least sum of
/// the first and last packets' delays, to within the accuracy of the stamps.
fn undelayed_bursts(bursts: &[BurstSample]) -> Vec<BurstSample> {
    let even = bursts.iter().filter(|burst| is_even(burst)).count() * MAX_BURSTS_PER_EVEN_ONE >= bursts.len();
    let candidates = || bursts.iter().filter(|burst| is_even(burst) || !even);
    let sum = |burst: &BurstSample| burst.dispersion_start + burst.last_packet_delay;
    let Some(least) = candidates().min_by(|a, b| sum(a).total_cmp(&sum(b))) else { return Vec::new() };
    let most = sum(least) + STAMP_SCATTER_SECONDS.max(MAX_EQUAL_DIFFERENCE_PART * least.dispersion());
    candidates().filter(|burst| sum(burst) <= most).copied().collect()
}

/// Whether packets arrived at intervals as even as without cross traffic, and not closer together than they were sent, as
/// they do when the receiving host was idle.
fn is_even(burst: &BurstSample) -> bool {
    let even = burst.unevenness
        < STAMP_SCATTER_SECONDS.max(MAX_EVEN_DIFFERENCE_PART * burst.dispersion() / f64::from(burst.gap_count));
    even && burst.dispersion() > MIN_DISPERSION_RATIO * burst.input_dispersion
}

impl SizeSample {
    /// From one arrival to the next where nothing delayed them, in seconds.
    pub(super) fn mean_step_seconds(&self) -> f64 {
        self.undelayed.dispersion / self.bursts.first().map_or(1.0, |burst| f64::from(burst.gap_count))
    }

    /// Whether there are many bursts, or most of them were as long as those that were undelayed.
    pub(super) fn has_settled(&self) -> bool {
        let dispersion = self.undelayed.dispersion;
        let equal = |burst: &&BurstSample| {
            (burst.dispersion() - dispersion).abs() < STAMP_SCATTER_SECONDS.max(MAX_EQUAL_DIFFERENCE_PART * dispersion)
        };
        self.bursts.len() >= MIN_SETTLED_BURSTS || self.bursts.iter().filter(equal).count() * 3 >= self.bursts.len() * 2
    }

    /// Without those that a host held back for long.
    pub(super) fn plausible_bursts(&self) -> impl Iterator<Item = BurstSample> {
        let usual = self.undelayed.dispersion;
        self.bursts
            .iter()
            .filter(move |burst| {
                (usual / MAX_DISPERSION_RATIO..usual * MAX_DISPERSION_RATIO).contains(&burst.dispersion())
            })
            .copied()
    }
}
