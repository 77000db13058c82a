//! The line through ratios of sending to arrival rate.

use super::queueing::MIN_GROWTH_RATIO;
use super::train_rates::PartRates;
use crate::stats::{quantile, random, student_t_95};
use kumade_probe_train::Estimate;
use kumade_units::Rate;

/// At ratios below this, packets that come at random find the bucket empty and full by turns.
const MIN_RATE_RATIO: f64 = 1.35;
const REPLICATES: usize = 200;
/// In so many percent of them, more may seem available than the bucket passes.
const MAX_EXCEEDING_PERCENT: usize = 85;
/// What a part of so many packets may be off because single packets count, besides chance: where they are dropped, and where they wait.
const MAX_PACKETS_OFF: f64 = 1.5;
const MAX_QUEUED_PACKETS_OFF: f64 = 0.5;

/// By which part of its rate cross traffic may pass more than packets that come at random, where it comes at even intervals, …
const MORE_REGULAR_PART: f64 = 0.15;
/// … and by which part of the committed rate less is available than it seems, where its packets are small, which find tokens where large
/// ones do not, or come in bursts. How much there is of it does not show then.
const SMALLER_PACKETS_PART: f64 = 0.1;

/// What the line tells, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShareLine {
    pub(super) available: Estimate<Rate>,
    pub(super) committed_rate: Estimate<Rate>,
    /// How much cross traffic there was.
    pub(super) cross_rate: f64,
}

/// The committed rate and what is available, from parts of different rates during which the bucket was empty, and which all waited in its
/// queue (`queued`), or of which a part was dropped; none where these do not tell them.
pub(super) fn fit_share_line(parts: &[PartRates], queued: bool, mut state: u64) -> Option<ShareLine> {
    let least = if queued { 1.0 + MIN_GROWTH_RATIO / 2.0 } else { MIN_RATE_RATIO };
    let limited: Vec<PartRates> = parts.iter().filter(|part| part.ratio() > least).copied().collect();
    let rates = |part: &PartRates| part.sending_rate;
    let fastest = limited.iter().map(rates).fold(0.0, f64::max);
    let slowest = limited.iter().map(rates).fold(f64::INFINITY, f64::min);
    if limited.len() < 2 || fastest < 1.2 * slowest {
        return None;
    }
    let walks = if queued { queued_walks(&limited) } else { limited.iter().map(walk_of_part).collect() };
    let (off, few) =
        if queued { (MAX_QUEUED_PACKETS_OFF, student_t_95(2 * limited.len()) / 1.96) } else { (MAX_PACKETS_OFF, 1.0) };
    let error = |part: &PartRates, walk: f64| few * (off.powi(2) + walk).sqrt() / part.packets.max(1) as f64;
    let points: Vec<(f64, f64, f64)> =
        limited.iter().zip(walks).map(|(part, walk)| (part.sending_rate, part.ratio(), error(part, walk))).collect();
    let (available, committed) = line_through(&points)?;
    let points = widen_points(points, available, committed);
    let mut replicates = (Vec::new(), Vec::new());
    let mut exceeding = 0;
    for _ in 0..REPLICATES {
        let moved: Vec<(f64, f64, f64)> =
            points.iter().map(|&(x, y, error)| (x, y * (1.0 + error * normal_variate(&mut state)), error)).collect();
        if let Some((available, committed)) = line_through(&moved) {
            exceeding += usize::from(available > committed);
            replicates.0.push(available);
            replicates.1.push(committed);
        }
    }
    // Random loss, of the same ratio at every rate, has no slope.
    if replicates.1.len() < REPLICATES * 95 / 100 {
        return None;
    }
    let estimate = |value: f64, replicates: &[f64], (below, above): (f64, f64)| {
        let [low, high] = [0.025, 0.975].map(|part| quantile(replicates, part).unwrap_or(value));
        let [value, low, high] = [value, low.min(value) - below, high.max(value) + above].map(Rate::from_f64);
        Estimate { value, low, high, confidence: 0.95 }
    };
    // No more is available than the bucket passes, but what is hidden behind losses makes the line steeper, and so does cross traffic of
    // small packets, which find tokens where large ones do not.
    if exceeding > REPLICATES * MAX_EXCEEDING_PERCENT / 100 {
        return None;
    }
    let cross = (committed - available).max(0.0);
    // All that waits in one queue leaves it in turn.
    let unequal = if queued { (0.0, 0.0) } else { (SMALLER_PACKETS_PART * committed, MORE_REGULAR_PART * cross) };
    Some(ShareLine {
        available: estimate(available, &replicates.0, unequal),
        committed_rate: estimate(committed, &replicates.1, (0.0, 0.0)),
        cross_rate: cross,
    })
}

/// The points with larger errors, where these do not explain how far they are from the line: as where it is not one bucket alone that limits.
fn widen_points(points: Vec<(f64, f64, f64)>, available: f64, committed: f64) -> Vec<(f64, f64, f64)> {
    let expected = |rate: f64| 1.0 + (rate - available) / committed;
    let squares: f64 = points.iter().map(|&(x, y, error)| ((y - expected(x)) / (y * error)).powi(2)).sum();
    let freedom = points.len().saturating_sub(2).max(1) as f64;
    let factor = (squares / freedom).sqrt().max(1.0);
    points.into_iter().map(|(x, y, error)| (x, y, error * factor)).collect()
}

/// The variance by which packets pass, from the first to the last one, seen from its ends: there, a random walk of n steps deviates by a
/// sixth of n variances in the mean square (a Brownian bridge).
fn walk_of_part(part: &PartRates) -> f64 {
    let missing = 1.0 - 1.0 / part.ratio();
    if part.lost_part > 0.0 { 6.0 * part.passed_count_variance } else { 0.25 * missing * part.packets as f64 }
}

/// The same of parts that waited in one queue: their cross traffic is the same, and a single part tells little of how much it varies.
fn queued_walks(parts: &[PartRates]) -> Vec<f64> {
    let seconds = |part: &PartRates| part.packets as f64 / part.sending_rate;
    let walked: f64 = parts.iter().map(|part| 6.0 * part.passed_count_variance).sum();
    let rate = walked / parts.iter().map(seconds).sum::<f64>();
    parts.iter().map(|part| rate * seconds(part)).collect()
}

/// Where the weighted line through the points reaches 1, and the inverse of its slope.
fn line_through(points: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    let weight = |&(_, y, error): &(f64, f64, f64)| 1.0 / (y * error).powi(2);
    let total: f64 = points.iter().map(weight).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| weight(p) * of(p)).sum::<f64>() / total;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let xx: f64 = points.iter().map(|p| weight(p) * (p.0 - mean_x).powi(2)).sum();
    let xy: f64 = points.iter().map(|p| weight(p) * (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = xy / xx;
    (xx > 0.0 && slope > 0.0).then(|| (mean_x + (1.0 - mean_y) / slope, 1.0 / slope))
}

/// About normal: the sum of twelve uniform numbers.
fn normal_variate(state: &mut u64) -> f64 {
    (0..12).map(|_| random(state)).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind the burst of a bucket of 20 Mbit/s, sent at these rates and arrived at these, in Mbit/s.
    fn parts(rates: &[(f64, f64)]) -> Vec<PartRates> {
        let part = |&(sent, arrived): &(f64, f64)| {
            let lost = 1.0 - arrived / sent;
            PartRates {
                sending_rate: sent * 1e6,
                arrival_rate: arrived * 1e6,
                packets: 40,
                lost_part: lost,
                delay_growth: 0.0,
                passed_count_variance: 0.5,
            }
        };
        rates.iter().map(part).collect()
    }

    fn width(line: &ShareLine) -> f64 {
        line.available.high.as_f64() - line.available.low.as_f64()
    }

    /// Flows with queues of their own gave such ratios, and a narrow interval that missed the truth by a third.
    #[test]
    fn parts_that_are_on_no_line_widen_the_interval() {
        let straight = fit_share_line(&parts(&[(70.0, 20.0), (46.0, 20.0), (34.0, 20.0)]), false, 1).unwrap();
        let bent = fit_share_line(&parts(&[(70.0, 22.0), (46.0, 15.0), (34.0, 20.0)]), false, 1);
        assert_eq!(straight.available.covers(Rate::from_mbit(20)), Some(true));
        assert!(bent.is_none_or(|bent| width(&bent) > 2.0 * width(&straight)), "{bent:?}");
    }

    /// Over TCP, packets behind a loss are not seen to arrive: the bucket seemed slower than what it left.
    #[test]
    fn no_more_is_available_than_the_bucket_passes() {
        assert_eq!(fit_share_line(&parts(&[(70.0, 9.5), (46.0, 13.0), (34.0, 16.0), (28.0, 20.0)]), false, 1), None);
    }
}
