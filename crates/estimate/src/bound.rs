//! What is known of the available bandwidth where a method's reach ended before the path did.

use kumade_units::Rate;

/// A one-sided bound of the available bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// At least this rate is available: what could be sent did not fill the path.
    AtLeast(Rate, BoundKind),
    /// At most this rate is available: even the lowest rate that was tried exceeded it.
    AtMost(Rate, BoundKind),
}

/// What kept a method from finding the value itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoundKind {
    /// The sending host could not send faster.
    Sender,
    /// Packets follow each other as fast as a host may take for each.
    Host,
    /// The budget was spent.
    Budget,
    /// The method tries no other rates with these parameters.
    RateRange,
    /// A policer or a token bucket passes more for a burst only, and what lasts beside cross traffic could not be told.
    TokenBucket,
    /// Flows have queues of their own, so that one flow sees its share only, and many see nothing of cross traffic.
    FlowQueueing,
    /// A queue kept growing at a rate that short trains found available.
    QueueGrowth,
    /// Longer trains lost packets at a rate that short trains found available.
    Loss,
    /// The path is nearly full: what is free may be what other connections give up to the trains themselves.
    NearlyFull,
}

impl Bound {
    /// The lower bound, if it is one.
    pub fn lower_bound(&self) -> Option<Rate> {
        match *self {
            Bound::AtLeast(rate, _) => Some(rate),
            Bound::AtMost(..) => None,
        }
    }

    /// The upper bound, if it is one.
    pub fn upper_bound(&self) -> Option<Rate> {
        match *self {
            Bound::AtMost(rate, _) => Some(rate),
            Bound::AtLeast(..) => None,
        }
    }

    /// Why there is no more than a bound.
    pub fn kind(&self) -> BoundKind {
        match *self {
            Bound::AtLeast(_, limit) | Bound::AtMost(_, limit) => limit,
        }
    }
}

impl BoundKind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            BoundKind::Sender => "sender",
            BoundKind::Host => "host",
            BoundKind::Budget => "budget",
            BoundKind::RateRange => "range",
            BoundKind::TokenBucket => "token-bucket",
            BoundKind::FlowQueueing => "flow-queueing",
            BoundKind::QueueGrowth => "growing-queue",
            BoundKind::Loss => "loss",
            BoundKind::NearlyFull => "nearly-full",
        }
    }
}
