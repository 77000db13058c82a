//! When the light probes of a pair are sent.

use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The longest interval as a multiple of the mean one. With it, 2 % of the intervals of an unbounded Poisson process of
/// the same rate would be longer.
const MAX_INTERVAL_RATIO: f64 = 4.0;

/// Times of Poisson sampling (RFC 2330, §11.1.1): intervals are independent and exponentially distributed, so that probes neither
/// fall into step with the network nor with each other. The distribution is truncated at four times its mean, so that no
/// gap is so long that it looks like an outage, and keeps the mean.
///
/// The first time is anywhere in the first mean interval: a program that starts with a thousand pairs sends no burst.
#[derive(Debug, Clone)]
pub struct ProbeTimes {
    random: Pcg64Mcg,
    next: Time,
    /// Mean of the exponential distribution before truncation, in seconds.
    scale: f64,
    max_interval: f64,
}

impl ProbeTimes {
    /// From `start` on, on average one each `mean`. The `seed` is the pair's own.
    pub fn new(seed: u64, mean: Span, start: Time) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mean = mean.as_secs_f64().max(1e-9);
        let next = start + Span::from_secs_f64(mean * random.random::<f64>());
        ProbeTimes { random, next, scale: untruncated_mean(mean), max_interval: mean * MAX_INTERVAL_RATIO }
    }

    /// When the next probe is due.
    pub fn next_time(&self) -> Time {
        self.next
    }

    /// A probe is sent: the time of the next one is drawn. After a pause of the process those that were due meanwhile are left out, so
    /// that none are sent in a burst.
    pub fn advance(&mut self, now: Time) {
        let from = if now - self.next > Span::from_secs_f64(self.max_interval) { now } else { self.next };
        self.next = from + Span::from_secs_f64(self.draw_interval());
    }

    /// By inversion of the truncated distribution function.
    fn draw_interval(&mut self) -> f64 {
        let below_max = 1.0 - (-self.max_interval / self.scale).exp();
        let interval = -self.scale * (1.0 - self.random.random::<f64>() * below_max).ln();
        interval.min(self.max_interval)
    }
}

/// Of the exponential distribution whose mean is `mean` once it is truncated at `MAX_INTERVAL_RATIO * mean`.
fn untruncated_mean(mean: f64) -> f64 {
    let truncated = |scale: f64| scale - MAX_INTERVAL_RATIO / ((MAX_INTERVAL_RATIO / scale).exp() - 1.0);
    let (mut low, mut high) = (1.0, 2.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if truncated(middle) < 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Span = Span::from_secs(1);

    fn intervals(seed: u64, count: usize) -> Vec<f64> {
        let mut times = ProbeTimes::new(seed, MEAN, Time::ZERO);
        let mut draw = || {
            let from = times.next_time();
            times.advance(from);
            (times.next_time() - from).as_secs_f64()
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn intervals_have_the_mean_and_the_bound_and_are_otherwise_exponential() {
        let intervals = intervals(7, 100_000);
        let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!(intervals.iter().all(|interval| (0.0..=4.0).contains(interval)));
        // Without memory: of those that have lasted one second, the same share lasts another half as of all lasts a half, but for
        // what the truncation takes.
        let share = |from: f64, to: f64| {
            let longer = |than: f64| intervals.iter().filter(|interval| **interval > than).count() as f64;
            longer(to) / longer(from)
        };
        assert!((share(0.0, 0.5) - share(1.0, 1.5)).abs() < 0.05, "{} {}", share(0.0, 0.5), share(1.0, 1.5));
    }

    #[test]
    fn a_thousand_pairs_that_start_at_once_send_no_burst() {
        let mut first: Vec<_> = (0..1000).map(|seed| ProbeTimes::new(seed, MEAN, Time::ZERO).next_time()).collect();
        first.sort();
        for tenth in 0..10 {
            let (from, to) = (Time::from_nanos(tenth * 100_000_000), Time::from_nanos((tenth + 1) * 100_000_000));
            let count = first.iter().filter(|time| (from..to).contains(time)).count();
            assert!((60..140).contains(&count), "{count} in the tenth {tenth} of the first interval");
        }
    }

    #[test]
    fn after_a_pause_nothing_is_made_up_for() {
        let mut times = ProbeTimes::new(3, MEAN, Time::ZERO);
        let now = Time::ZERO + Span::from_secs(3600);
        times.advance(now);
        assert!(times.next_time() > now);
    }
}
