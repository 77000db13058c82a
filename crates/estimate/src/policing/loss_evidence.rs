//! Whether a policer drops packets, or they are lost at any rate: by how probable their losses are behind either.
//!
//! Behind a policer hardly a packet is lost while its bucket has tokens, and behind an empty one the part of them that its rate leaves
//! none for. Where losses are random, as many are lost of a slow train as of a fast one, and before the fall as behind it.

use super::train_rates::{MAX_DROP_PART, PartRates};
use crate::packet_timing::PacketTiming;

/// One is so many times as probable as the other where it is said.
const MIN_PROBABILITY_RATIO: f64 = 20.0;
/// The parts that may be lost at any rate, with a policer and without: from this one on, each so many times the one before, up to 29 %. None is more
/// probable than another, …
const MIN_RANDOM_LOSS: f64 = 0.001;
const RANDOM_LOSS_RATIO: f64 = 1.28;
const RANDOM_LOSS_STEPS: i32 = 24;
/// … nor any of the rates of cross traffic behind a policer, as parts of the most that there may be, …
const CROSS_PARTS: [f64; 4] = [0.0, 0.3, 0.6, 1.0];
/// … nor any of the parts of the train's packets that pass an empty bucket. A rate of which more passes than 1 − [`MAX_DROP_PART`] lasts.
const PASSING_STEPS: u32 = 45;

/// How many packets of a rate in bit/s were sent, and how many of them lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LossCount {
    sending_rate: f64,
    packets: f64,
    lost: f64,
}

/// Which of the two explains the losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossCause {
    Policer,
    Random,
    /// Either may.
    Unknown,
}

impl LossCount {
    pub(super) fn from_rates(rates: &PartRates) -> Self {
        let packets = rates.packets as f64 / (1.0 - rates.lost_part);
        LossCount { sending_rate: rates.sending_rate, packets, lost: packets * rates.lost_part }
    }

    /// Of packets sent at this rate.
    pub(super) fn of_packets(sending_rate: f64, packets: &[PacketTiming]) -> Self {
        let lost = packets.iter().filter(|packet| packet.arrival.is_none()).count();
        LossCount { sending_rate, packets: packets.len() as f64, lost: lost as f64 }
    }

    /// The logarithm of how probable it is where this part of them passes.
    fn ln_probability(&self, passing: f64) -> f64 {
        let passing = passing.clamp(1e-4, 1.0 - 1e-4);
        (self.packets - self.lost) * passing.ln() + self.lost * (1.0 - passing).ln()
    }
}

/// How many times as much the count of lost packets varies as if each were lost for itself: (1 + r) / (1 − r), where r is the correlation of neighbours
/// in a chain of two states whose runs of losses are as long as these.
pub(super) fn variance_ratio(packets: &[PacketTiming]) -> f64 {
    let runs = packets.chunk_by(|one, next| one.arrival.is_some() == next.arrival.is_some());
    let lost: Vec<usize> = runs.filter(|run| run[0].arrival.is_none()).map(<[PacketTiming]>::len).collect();
    let all = lost.iter().sum::<usize>() as f64;
    let mean_run = all / lost.len().max(1) as f64;
    (2.0 * mean_run * (1.0 - all / packets.len().max(1) as f64) - 1.0).max(1.0)
}

/// What the losses before a fall, behind it, and of later trains behind an empty bucket, come from. The fall was found at one of `places`;
/// there may be this much cross traffic, in bit/s, and counts of losses vary by [so much](variance_ratio).
pub(super) fn find_loss_cause(
    before: LossCount,
    behind: LossCount,
    later: &[LossCount],
    places: usize,
    max_cross: f64,
    variance_ratio: f64,
) -> LossCause {
    let all = || [&before, &behind].into_iter().chain(later);
    let random_losses = || (0..RANDOM_LOSS_STEPS).map(|step| MIN_RANDOM_LOSS * RANDOM_LOSS_RATIO.powi(step));
    let random = mean_of_exponentials(
        random_losses().map(|random_loss| all().map(|count| count.ln_probability(1.0 - random_loss)).sum()),
    );
    // Of many places the best one was taken, which makes the policer more probable by as many times; or its bucket was empty before.
    let searched = (places.max(1) as f64).ln();
    let policer = |random_loss: f64, cross: f64, passing: f64| {
        let committed = passing * (behind.sending_rate + cross);
        let empty = |count: &LossCount| {
            count.ln_probability((1.0 - random_loss) * (committed / (count.sending_rate + cross)).min(1.0))
        };
        let first = empty(&before).max(before.ln_probability(1.0 - random_loss) - searched);
        first + empty(&behind) + later.iter().map(empty).sum::<f64>()
    };
    let policer = mean_of_exponentials(
        random_losses()
            .flat_map(|random_loss| CROSS_PARTS.map(|part| (random_loss, part * max_cross)))
            .flat_map(|(loss, cross)| (1..=PASSING_STEPS).map(move |step| (loss, cross, step)))
            .map(|(loss, cross, step)| {
                policer(loss, cross, (1.0 - MAX_DROP_PART) * f64::from(step) / f64::from(PASSING_STEPS))
            }),
    );
    let ratio = (policer - random) / variance_ratio;
    if ratio > MIN_PROBABILITY_RATIO.ln() {
        LossCause::Policer
    } else if ratio < -MIN_PROBABILITY_RATIO.ln() {
        LossCause::Random
    } else {
        LossCause::Unknown
    }
}

/// The logarithm of the mean of numbers of which these are the logarithms.
fn mean_of_exponentials(logarithms: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = logarithms.collect();
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logarithms.iter().map(|ln| (ln - most).exp()).sum();
    most + (sum / logarithms.len().max(1) as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(mbit: f64, packets: f64, lost: f64) -> LossCount {
        LossCount { sending_rate: mbit * 1e6, packets, lost }
    }

    #[test]
    fn as_many_lost_of_slower_trains_are_random() {
        let (before, behind) = (count(19.0, 0.0, 0.0), count(19.0, 200.0, 24.0));
        let cause = |later: &[LossCount]| find_loss_cause(before, behind, later, 200, 1e6, 1.0);
        assert_eq!(cause(&[]), LossCause::Unknown, "nothing to compare with");
        assert_eq!(cause(&[count(15.0, 120.0, 9.0), count(11.0, 120.0, 15.0)]), LossCause::Random);
        assert_eq!(cause(&[count(15.0, 120.0, 0.0), count(11.0, 120.0, 0.0)]), LossCause::Policer);
        assert_eq!(cause(&[count(15.0, 120.0, 7.0)]), LossCause::Unknown, "either may lose so many");
    }

    /// A policer that passed 80 % beside 10 % of random loss was taken for the latter alone.
    #[test]
    fn a_policer_on_a_path_that_loses_besides_is_not_random() {
        let (before, behind) = (count(20.0, 300.0, 30.0), count(20.0, 700.0, 196.0));
        let later = [count(13.5, 480.0, 48.0), count(10.2, 360.0, 36.0)];
        assert_eq!(find_loss_cause(before, behind, &later, 1000, 0.0, 1.3), LossCause::Policer);
        assert_eq!(find_loss_cause(before, behind, &later[..1], 1000, 0.0, 1.3), LossCause::Policer);
    }

    #[test]
    fn many_lost_after_hardly_any_are_a_policers_unless_the_place_was_looked_for() {
        let behind = count(19.0, 300.0, 60.0);
        let cause = |before| find_loss_cause(before, behind, &[], 1000, 0.0, 1.0);
        assert_eq!(cause(count(19.0, 700.0, 1.0)), LossCause::Policer);
        assert_eq!(cause(count(19.0, 12.0, 0.0)), LossCause::Unknown, "a dozen that pass are found somewhere");
        assert_eq!(cause(count(19.0, 700.0, 130.0)), LossCause::Unknown, "the bucket may have been empty before");
    }
}
