//! The mean of the trains' readings, and its interval.

use super::path_model::PathModel;
use super::sample::TrainSample;
use crate::cross_traffic::CROSS_PACKET_BITS;
use crate::stats::student_t_95;
use kumade_probe_train::Estimate;
use kumade_units::Rate;

/// With so many packets of cross traffic, in so much time as was watched, the chance to meet none is 5 %.
const MISSED_PACKETS: f64 = 3.0;

/// In bit/s.
pub(super) struct RateInterval {
    pub(super) value: f64,
    /// Half the interval's width.
    pub(super) half_width: f64,
    /// The lower end, where it is farther away than the upper one.
    pub(super) low: f64,
    /// The standard deviation between trains.
    pub(super) spread: f64,
}

impl RateInterval {
    pub(super) fn estimate(&self) -> Estimate<Rate> {
        let [value, low, high] = [self.value, self.low, self.value + self.half_width].map(Rate::from_f64);
        Estimate { value, low, high, confidence: 0.95 }
    }
}

/// The mean of what the trains found.
pub(super) fn weighted_value(used: &[TrainSample], capacity: f64) -> f64 {
    weighted_samples(used, capacity).iter().map(|(value, weight)| value * weight).sum()
}

/// Values with weights that add up to one. Where the queue ran empty, only a lower bound is known: its weight goes, in
/// equal parts, to all that found more (Efron's redistribution to the right, which gives the Kaplan-Meier estimate).
fn weighted_samples(used: &[TrainSample], capacity: f64) -> Vec<(f64, f64)> {
    let mut sorted = used.to_vec();
    sorted.sort_by(|a, b| a.available.total_cmp(&b.available));
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(sorted.len());
    let mut weight = 1.0 / sorted.len() as f64;
    for (i, reading) in sorted.iter().enumerate() {
        let right = sorted.len() - i - 1;
        match (is_bound(reading, capacity), right) {
            (true, 0) => out.push(((reading.available + capacity) / 2.0, weight)),
            (true, _) => weight += weight / right as f64,
            (false, _) => out.push((reading.available, weight)),
        }
    }
    out
}

/// Whether a reading tells no more than the least that was available. At the capacity's own rate an empty queue tells
/// all: nobody else was there.
fn is_bound(reading: &TrainSample, capacity: f64) -> bool {
    reading.has_emptied && reading.rate < 0.9 * capacity
}

/// Trains that tell how much was available, not only how much at least.
pub(super) fn informative_trains(used: &[TrainSample], capacity: f64) -> usize {
    used.iter().filter(|r| !is_bound(r, capacity)).count()
}

/// The mean of the readings, and its 95 % interval; `elapsed` is the measurement's time in seconds.
pub(super) fn estimate_interval(used: &[TrainSample], elapsed: f64, knowledge: &PathModel) -> RateInterval {
    let capacity = knowledge.capacity.unwrap_or(0.0);
    let weighted = weighted_samples(used, capacity);
    let n = weighted.len() as f64;
    let value: f64 = weighted.iter().map(|(v, w)| v * w).sum();
    let variance: f64 = weighted.iter().map(|(v, w)| w * (v - value).powi(2)).sum::<f64>() * n / (n - 1.0).max(0.5);
    let spread = variance.sqrt();
    // The trains are a sample of the measurement's own time, whose mean is asked for: what was watched is known.
    let watched_seconds = used.iter().map(|r| r.duration).sum::<f64>();
    let watched = (watched_seconds / elapsed.max(1e-9)).min(0.9);
    // Few trains know their own spread too badly even for Student, where the traffic is not normal but on or off.
    let few = 1.0 + 5.0 / n;
    let sampling = few * student_t_95(weighted.len()) * spread / n.sqrt() * (1.0 - watched).sqrt();
    // What all trains have in common: an error of the capacity, which cross traffic within the prime makes too small, has
    // an effect as far as the body's rate was too high; what cross traffic lost; and that the true value itself consists
    // of whole packets.
    let excess = used.iter().map(|r| (r.rate - r.available).max(0.0)).sum::<f64>() / used.len() as f64;
    let crossed = 0.5 * knowledge.prime_gap_ratio * (1.0 - value / capacity).clamp(0.0, 1.0);
    let capacity_error = excess * (knowledge.capacity_scatter / capacity + crossed);
    let dropped = used.iter().map(|r| r.overflow_loss_fraction).sum::<f64>() / used.len() as f64;
    let granularity = CROSS_PACKET_BITS / elapsed.max(1e-9);
    // A packet more or less in what was watched says the same of what was not.
    let unseen = (1.0 - watched) * CROSS_PACKET_BITS / watched_seconds.max(1e-9);
    let half = sampling
        .hypot(capacity_error)
        .hypot(granularity)
        .hypot(unseen)
        .hypot(capacity * 0.001)
        .hypot(capacity * dropped);
    // Where no packet was met, three more may have been missed (the rule of three: Hanley and Lippman-Hand, 1983).
    let met = (capacity - value) * watched_seconds / CROSS_PACKET_BITS;
    let missed = if met < 0.5 { MISSED_PACKETS * unseen } else { 0.0 };
    RateInterval { value, half_width: half, low: value - half.max(missed), spread }
}
