use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use train::{Estimate, Train, TrainRecord};
use units::{Rate, Span, Time};

/// Why a train was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejection {
    /// So many packets or stamps were missing that nothing can be said.
    PacketsMissing,
    /// Packets came in a clump faster than the path could have delivered them: the receiver's machine stalled.
    ReceiverStalled,
    /// The delay jumped once, out of all proportion: something on the path stood still for a moment.
    PathStalled,
    /// The congestion window or another limit of the sender's transport broke the train up.
    SendingDisturbed,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejection::PacketsMissing => "too many packets or time stamps were missing",
            Rejection::ReceiverStalled => "the receiver's machine stalled",
            Rejection::PathStalled => "the path stood still for a moment",
            Rejection::SendingDisturbed => "the transport did not send the packets when it was asked to",
        })
    }
}

/// What a measurement of one direction came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Available bandwidth, averaged over the measurement; none where the path could not be measured.
    pub available: Option<Estimate<Rate>>,
    /// Why there is no value. Some exactly where `available` is none.
    pub reason: Option<String>,
    /// Standard deviation of the available bandwidth between trains: how much the truth itself moved.
    pub spread: Option<Rate>,
    /// The capacity of the link that limits the path, as far as the method needed it.
    pub capacity: Option<Rate>,
    /// Trains that went into the value.
    pub trains_used: u32,
    /// Trains that did not, by cause.
    pub trains_rejected: BTreeMap<Rejection, u32>,
    /// What a reader of the value should know.
    pub warnings: Vec<String>,
}

/// What a method wants done next; `O` is what it comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<O = Outcome> {
    /// Wait that long (counted from the last packet of the train before), then send this train.
    Send {
        /// How long the path needs to drain first.
        wait: Span,
        /// What to send.
        train: Train,
    },
    /// Nothing more to send.
    Done(O),
}

/// An estimator: plans trains, reads records, says when it knows enough. See the crate's loop contract.
pub trait Method {
    /// What to do now. `now` may come from any clock that runs steadily; budgets of time are counted on it.
    fn next(&mut self, now: Time) -> Step;

    /// What became of the train that [`next`](Method::next) last asked for.
    fn record(&mut self, train: &TrainRecord);

    /// The value so far, for a progress display.
    fn so_far(&self) -> Option<Rate>;
}
