//! Whether the delay keeps growing, by so little that what arrives is hardly less: as where the tight link is far faster than the
//! narrow link (Jain and Dovrolis: End-to-End Available Bandwidth, 2002).

use super::train_rates::first_of_batches;
use crate::packet_timing::PacketTiming;
use crate::stats::{median, standard_deviation};

/// Delays are averaged over so many parts of a train …
const TRAIN_PARTS: usize = 16;
/// … of which the first ones pass while the queue finds its length.
const SKIPPED_TRAIN_PARTS: usize = 2;
/// Growth from part to part of a random walk varies less than the walk itself, since each part is a mean over time: by this
/// factor in the variance.
const MEAN_OF_PARTS: f64 = 1.5;

/// By how many seconds a second the delay may grow for other reasons: stamps, and clocks that drift.
const GROWTH_TOLERANCE: f64 = 3e-4;
/// Growth by so many standard errors is no chance where a little less is sent than is available: queues then shrink on average.
const MAX_STANDARD_ERRORS: f64 = 1.0;
/// Where the link itself varies, it may be chance up to so many.
const MAX_STANDARD_ERRORS_OF_VARYING: f64 = 2.0;

/// It grows by no more than so many standard errors beyond what was seen.
const MAX_ERROR_RATIO: f64 = 2.0;

/// Of the growth: stamps and clocks tell no less.
const MIN_GROWTH_ERROR: f64 = 1e-5;

/// By how many seconds a second the delay grew during a train of one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QueueTrend {
    growth: f64,
    /// Its standard error, as the growth varies from part to part.
    error: f64,
}

impl QueueTrend {
    /// Whether a queue kept growing; `is_steady` tells whether packets leave the link one by one, and only cross traffic varies.
    pub(super) fn grows(&self, is_steady: bool) -> bool {
        let errors = if is_steady { MAX_STANDARD_ERRORS } else { MAX_STANDARD_ERRORS_OF_VARYING };
        self.growth - GROWTH_TOLERANCE > errors * self.error
    }

    /// By how many seconds a second it grew.
    pub(super) fn growth(&self) -> f64 {
        self.growth
    }

    /// The standard error of that.
    pub(super) fn error(&self) -> f64 {
        self.error
    }

    /// By how many seconds a second it may grow for all that this train shows.
    pub(super) fn max_growth(&self) -> f64 {
        self.growth.max(0.0) + MAX_ERROR_RATIO * self.error
    }

    /// This train's together with another one's, each with the weight of its precision.
    pub(super) fn combined_with(self, other: QueueTrend) -> QueueTrend {
        let [weight, other_weight] = [self.error, other.error].map(|error| error.max(MIN_GROWTH_ERROR).powi(-2));
        let sum = weight + other_weight;
        QueueTrend { growth: (self.growth * weight + other.growth * other_weight) / sum, error: sum.sqrt().recip() }
    }

    /// Of a whole train; none where too little arrived.
    pub(super) fn from_train(train: &[PacketTiming]) -> Option<Self> {
        let heads = first_of_batches(train);
        let delays: Vec<(f64, f64)> =
            heads.iter().filter_map(|passage| Some((passage.sent, passage.in_order_arrival? - passage.sent))).collect();
        // Single packets and bursts wait for the hosts as well, by as much as a queue grows.
        let typical = |values: &[f64]| median(values).unwrap_or(0.0);
        let middle = |part: &[(f64, f64)]| {
            let of = |value: fn(&(f64, f64)) -> f64| typical(&part.iter().map(value).collect::<Vec<_>>());
            (of(|p| p.0), of(|p| p.1))
        };
        if delays.len() < 2 * TRAIN_PARTS {
            return None;
        }
        let parts: Vec<(f64, f64)> =
            delays.chunks(delays.len().div_ceil(TRAIN_PARTS)).skip(SKIPPED_TRAIN_PARTS).map(middle).collect();
        let growths: Vec<f64> = parts.windows(2).map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0)).collect();
        let (first, last) = (parts.first()?, parts.last()?);
        let duration = last.0 - first.0;
        let variance = MEAN_OF_PARTS * standard_deviation(&growths).powi(2) / growths.len() as f64;
        (duration > 0.0).then(|| QueueTrend { growth: (last.1 - first.1) / duration, error: variance.sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wi-Fi links, whose rate varies from train to train, left more than had been tried, and 25 of 400 values were refused.
    #[test]
    fn growth_by_so_much_as_a_link_varies_by_is_no_growing_queue() {
        let trend = |growth| QueueTrend { growth, error: 0.005 };
        for (growth, steady, varying) in [(0.004, false, false), (0.009, true, false), (0.012, true, true)] {
            assert_eq!((trend(growth).grows(true), trend(growth).grows(false)), (steady, varying), "{growth}");
        }
    }
}
