//! What was found of a path's capacity, and of a token bucket on it.

use super::reason::CapacityReason;
use crate::bound::{Bound, BoundKind};
use crate::method::Outcome;
use crate::reason::Reason;
use crate::rejection::Rejection;
use kumade_probe_train::Estimate;
use kumade_units::Rate;
use std::collections::BTreeMap;

/// The capacity of one direction's narrow link.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// The rate that the path sustains without cross traffic; the committed rate where there is a token bucket.
    pub bottleneck_rate: Option<Estimate<Rate>>,
    /// A lower bound where there is no value.
    pub lower_bound: Option<Rate>,
    /// Whether all bursts waited for so different times that it may be anything from zero on.
    pub is_indefinite: bool,
    /// Why there is no value; none where there is one.
    pub reason: Option<CapacityReason>,
    /// Whether it is not known because the sender is slower than the path.
    pub is_sender_limited: bool,
    /// A token bucket on the path.
    pub shaper: Option<Shaper>,
    /// The fastest rate of all shapes of bursts that nothing delayed.
    pub fastest_burst_rate: Option<Rate>,
    /// Which part of the bursts found a packet of cross traffic on the link: their first packet waited for a part of the time
    /// that the link takes for one, as it does even where flows have queues of their own. None where that is not known.
    pub waiting_fraction: Option<f64>,
    /// Whether many packets of a long train arrived before others that were sent earlier: those of other flows, where flows have queues
    /// of their own.
    pub is_disordered: bool,
    /// Whether the first packets of trains arrive at once and those behind them do not, as a token bucket of a few packets lets them.
    pub has_small_bucket: bool,
    /// Whether packets behind the first few of a train may be slower because flows are served in turn. Not where hardly a train had to
    /// wait for others' packets, or where a longer one arrived at less than bursts: then it is a token bucket of a few packets.
    pub may_be_round_robin: bool,
    /// The rate at which the slowest long train arrived, sent back to back.
    pub slowest_long_train_rate: Option<Rate>,
    /// That of the fastest.
    pub fastest_long_train_rate: Option<Rate>,
    /// Median of the bits by which bursts show rates: those behind the packet from which their dispersion counts. Zero where none arrived.
    pub median_burst_bits: f64,
    /// Median of those of long trains, by which committed rates are known: without the first packet.
    pub median_train_bits: f64,
    /// By which part the rates of bursts may be off since stamps scatter; zero where these are exact.
    pub burst_rate_error: f64,
    /// Bursts and long trains that were used.
    pub bursts_used: u32,
    /// Trains that were left out, by cause.
    pub trains_rejected: BTreeMap<Rejection, u32>,
}

/// A token bucket that shapes traffic: a burst passes at the peak rate, and the rest at the committed rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shaper {
    /// The rate at which a burst passes: that of the link; none where a burst passes as fast as it is sent.
    pub peak_rate: Option<Estimate<Rate>>,
    /// The sustained rate.
    pub committed_rate: Estimate<Rate>,
    /// The size of the bucket: bytes that pass at the peak rate after a pause.
    pub burst_bytes: Estimate<u64>,
}

/// What is known of token buckets on a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shaping {
    /// It was not looked for, or could not be seen.
    Unknown,
    /// None showed where one was looked for: what looks like one in a few trains has another cause.
    Unshaped,
    /// There is one.
    Shaped(Shaper),
}

impl Shaping {
    /// The token bucket, where one is known.
    pub fn shaper(&self) -> Option<&Shaper> {
        match self {
            Shaping::Shaped(shaper) => Some(shaper),
            Shaping::Unknown | Shaping::Unshaped => None,
        }
    }
}

/// A value above this part of what a sender can send at most is not believed on a faster path.
const MAX_PART_OF_SENDING_RATE: f64 = 0.5;
/// The same where trains were sent in bursts, whose preload shows how queues grow.
const MAX_PART_OF_BURST_RATE: f64 = 0.8;
/// Two ways to look at one link may differ by this part.
const TOLERANCE_PART: f64 = 0.03;

impl Capacity {
    /// What is known of a token bucket: nothing where there is no value.
    pub fn shaping(&self) -> Shaping {
        match (&self.shaper, &self.bottleneck_rate) {
            (Some(shaper), _) => Shaping::Shaped(*shaper),
            (None, Some(_)) => Shaping::Unshaped,
            (None, None) => Shaping::Unknown,
        }
    }

    /// The outcome of a method on the same path, with the reason in place of the value or lower bound where it lies above
    /// this capacity, with its whole interval: available bandwidth cannot exceed the capacity, so one of the two is wrong. And with a
    /// lower bound in place of a value that is not far below what the sender can send, where the path is faster than that: trains
    /// then do not show how queues grow. `bursts` is how fast the sender could send packets in bursts, if it did: then the lower bound,
    /// which is of packets sent one by one, says nothing of what it can send.
    pub fn refuse_above_capacity(&self, outcome: Outcome, bursts: Option<Rate>) -> Outcome {
        let is_below = |found: Estimate<Rate>, rate: Rate| found.high.as_f64() < MAX_PART_OF_BURST_RATE * rate.as_f64();
        let is_in_reach = outcome.available.zip(bursts).is_some_and(|(found, rate)| is_below(found, rate));
        let fastest = self.lower_bound.filter(|_| self.is_sender_limited && !is_in_reach);
        if let Some((fastest, found)) = fastest.zip(outcome.available)
            && found.high.as_f64() > MAX_PART_OF_SENDING_RATE * fastest.as_f64()
        {
            let reason = Some(Reason::FasterThanSender(fastest));
            let bound = Some(Bound::AtLeast(found.low, BoundKind::Sender));
            return Outcome { available: None, bound, reason, spread: None, ..outcome };
        }
        let found = outcome.available.map(|found| (found.low, found.value));
        let bound = outcome.bound.and_then(|bound| bound.lower_bound()).map(|rate| (rate, rate));
        match (&self.bottleneck_rate, found.or(bound)) {
            (Some(capacity), Some((low, found))) if low.as_f64() > capacity.high.as_f64() * (1.0 + TOLERANCE_PART) => {
                let reason = Some(Reason::AboveCapacity(found, capacity.value));
                Outcome { available: None, bound: None, reason, spread: None, ..outcome }
            }
            _ => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(low: u64, high: u64) -> Estimate<Rate> {
        let value = Rate::from_mbit((low + high) / 2);
        Estimate { value, low: Rate::from_mbit(low), high: Rate::from_mbit(high), confidence: 0.95 }
    }

    fn outcome(available: Estimate<Rate>) -> Outcome {
        Outcome {
            available: Some(available),
            bound: None,
            reason: None,
            spread: Some(Rate::from_mbit(1)),
            capacity: None,
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 11,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn more_than_the_narrowest_link_carries_is_not_available() {
        let bottleneck = Some(rates(48, 52));
        let capacity = Capacity {
            bottleneck_rate: bottleneck,
            lower_bound: None,
            is_indefinite: false,
            reason: None,
            is_sender_limited: false,
            shaper: None,
            fastest_burst_rate: None,
            waiting_fraction: None,
            is_disordered: false,
            has_small_bucket: false,
            may_be_round_robin: true,
            slowest_long_train_rate: None,
            fastest_long_train_rate: None,
            median_burst_bits: 84e3,
            median_train_bits: 0.0,
            burst_rate_error: 0.0,
            bursts_used: 20,
            trains_rejected: BTreeMap::new(),
        };
        for possible in [outcome(rates(20, 30)), outcome(rates(50, 80)), outcome(rates(53, 55))] {
            assert_eq!(capacity.refuse_above_capacity(possible.clone(), None), possible);
        }
        let refuted = capacity.refuse_above_capacity(outcome(rates(56, 64)), None);
        assert_eq!((refuted.available, refuted.spread), (None, None));
        let reason = Reason::AboveCapacity(Rate::from_mbit(60), Rate::from_mbit(50));
        assert_eq!(refuted.reason, Some(reason));
        let bounded = |rate| Outcome {
            available: None,
            bound: Some(Bound::AtLeast(Rate::from_mbit(rate), BoundKind::Sender)),
            ..outcome(rates(1, 2))
        };
        assert_eq!(capacity.refuse_above_capacity(bounded(50), None), bounded(50));
        assert_eq!(capacity.refuse_above_capacity(bounded(60), None).bound, None);
        let unknown = Capacity { bottleneck_rate: None, reason: Some(CapacityReason::PacketsLost), ..capacity };
        assert!(unknown.refuse_above_capacity(outcome(rates(56, 64)), None).available.is_some());
        let at_least = Some(Rate::from_mbit(100));
        let faster = Capacity { lower_bound: at_least, is_sender_limited: true, ..unknown };
        let refuted = faster.refuse_above_capacity(outcome(rates(56, 64)), None);
        assert_eq!(refuted.bound, Some(Bound::AtLeast(Rate::from_mbit(56), BoundKind::Sender)));
        assert!(refuted.available.is_none() && refuted.reason == Some(Reason::FasterThanSender(Rate::from_mbit(100))));
        assert!(faster.refuse_above_capacity(outcome(rates(40, 48)), None).available.is_some());
    }
}
