//! Which packets waited, and for how long.

use crate::stats::{mean, student_t_95};
use kumade_probe_train::Estimate;
use kumade_probe_train::fit::lower_hull;
use kumade_units::{Span, Time};

/// One packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitSample {
    pub(super) sent: Time,
    /// The clocks' offset included.
    pub(super) delay: Span,
}

/// What the waits say. Parts are from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitStatistics {
    pub(super) busy_fraction: Estimate<f64>,
    pub(super) queued_fraction: f64,
    pub(super) mean_wait: f64,
    pub(super) correlation: f64,
}

/// Clocks differ in rate by less than this.
const MAX_DRIFT_RATIO: f64 = 500e-6;
/// Shorter waits than this are never told from none.
const MIN_THRESHOLD_SECONDS: f64 = 4e-6;
/// So many of all packets may seem to be early, …
const MAX_EARLY_PART: f64 = 0.02;
/// … unless this part of each half lies as close to the line below them all as noise does.
const MIN_ON_FLOOR_PART: f64 = 0.02;
/// A wait must be told from none at this part of the time that a full packet takes.
const MAX_THRESHOLD_PART: f64 = 0.35;
/// Noise ends below this part of it.
const MAX_NOISE_PART: f64 = 0.125;
/// Waits are as dense above a threshold as further above, but for this factor and for chance.
const MAX_DENSITY_RATIO: f64 = 1.3;
/// Logarithm of the ratio of likelihoods from which on the link was busy all the time at first.
const MIN_LIKELIHOOD_RATIO: f64 = 4.0;
/// So many packets may be expected to have waited where none has, with 95 % confidence.
const MAX_UNSEEN_PACKETS: f64 = 3.0;
/// Batches of packets, one after the other, whose means are compared.
const ERROR_BATCHES: usize = 20;

/// Whether a full packet takes long enough.
pub(super) fn is_possible(service: Span) -> bool {
    service.as_secs_f64() * MAX_THRESHOLD_PART >= 2.0 * MIN_THRESHOLD_SECONDS
}

/// None where waits cannot be told from noise. `service` is the time that the link takes for a full packet.
pub(super) fn interpret_waits(samples: &[WaitSample], service: Span) -> Option<WaitStatistics> {
    let waits = waits(samples)?;
    let service = service.as_secs_f64();
    let threshold = threshold(&waits, service)?;
    let waits = waits_since_idle(&waits, threshold, service);
    let within = |low: f64, high: f64| waits.iter().filter(|wait| (low..high).contains(*wait)).count() as f64;
    let count = waits.len() as f64;
    // Noise is as good as absent further above.
    let missed = within(2.0 * threshold, 4.0 * threshold) / 2.0 / count;
    let waited: Vec<f64> = waits.iter().map(|wait| f64::from(u8::from(*wait >= threshold))).collect();
    let part = mean(&waited);
    let error = standard_error(&waited).hypot(missed / 2.0);
    let value = (part + missed).min(1.0);
    let margin = student_t_95(ERROR_BATCHES) * error;
    // None of so many may be as many as three of them by chance (the rule of three).
    let (low, high) = ((value - margin).max(0.0), (value + margin).max(MAX_UNSEEN_PACKETS / count).min(1.0));
    let short: Vec<f64> = waits.iter().copied().filter(|wait| (threshold..service * 1.1).contains(wait)).collect();
    Some(WaitStatistics {
        busy_fraction: Estimate { value, low, high, confidence: 0.95 },
        queued_fraction: within(service * 1.1, f64::INFINITY) / (part * count).max(1.0),
        mean_wait: if short.is_empty() { 0.0 } else { mean(&short) / service },
        correlation: correlation(waits),
    })
}

/// In seconds, in the order of sending: delays above those of packets that did not wait.
fn waits(samples: &[WaitSample]) -> Option<Vec<f64>> {
    let first = samples.first()?;
    let points: Vec<DelayPoint> = samples
        .iter()
        .map(|sample| ((sample.sent - first.sent).as_secs_f64(), (sample.delay - first.delay).as_secs_f64()))
        .collect();
    let floor = DelayFloor::fit_points(points.clone());
    Some(points.iter().map(|point| floor.wait(point).max(0.0)).collect())
}

/// When a packet was sent, and its delay, in seconds.
type DelayPoint = (f64, f64);

/// The delay of packets that do not wait, which changes at the rate by which clocks differ.
#[derive(Debug, Clone, Copy)]
struct DelayFloor {
    min_delay: f64,
    drift: f64,
}

impl DelayFloor {
    /// The line close to which several packets lie, and next to none below: single packets seem to be early where the stamp of their
    /// departure is late.
    fn fit_points(mut points: Vec<DelayPoint>) -> Self {
        let least_left = points.len() - (points.len() as f64 * MAX_EARLY_PART) as usize;
        loop {
            let (floor, edge) = DelayFloor::split_below(&points);
            let is_floor_of = |half: &[DelayPoint]| {
                let on_floor = half.iter().filter(|point| floor.wait(point) <= MIN_THRESHOLD_SECONDS).count();
                on_floor as f64 >= (half.len() as f64 * MIN_ON_FLOOR_PART).max(2.0)
            };
            let (first, second) = points.split_at(points.len() / 2);
            let is_floor = is_floor_of(first) && is_floor_of(second);
            if is_floor || points.len() <= least_left {
                return floor;
            }
            points.retain(|point| !edge.contains(point));
        }
    }

    /// The line below all points that is closest to them, and those on it: the edge of their lower hull in the middle.
    fn split_below(points: &[DelayPoint]) -> (Self, Vec<DelayPoint>) {
        let hull = lower_hull(points.iter().copied());
        let middle = mean(&points.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        let edge = hull.windows(2).find(|edge| edge[1].0 >= middle).unwrap_or(&hull);
        let slope = |edge: &[DelayPoint]| (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0).max(1e-9);
        let drift = if edge.len() == 2 { slope(edge).clamp(-MAX_DRIFT_RATIO, MAX_DRIFT_RATIO) } else { 0.0 };
        let least = hull.iter().map(|(at, delay)| delay - drift * at).fold(f64::INFINITY, f64::min);
        (DelayFloor { min_delay: least, drift }, edge.to_vec())
    }

    fn wait(&self, (at, delay): &DelayPoint) -> f64 {
        delay - self.drift * at - self.min_delay
    }
}

/// The least wait that is told from none: noise of stamps and hosts is dense close to none, waits for packets are not.
fn threshold(waits: &[f64], service: f64) -> Option<f64> {
    let within = |low: f64, high: f64| waits.iter().filter(|wait| (low..high).contains(*wait)).count() as f64;
    let is_noise = |threshold: f64, deviations: f64| {
        let near = within(threshold, 2.0 * threshold);
        let further = within(2.0 * threshold, 4.0 * threshold) / 2.0;
        near > MAX_DENSITY_RATIO * further + deviations * near.sqrt().max(1.0)
    };
    let most = service * MAX_THRESHOLD_PART;
    let thresholds: Vec<f64> = std::iter::successors(Some(MIN_THRESHOLD_SECONDS), |threshold| Some(threshold * 1.5))
        .take_while(|threshold| *threshold <= most)
        .collect();
    // Noise of hosts may be evenly dense up to where it ends: far below the longest wait, which ends as suddenly.
    let is_end = |threshold: f64| threshold <= service * MAX_NOISE_PART && is_noise(threshold, 2.5);
    let beyond = thresholds.iter().rposition(|threshold| is_end(*threshold)).map_or(0, |last| last + 1);
    thresholds[beyond..].iter().copied().find(|threshold| !is_noise(*threshold, 2.0))
}

/// Those after the time in which the link is still busy with what trains have left in queues, if the likelihoods tell that there was
/// one: where flows have queues of their own, a packet that comes just before the end of another one waits for as little as none
/// even then. All, where most of the time passes before.
fn waits_since_idle(waits: &[f64], threshold: f64, service: f64) -> &[f64] {
    let waited: Vec<bool> = waits.iter().map(|wait| *wait >= threshold).collect();
    let (count, all) = (waits.len(), waited.iter().filter(|waited| **waited).count());
    let busy = |waited: usize, of: usize| log_likelihood(waited, of, 1.0 - threshold / service);
    let steady = |waited: usize, of: usize| log_likelihood(waited, of, waited as f64 / of.max(1) as f64);
    let mut before = 0;
    let mut best = (steady(all, count) + MIN_LIKELIHOOD_RATIO, 0);
    for first in 1..=count / 2 {
        before += usize::from(waited[first - 1]);
        let divided = busy(before, first) + steady(all - before, count - first);
        if divided > best.0 {
            best = (divided, first);
        }
    }
    &waits[best.1..]
}

/// Logarithm of the likelihood that so many of them wait, each with this probability.
fn log_likelihood(waited: usize, of: usize, probability: f64) -> f64 {
    let term = |count: usize, probability: f64| count as f64 * probability.max(1e-3).ln();
    term(waited, probability) + term(of - waited, 1.0 - probability)
}

/// Of each wait with the next one.
fn correlation(waits: &[f64]) -> f64 {
    let mean = mean(waits);
    let product = waits.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let square = waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>();
    if square > 0.0 { product / square } else { 0.0 }
}

/// Of the mean of parts that depend on their neighbours: from means of batches, and not less than if they were independent.
fn standard_error(waited: &[f64]) -> f64 {
    let batches: Vec<f64> = waited.chunks(waited.len().div_ceil(ERROR_BATCHES)).map(mean).collect();
    let part = mean(waited);
    let between = batches.iter().map(|batch| (batch - part).powi(2)).sum::<f64>();
    let count = batches.len() as f64;
    let independent = part * (1.0 - part) / waited.len() as f64;
    (between / (count * (count - 1.0).max(1.0))).max(independent).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random;

    /// Packets at random times at a link that is busy for this part of the time with full packets of 120 µs one by one, behind
    /// which stamps are late by up to `noise`.
    fn samples(busy: f64, noise: f64, drift: f64, seed: u64) -> Vec<WaitSample> {
        samples_of(120e-6, busy, noise, drift, seed)
    }

    /// The same with packets that take `service` seconds each.
    fn samples_of(service: f64, busy: f64, noise: f64, drift: f64, seed: u64) -> Vec<WaitSample> {
        let mut state = seed;
        let mut sent = 0.0;
        let mut one = |_| {
            sent += -2e-3 * (1.0 - random(&mut state)).ln();
            let wait = if random(&mut state) < busy { service * random(&mut state) } else { 0.0 };
            let delay = 0.5 + wait + noise * random(&mut state) + drift * sent;
            WaitSample { sent: Time::ZERO + Span::from_secs_f64(sent), delay: Span::from_secs_f64(delay) }
        };
        (0..1000).map(&mut one).collect()
    }

    #[test]
    fn the_part_that_waits_is_the_part_of_the_time_in_which_the_link_is_busy() {
        let service = Span::from_micros(120);
        for seed in 1..=20 {
            for (busy, noise, drift) in
                [(0.0, 3e-6, 0.0), (0.3, 3e-6, 50e-6), (0.7, 10e-6, -50e-6), (0.95, 3e-6, 20e-6)]
            {
                let read = interpret_waits(&samples(busy, noise, drift, seed), service).unwrap();
                let found = read.busy_fraction;
                let is_close = (found.value - busy).abs() < 0.1;
                assert!(is_close && found.low - 0.03 <= busy && busy <= found.high + 0.03, "{seed}: {busy} {read:?}");
                assert!(
                    busy == 0.0 || read.queued_fraction < 0.05 && (read.mean_wait - 0.5).abs() < 0.1,
                    "{seed}: {read:?}"
                );
            }
        }
    }

    /// A single packet whose stamp of departure was late made all others seem to have waited, so that nothing seemed to be available.
    #[test]
    fn a_packet_that_seems_early_does_not_count() {
        let service = Span::from_micros(120);
        for seed in 1..=20 {
            let mut samples = samples(0.4, 3e-6, 20e-6, seed);
            for (place, early) in [(170, 110), (400, 18), (401, 60)] {
                samples[place].delay -= Span::from_micros(early);
            }
            let found = interpret_waits(&samples, service).unwrap().busy_fraction;
            assert!(found.low - 0.03 <= 0.4 && 0.4 <= found.high + 0.03, "{seed}: {found:?}");
        }
    }

    /// Hosts that read late by up to so much, all equally likely, made a link seem busy all the time.
    #[test]
    fn evenly_dense_noise_is_told_from_waits() {
        let service = Span::from_micros(400);
        for seed in 1..=20 {
            for busy in [0.2, 0.5] {
                let samples = samples_of(service.as_secs_f64(), busy, 30e-6, 0.0, seed);
                let found = interpret_waits(&samples, service).unwrap().busy_fraction;
                assert!(found.low - 0.05 <= busy && busy <= found.high + 0.05, "{seed}: {found:?}");
            }
        }
    }

    /// A link that no packet found busy was said to be idle without any doubt.
    #[test]
    fn none_of_so_many_may_be_a_few_by_chance() {
        let found = interpret_waits(&samples(0.0, 3e-6, 0.0, 1), Span::from_micros(120)).unwrap().busy_fraction;
        assert_eq!((found.low, found.value, found.high), (0.0, 0.0, 0.003));
    }

    /// What trains leave in the queues of other flows does not delay packets of a flow of its own for longer than one packet takes.
    #[test]
    fn a_time_in_which_queues_are_emptied_does_not_count() {
        let service = Span::from_micros(120);
        for seed in 1..=20 {
            let at_first = samples(1.0, 3e-6, 0.0, seed).into_iter().take(400);
            let then = samples(0.5, 3e-6, 0.0, seed + 100).into_iter();
            let after = Span::from_secs(1);
            let then = then.map(|sample| WaitSample { sent: sample.sent + after, ..sample });
            let found = interpret_waits(&at_first.chain(then).collect::<Vec<_>>(), service).unwrap().busy_fraction;
            assert!(found.low - 0.03 <= 0.5 && 0.5 <= found.high + 0.03, "{seed}: {found:?}");
        }
    }

    #[test]
    fn what_noise_hides_is_not_told() {
        assert!(
            interpret_waits(&samples(0.3, 300e-6, 0.0, 1), Span::from_micros(120))
                .is_none_or(|read| read.busy_fraction.value > 0.8)
        );
        assert!(!is_possible(Span::from_micros(10)));
    }
}
