//! Why there is no capacity, as data with its sentence beside it.

use kumade_units::{Rate, Span};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why there is no value of the capacity. Documents have its sentence alone, as which it is read again.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
#[non_exhaustive]
pub enum CapacityReason {
    /// Bursts did not arrive whole.
    #[error("too many packets were lost")]
    PacketsLost,
    /// The capacity is above this rate.
    #[error("the path is faster than the sender: its capacity is above {0}")]
    SendingSlower(Rate),
    /// Stamps are those of batches.
    #[error("the receiving network device reports packets in batches")]
    Batches,
    /// Bursts of so many packets of so many bytes show each of these rates.
    #[error("bursts disagree: {}", burst_words(.0))]
    BurstsDisagree(Vec<(u32, u32, Rate)>),
    /// Bursts show the first rate; a long train arrived at the second one.
    #[error("bursts and long trains disagree: bursts show {0}, a long train arrived at {1}")]
    LongTrainDisagrees(Rate, Rate),
    /// Few packets arrived at the first rate, many at the second one.
    #[error("trains disagree: few packets arrived at {0}, many at {1}")]
    TrainsDisagree(Rate, Rate),
    /// The first packets pass at once.
    #[error(
        "only the first few packets of a train pass at once, as by a small token bucket, flow queueing, or a device that reports packets in batches"
    )]
    SmallBucket,
    /// Too few bursts passed undelayed.
    #[error("there is too much cross traffic for so few packets")]
    TooFewPackets,
    /// The capacity is between these rates.
    #[error("there is too much cross traffic: the capacity may be anywhere from {0} to {1}")]
    TooMuchCrossTraffic(Rate, Rate),
    /// Nothing may be sent.
    #[error("the budget allows no packet for it")]
    NoBudget,
    /// Nothing arrived.
    #[error("no packet arrived")]
    NoPacketArrived,
    /// More would have to be sent.
    #[error("the budget of bytes and time does not suffice")]
    BudgetSpent,
    /// Those sent in bursts, which are faster, arrive at this rate.
    #[error("packets sent one by one do not fill it; those sent in bursts arrive at {0}")]
    FasterInBursts(Rate),
    /// The sender sent this rate through the path.
    #[error("the path is faster than the sender, which sent {0} through it")]
    FasterThanSender(Rate),
    /// Longer trains arrive at this rate.
    #[error("packets pass faster for a while only: longer trains arrive at {0}")]
    FasterForBursts(Rate),
    /// Flows have queues of their own: what seemed to be the link's rate may be one flow's share of it.
    #[error("flows have queues of their own: what a train shows of the link may be one flow's share of it")]
    FlowQueueing,
    /// Stamps of this host scatter by so much, and bursts arrive within the second time.
    #[error("time stamps of this host scatter by {0}, too much for bursts of {1}")]
    CoarseStamps(Span, Span),
    /// Another one, in words: what a document says that was read.
    #[error("{0}")]
    Other(String),
}

impl CapacityReason {
    /// What the capacity is at least nevertheless.
    pub(super) fn lower_bound(&self) -> Option<Rate> {
        match *self {
            CapacityReason::SendingSlower(rate) | CapacityReason::TooMuchCrossTraffic(rate, _) => {
                Some(rate).filter(|rate| *rate > Rate::ZERO)
            }
            _ => None,
        }
    }

    /// Whether the capacity may be anything from zero on.
    pub(super) fn is_indefinite(&self) -> bool {
        matches!(*self, CapacityReason::TooMuchCrossTraffic(Rate::ZERO, _))
    }
}

impl From<String> for CapacityReason {
    fn from(words: String) -> Self {
        CapacityReason::Other(words)
    }
}

impl From<CapacityReason> for String {
    fn from(reason: CapacityReason) -> Self {
        reason.to_string()
    }
}

fn burst_words(bursts: &[(u32, u32, Rate)]) -> String {
    let words = bursts.iter().map(|(packets, size, rate)| format!("{packets} × {size} bytes show {rate}"));
    words.collect::<Vec<_>>().join(", ")
}
