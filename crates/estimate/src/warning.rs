//! What limits a value, as data with its sentence beside it.

use crate::ExcessAction;
use crate::reason::{ArrivalPattern, excess_words};
use kumade_units::Rate;
use thiserror::Error;

/// A limit of a value's accuracy and validity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Warning {
    /// Bursts pass at this rate.
    #[error("bursts pass at {0}, far above the sustained rate: a token bucket shapes the path")]
    BurstsPass(Rate),
    /// Queues grow as on a link of the first rate; packets sent at once arrive at the second one.
    #[error(
        "the tight link is not the narrow link: queues grow as on a link of {0}, and packets sent at once arrive at {1}"
    )]
    TightLink(Rate, Rate),
    /// A queue holds no whole train.
    #[error("the queue at the bottleneck is too short for a whole train: the value is less accurate")]
    ShortQueue,
    /// A queue grew in a longer train at this rate.
    #[error(
        "a longer train at {0} kept a queue growing: the value is the rate above which one grows, at whichever link"
    )]
    QueueGrowth(Rate),
    /// More passes for a burst.
    #[error("{}: the value is what lasts", excess_words(*.0))]
    BurstsDoNotLast(Option<ExcessAction>),
    /// The mean over so many long trains, in which the link carried from the first rate to the second one.
    #[error("{0}: the value is the mean over {1} long trains, in which the link carried from {2} to {3}")]
    MeanOfLongTrains(ArrivalPattern, u32, Rate, Rate),
    /// It is open whether flows have queues of their own.
    #[error(
        "at this rate it is not told whether flows have queues of their own: then the value is the fair share of one flow"
    )]
    MaybeFairShare,
    /// Sparse packets gave the value, since flows have queues of their own.
    #[error("flows have queues of their own: the value is what the link leaves idle, as sparse small packets see it")]
    IdleBesideFlowQueueing,
    /// The interval joins what sparse packets and trains found.
    #[error(
        "flows have queues of their own: the interval reaches from what sparse small packets found idle to what trains found"
    )]
    WideBesideFlowQueueing,
    /// Sparse packets gave the value, since trains lose packets.
    #[error(
        "trains lose packets, or wait in queues, at any rate: the value is what the link leaves idle, as sparse small packets see it"
    )]
    IdleDespiteLosses,
    /// This published method states no confidence.
    #[error("{0} is the published rule: it states no confidence")]
    NoConfidence(&'static str),
    /// PathTester's first rule.
    #[error("pathtester-classic is the published rule: it states no confidence, and is accurate to a factor of two")]
    FactorOfTwo,
    /// PathTester's interval.
    #[error(
        "pathtester states three standard deviations of its trains: 99.73 % of them lie within, if they are normally distributed; that the true \
         value does is an assumption of the paper"
    )]
    ThreeDeviations,
    /// pathChirp's interval.
    #[error(
        "pathchirp is the published rule: it states no confidence; the interval is one standard deviation between its chirps"
    )]
    ChirpDeviation,
    /// The interval of so many searches of this method.
    #[error("{0} is the published rule: it states no confidence; the interval is that of its {1} searches")]
    SearchInterval(&'static str, u32),
    /// Pathload's interval.
    #[error(
        "pathload states a range in which the available bandwidth varies, without a confidence; the value is its middle"
    )]
    PathloadRange,
    /// Some intervals of packets were not tried.
    #[error("the budget was spent before every interval of the range had been tried")]
    IntervalsLeft,
    /// So many trains were left out.
    #[error("trains left out as outliers: {0}")]
    Outliers(u32),
    /// The budget allowed for so many of so many trains.
    #[error("the budget was spent after {0} of {1} trains")]
    TrainsLeft(u32, u32),
    /// The same of chirps.
    #[error("the budget was spent after {0} of {1} chirps")]
    ChirpsLeft(u32, u32),
    /// Pathload's range is wider than asked for.
    #[error("the budget was spent, or the lowest rate reached, before the range was as narrow as intended")]
    RangeTooWide,
    /// Pathload kept to a time budget.
    #[error("streams, fleets or the pauses between them were shorter than published, to keep to the time budget")]
    StreamsShortened,
}

impl Warning {
    /// Whether it says how a value came about, so that nothing is left to warn of where there is none.
    pub fn is_of_value(&self) -> bool {
        let is_of_path = matches!(self, Warning::BurstsPass(_) | Warning::TightLink(..));
        let is_of_budget = matches!(
            self,
            Warning::IntervalsLeft
                | Warning::Outliers(_)
                | Warning::TrainsLeft(..)
                | Warning::ChirpsLeft(..)
                | Warning::StreamsShortened
        );
        !is_of_path && !is_of_budget
    }
}
