//! Whether a policer drops packets, or a queue that is full.
//!
//! Where a queue overflows, the packets next to those that are lost waited as long as packets of such trains can. Behind a policer, whose
//! bucket is used up in one train and holds enough for the next, they waited no longer than those of trains of which nothing was lost.

use super::sample::min_delay;
use crate::packet_timing::PacketTiming;
use crate::stats::{median, quantile};

/// A train of which this part was lost, or more, …
const MIN_LOST_PART: f64 = 0.2;
/// … is compared with those that lost a packet, and this part, at most, …
const MAX_CLEAN_PART: f64 = 0.01;
/// … where there are so many of either.
const MIN_TRAINS: usize = 3;
/// Of a train of which nothing was lost, the longest wait, but for single packets that were late for other reasons.
const LONGEST_WAIT_QUANTILE: f64 = 0.95;
/// Next to packets that a policer drops, the wait is at most this part of that, in the median train.
const MAX_WAIT_PART: f64 = 0.8;

/// How long packets waited in trains that lost much, and in trains that lost nothing, in seconds.
#[derive(Debug, Default)]
pub(super) struct LossWaits {
    waits_before_losses: Vec<f64>,
    longest_waits_without_loss: Vec<f64>,
}

impl LossWaits {
    /// Another train.
    pub(super) fn add_train(&mut self, passages: &[PacketTiming]) {
        let least = min_delay(passages);
        let waits: Vec<Option<f64>> =
            passages.iter().map(|passage| passage.arrival.map(|came| came - passage.sent - least)).collect();
        let lost = waits.iter().filter(|wait| wait.is_none()).count() as f64;
        if lost >= MIN_LOST_PART * waits.len() as f64 {
            self.waits_before_losses.extend(median(&find_waits_before_losses(&waits)));
        } else if lost <= 1.0 + MAX_CLEAN_PART * waits.len() as f64 {
            let arrived: Vec<f64> = waits.into_iter().flatten().collect();
            self.longest_waits_without_loss.extend(quantile(&arrived, LONGEST_WAIT_QUANTILE));
        }
    }

    /// Whether packets are dropped though no queue is full.
    pub(super) fn are_losses_without_queue(&self) -> bool {
        let is_enough = self.waits_before_losses.len().min(self.longest_waits_without_loss.len()) >= MIN_TRAINS;
        let (at_losses, longest) = (median(&self.waits_before_losses), median(&self.longest_waits_without_loss));
        is_enough && at_losses.zip(longest).is_some_and(|(wait, longest)| wait <= MAX_WAIT_PART * longest)
    }
}

/// For each packet that was lost, how long the last one before it that arrived had waited.
fn find_waits_before_losses(waits: &[Option<f64>]) -> Vec<f64> {
    let mut last = None;
    let mut before = Vec::new();
    for wait in waits {
        match wait {
            Some(wait) => last = Some(*wait),
            None => before.extend(last),
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train of 100 packets, a millisecond apart, that waited as long as that in seconds, or were lost.
    fn train(waited: impl Fn(usize) -> Option<f64>) -> Vec<PacketTiming> {
        let passage = |index: usize| {
            let sent = index as f64 * 1e-3;
            let came = waited(index).map(|waited| sent + 0.02 + waited);
            PacketTiming { index, sent, in_order_arrival: came, arrival: came, bits: 12e3 }
        };
        (0..100).map(passage).collect()
    }

    /// Of so many pairs of these trains.
    fn losses_of_pairs(one: &[PacketTiming], other: &[PacketTiming], pairs: usize) -> LossWaits {
        let mut losses = LossWaits::default();
        for train in [one, other].repeat(pairs) {
            losses.add_train(train);
        }
        losses
    }

    /// Delays that vary by 5 ms for other reasons.
    fn varying(index: usize) -> f64 {
        (index * 37 % 50) as f64 * 1e-4
    }

    /// Behind a policer of 204 Mbit/s whose bucket of 681 kB long trains used up now and then, 600 were said to be available where 48 were.
    #[test]
    fn what_a_policer_drops_waited_no_longer_than_the_rest() {
        let clean = train(|index| Some(varying(index)));
        let policed = train(|index| (index < 40 || index % 2 == 0).then(|| varying(index)));
        assert!(losses_of_pairs(&clean, &policed, 3).are_losses_without_queue());
        assert!(!losses_of_pairs(&clean, &policed, 2).are_losses_without_queue(), "two of either may be chance");
    }

    #[test]
    fn a_queue_that_overflows_is_longer_than_one_that_does_not() {
        let growing = |index: usize| (index as f64 * 4e-4).min(20e-3) + varying(index);
        let short = train(|index| Some(growing(index / 3)));
        let overflowing = train(|index| (index < 55 || index % 2 == 0).then(|| growing(index)));
        assert!(!losses_of_pairs(&short, &overflowing, 3).are_losses_without_queue());
    }
}
