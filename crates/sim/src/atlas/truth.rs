//! What was true of a path while it was measured, and how a result compares with that.

use super::draw::DrawnPath;
use kumade_probe_train::{Estimate, Transport};
use kumade_units::Rate;
use serde::{Deserialize, Serialize};

/// What was true while a path was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathTruth {
    /// The sustained rate less cross traffic, or what a link whose rate varies leaves beside it.
    pub available: Rate,
    /// What the path carries without cross traffic.
    pub carried: Rate,
    /// What one more flow that is always sending could have, where flows have queues of their own.
    pub fair_share: Option<Rate>,
    /// What one flow can have on the worst and on the best of several links side by side.
    pub ecmp_link_range: Option<(Rate, Rate)>,
}

/// How a result compares with the truth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EstimateError {
    /// The value less the truth, as a part of what the path carries without cross traffic.
    pub error_ratio: f64,
    /// Whether the interval contains the truth.
    pub covers_truth: bool,
    /// How far the interval is from the truth, as a part of the truth.
    pub miss_ratio: f64,
    /// The interval's width as a part of the truth.
    pub width_ratio: f64,
}

/// A statement that is false although it is made with confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EstimateFault {
    /// The interval misses the truth by more than 5 % of it.
    Value,
    /// More is said to be available at least than there is, by more than 5 %.
    LowerBound,
    /// Less is said to be available at most than there is, by more than 5 %.
    UpperBound,
}

/// From this part of the truth on, an interval that misses it is a [`EstimateFault`].
const MAX_MISS_RATIO: f64 = 0.05;

impl PathTruth {
    /// From what was available on this path, as its ledger has it, while it carried so much.
    pub fn new(path: &DrawnPath, available: Rate, carried: Rate) -> Self {
        let equal = path.sustained_rate.as_f64() / f64::from(path.cross_flows + 1);
        let share = || Rate::from_f64(available.as_f64().max(equal));
        PathTruth { available, carried, fair_share: path.has_flow_queueing.then(share), ecmp_link_range: None }
    }

    /// The same where each flow takes one of several links side by side, of which so much is left: one flow sees the link that it
    /// takes, and many see them all.
    pub(super) fn over_ecmp_links(self, left: &[Rate], transport: Transport, taken: usize) -> Self {
        let available = if transport == Transport::Udp { left.get(taken).copied() } else { None };
        let members = left.iter().min().copied().zip(left.iter().max().copied());
        PathTruth { available: available.unwrap_or(self.available), ecmp_link_range: members, ..self }
    }
}

impl EstimateError {
    /// Of an interval for `truth` on a path that carries `sustained`.
    pub fn compare(found: &Estimate<Rate>, truth: Rate, sustained: Rate) -> Self {
        let [value, low, high] = [found.value, found.low, found.high].map(Rate::as_f64);
        let (truth, sustained) = (truth.as_f64(), sustained.as_f64());
        let scale = truth.max(0.01 * sustained);
        EstimateError {
            error_ratio: (value - truth) / sustained,
            covers_truth: (low..=high).contains(&truth),
            miss_ratio: (low - truth).max(truth - high).max(0.0) / scale,
            width_ratio: (high - low) / scale,
        }
    }

    /// Whether the interval is wrong with confidence.
    pub fn fault(&self) -> Option<EstimateFault> {
        (self.miss_ratio > MAX_MISS_RATIO).then_some(EstimateFault::Value)
    }
}

impl EstimateFault {
    /// Of statements that at least or at most so much is available.
    pub fn compare_bounds(at_least: Option<Rate>, at_most: Option<Rate>, truth: Rate) -> Option<Self> {
        let truth = truth.as_f64();
        let above = at_least.is_some_and(|bound| bound.as_f64() > truth * (1.0 + MAX_MISS_RATIO));
        let below = at_most.is_some_and(|bound| bound.as_f64() < truth * (1.0 - MAX_MISS_RATIO));
        above.then_some(EstimateFault::LowerBound).or(below.then_some(EstimateFault::UpperBound))
    }
}
