//! The last step: a rate a little below the value must pass without the queue growing, whatever links the path consists of.
//!
//! Primed trains take it that queues grow at the narrow link. Where they grow at another one, the tight link, or where a prime
//! still waits at the narrow link while its body passes, what they find available is too much. Two long trains of one rate
//! make no such assumption (Jain and Dovrolis: End-to-End Available Bandwidth, 2002): their delays keep growing exactly
//! where less than their rate is available.

use super::packets::{PacketPoint, PrimedTrain, SendingGap};
use super::sample::{is_held_up, sending_rate};
use crate::cross_traffic::{CROSS_PACKET_BITS, CrossTrafficUnit};
use crate::stats::{mean, median, student_t_95};
use kumade_probe_train::fit::fit_robust_line;

/// So many trains verify a value …
pub(super) const MIN_VERIFICATION_TRAINS: usize = 2;
/// … and so many at most, where cross traffic varies.
const MAX_VERIFICATION_TRAINS: usize = 6;

/// Growth by less than so many standard errors is no reason to doubt the value's low end: chance alone brings about as much.
const UNSUSPICIOUS_STANDARD_ERRORS: f64 = 1.0;
/// Growth by more than so many standard errors is no chance where no more trains follow: one time in thirty, one-sided.
const LAST_TRAIN_STANDARD_ERRORS: f64 = 1.8;
/// That no growth was seen does not show that there is none (an equivalence test: Schuirmann 1987). It is shown where the growth is less, with 97.5 %,
/// than at a rate which exceeds what is available by this part: a value that is off by more is called wrong.
const MAX_UNSEEN_EXCESS_RATIO: f64 = 0.05;

/// At so much of the interval's low end.
pub(super) const VERIFIED_RATE_PART: f64 = 0.97;

/// Each train's delays are averaged in so many parts, of which the first two pass while the queue finds its length.
const TRAIN_PARTS: usize = 6;
const SKIPPED_TRAIN_PARTS: usize = 2;

/// By how many seconds a second the delay may grow for other reasons: stamps, and clocks that drift; …
const GROWTH_TOLERANCE: f64 = 0.0015;
/// … and by this part of a packet of cross traffic over the whole train, since some meet it at its end and not at its start.
const PACKET_TOLERANCE_PART: f64 = 0.1;

/// One long train of one rate.
#[derive(Debug, Clone)]
pub(super) struct Verification {
    pub(super) rate: f64,
    /// By how many seconds a second the delay grew from part to part.
    growth_rates: Vec<f64>,
    /// From the first part that counts to the last, in seconds.
    duration: f64,
}

impl Verification {
    /// Of a train whose packets are all of one rate; none of a train that hosts held up too often.
    pub(super) fn from_train(train: &PrimedTrain) -> Option<Self> {
        if train.is_in_bursts { Self::from_bursts(train) } else { Self::from_packets(train) }
    }

    fn from_packets(train: &PrimedTrain) -> Option<Self> {
        let points = steadily_sent(train);
        if (points.len() as f64) < MIN_UNDISTURBED_PART * train.points.len() as f64 {
            return None;
        }
        let size = points.len().div_ceil(TRAIN_PARTS).max(1);
        let middle = |points: &[PacketPoint]| {
            let of = |value: fn(&PacketPoint) -> f64| mean(&points.iter().map(value).collect::<Vec<_>>());
            (of(|p| p.sent), of(|p| p.delay))
        };
        let parts: Vec<(f64, f64)> = points.chunks(size).skip(SKIPPED_TRAIN_PARTS).map(middle).collect();
        let growth_rates = parts.windows(2).map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0)).collect();
        let duration = parts.last().zip(parts.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        let rate = if points.len() < train.points.len() { sending_rate(points) } else { train.body_rate() };
        Some(Verification { rate, growth_rates, duration })
    }

    /// Single bursts wait for the hosts as well, by as much as a queue grows: one line through all tells more than parts.
    fn from_bursts(train: &PrimedTrain) -> Option<Self> {
        let points = undisturbed_part(train)?;
        let counted = &points[points.len() * SKIPPED_TRAIN_PARTS / TRAIN_PARTS..];
        let delays: Vec<(f64, f64)> = counted.iter().map(|p| (p.sent, p.first_packet_delay)).collect();
        let growth_rates = vec![fit_robust_line(&delays)?.slope];
        let duration = delays.last()?.0 - delays.first()?.0;
        Some(Verification { rate: sending_rate(points), growth_rates, duration })
    }
}

/// The longest part of a train whose packets left one by one as planned: behind a pause, a host makes up for it.
fn steadily_sent(train: &PrimedTrain) -> &[PacketPoint] {
    let Some(gap) = SendingGap::usual_gap(train.points.iter()) else { return &train.points };
    let is_steady = |one: &PacketPoint, next: &PacketPoint| !gap.is_held_up(one, next) && !gap.catches_up(one, next);
    train.points.chunk_by(is_steady).max_by_key(|part| part.len()).unwrap_or_default()
}

/// A train is verified by its longest part between two that were held up, if that is this part of it or more …
const MIN_UNDISTURBED_PART: f64 = 0.4;
/// … and was sent at its rate but for this factor: a host that was held up makes up for it.
const MAX_CATCH_UP_RATIO: f64 = 1.03;
/// A burst that is so many times as far behind the one before was held up at the sender.
const MAX_GAP_RATIO: f64 = 4.0;

fn undisturbed_part(train: &PrimedTrain) -> Option<&[PacketPoint]> {
    let gaps: Vec<f64> = train.points.windows(2).map(|pair| pair[1].sent - pair[0].sent).collect();
    let usual = median(&gaps)?;
    let is_together = |one: &PacketPoint, next: &PacketPoint| {
        next.sent - one.sent < MAX_GAP_RATIO * usual
            && !is_held_up(one, next, CrossTrafficUnit::Burst.max_wait(train.size_bits, train.size_bits / usual))
    };
    let longest = train.points.chunk_by(is_together).max_by_key(|part| part.len())?;
    let is_long = longest.len() as f64 >= MIN_UNDISTURBED_PART * train.points.len() as f64;
    (is_long && sending_rate(longest) < MAX_CATCH_UP_RATIO * train.size_bits / usual).then_some(longest)
}

/// What verifying trains say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerificationResult {
    /// The queue did not grow.
    Available,
    /// It kept growing.
    Grew,
    /// It grew by what may be chance, since cross traffic varies: more trains are needed.
    Undecided,
    /// There is nothing to suggest that it grew, but it is not shown either that it did not: more trains are needed.
    NotShown,
    /// Neither is shown, and there are no more trains.
    Inconclusive,
}

/// The verdict of so many trains, and by how many seconds a second the delay may have grown; `scatter` is by how much its
/// growth differs between trains in any case, as primed ones show, and `narrow` the narrow link's rate.
pub(super) fn evaluate_verifications(
    verifications: &[Verification],
    scatter: f64,
    narrow: f64,
) -> (VerificationResult, f64) {
    let Some(MeanGrowth { rate: growth, error, degrees_of_freedom }) =
        MeanGrowth::from_verifications(verifications).filter(|_| verifications.len() >= MIN_VERIFICATION_TRAINS)
    else {
        return (VerificationResult::Undecided, 0.0);
    };
    let error = error.max(scatter / (verifications.len() as f64).sqrt());
    let mean_of = |of: fn(&Verification) -> f64| mean(&verifications.iter().map(of).collect::<Vec<_>>());
    let tolerance =
        GROWTH_TOLERANCE + PACKET_TOLERANCE_PART * CROSS_PACKET_BITS / narrow / mean_of(|v| v.duration).max(1e-6);
    let excess = growth - tolerance;
    let margin = MAX_UNSEEN_EXCESS_RATIO * mean_of(|v| v.rate) / narrow;
    let doubt = student_t_95(degrees_of_freedom + 1) * error;
    let is_last = verifications.len() >= MAX_VERIFICATION_TRAINS;
    let verdict = if excess > doubt || is_last && excess > LAST_TRAIN_STANDARD_ERRORS * error {
        VerificationResult::Grew
    } else if excess + doubt < margin {
        VerificationResult::Available
    } else if is_last {
        VerificationResult::Inconclusive
    } else if excess < UNSUSPICIOUS_STANDARD_ERRORS * error {
        VerificationResult::NotShown
    } else {
        VerificationResult::Undecided
    };
    (verdict, (excess + error).max(0.0))
}

/// The mean growth of several trains.
#[derive(Debug, Clone, Copy)]
struct MeanGrowth {
    /// In seconds a second.
    rate: f64,
    /// Its standard error.
    error: f64,
    degrees_of_freedom: usize,
}

impl MeanGrowth {
    /// From each part to the next, of all trains. Successive growths share a part, whose own error has opposite signs in them: their covariance
    /// belongs to the variance of their sum, k c₀ + 2 (k − 1) c₁ for the k of a train. (If the parts' errors are independent, the sum is the last part
    /// less the first, and its variance that of one growth, c₀, which is the least that is taken.) None of fewer than two.
    fn from_verifications(verifications: &[Verification]) -> Option<Self> {
        let growths: Vec<f64> = verifications.iter().flat_map(|v| v.growth_rates.iter().copied()).collect();
        let degrees_of_freedom = growths.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
        let rate = mean(&growths);
        let variance = growths.iter().map(|growth| (growth - rate).powi(2)).sum::<f64>() / degrees_of_freedom as f64;
        let successive = verifications.iter().flat_map(|v| v.growth_rates.windows(2));
        let products: Vec<f64> = successive.map(|pair| (pair[0] - rate) * (pair[1] - rate)).collect();
        let covariance = mean(&products).clamp(-variance / 2.0, 0.0);
        let of_sum = |v: &Verification| {
            let count = v.growth_rates.len() as f64;
            count * variance + 2.0 * (count - 1.0) * covariance
        };
        let sum_variance: f64 = verifications.iter().map(of_sum).sum();
        Some(MeanGrowth { rate, error: sum_variance.max(0.0).sqrt() / growths.len() as f64, degrees_of_freedom })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::standard_deviation;

    const NARROW: f64 = 1e8;
    const PART_SECONDS: f64 = 1e-3;

    /// A train at half of the link's rate whose delay grows so fast. Its parts have independent errors, or ones that add up, as those of a queue do.
    fn verification(growth: f64, adds_up: bool, random: &mut u64) -> Verification {
        const PART_ERROR: f64 = 5e-5;
        let mut sum = 0.0;
        let mut part = |number: u32| {
            let normal: f64 = (0..12).map(|_| crate::stats::random(random) - 0.5).sum();
            sum = if adds_up { sum + normal } else { normal };
            growth * f64::from(number) * PART_SECONDS + PART_ERROR * sum
        };
        let parts: Vec<f64> = (0..4).map(&mut part).collect();
        let growth_rates = parts.windows(2).map(|w| (w[1] - w[0]) / PART_SECONDS).collect();
        Verification { rate: NARROW / 2.0, growth_rates, duration: 3.0 * PART_SECONDS }
    }

    /// As if successive growths were independent, it was 1.74 times as large where the parts' errors are.
    #[test]
    fn the_standard_error_is_by_how_much_means_scatter() {
        for (adds_up, at_least, at_most) in [(false, 0.95, 1.3), (true, 0.75, 1.05)] {
            let mut random = 1;
            let mut one = || {
                let trains: Vec<Verification> = (0..4).map(|_| verification(0.0, adds_up, &mut random)).collect();
                MeanGrowth::from_verifications(&trains).unwrap()
            };
            let found: Vec<MeanGrowth> = (0..4000).map(|_| one()).collect();
            let scatter = standard_deviation(&found.iter().map(|f| f.rate).collect::<Vec<_>>());
            let stated = mean(&found.iter().map(|f| f.error * f.error).collect::<Vec<_>>()).sqrt();
            assert!((at_least..at_most).contains(&(stated / scatter)), "stated {stated}, seen {scatter}");
        }
    }

    /// Growth that was not shown passed for none: one of two standard errors in 41 % of the cases, at once.
    #[test]
    fn growth_beyond_the_margin_does_not_pass_for_none() {
        let mut random = 2;
        let tolerance = GROWTH_TOLERANCE + PACKET_TOLERANCE_PART * CROSS_PACKET_BITS / NARROW / (3.0 * PART_SECONDS);
        let mut passed = |growth: f64| {
            let mut verdict = || {
                let trains = [verification(growth, false, &mut random), verification(growth, false, &mut random)];
                evaluate_verifications(&trains, 0.0, NARROW).0
            };
            (0..2000).filter(|_| verdict() == VerificationResult::Available).count()
        };
        let margin = tolerance + MAX_UNSEEN_EXCESS_RATIO / 2.0;
        assert!(passed(margin) < 2000 * 4 / 100, "{}", passed(margin));
        assert!(passed(1.5 * margin) < 20, "{}", passed(1.5 * margin));
    }

    #[test]
    fn a_quiet_path_passes_and_a_noisy_one_ends_without_a_verdict() {
        let quiet = Verification { rate: NARROW / 2.0, growth_rates: vec![1e-3, -1e-3, 1e-3], duration: 3e-3 };
        let verdict = |trains: &[Verification], scatter| evaluate_verifications(trains, scatter, NARROW).0;
        let all = vec![quiet; MAX_VERIFICATION_TRAINS];
        assert_eq!(verdict(&all[..2], 0.0), VerificationResult::Available);
        assert_eq!(verdict(&all[..2], 0.2), VerificationResult::NotShown);
        assert_eq!(verdict(&all, 0.2), VerificationResult::Inconclusive);
    }
}
