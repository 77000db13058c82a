use crate::bound::Bound;
use crate::reason::Reason;
use crate::rejection::Rejection;
use crate::warning::Warning;
use kumade_probe_train::{Estimate, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::collections::BTreeMap;

/// The result of a method for one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Available bandwidth, averaged over the measurement; none where the path could not be measured.
    pub available: Option<Estimate<Rate>>,
    /// What bounds it where the method's reach ended before the path did. Published methods then still give the end of
    /// their range as the value, as their papers do.
    pub bound: Option<Bound>,
    /// Why there is no value; none where there is one.
    pub reason: Option<Reason>,
    /// Standard deviation of the available bandwidth between trains: how much it varied during the measurement.
    pub spread: Option<Rate>,
    /// The capacity of the link that limits the path, as far as the method needed it.
    pub capacity: Option<Rate>,
    /// How fast the tight link is, where it has turned out not to be the narrow link.
    pub tight_link: Option<Rate>,
    /// The rate at which trains arrived in the end, where there is no value because they arrived ever more slowly: as behind a token
    /// bucket that was not known before.
    pub hidden_bucket: Option<Rate>,
    /// The interval of a value that was refused, from which an upper bound follows that stands in its place.
    pub refused: Option<Estimate<Rate>>,
    /// Trains that went into the value.
    pub trains_used: u32,
    /// Trains that were left out, by cause.
    pub trains_rejected: BTreeMap<Rejection, u32>,
    /// Limits of the value's accuracy and validity.
    pub warnings: Vec<Warning>,
}

impl Outcome {
    /// Nothing is known, for this reason.
    pub fn without_value(reason: Reason) -> Self {
        Outcome {
            available: None,
            bound: None,
            reason: Some(reason),
            spread: None,
            capacity: None,
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 0,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}

/// What a method wants done next; `O` is the type of its result.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<O = Outcome> {
    /// Wait this long after the last packet of the train before, then send this train.
    Send {
        /// How long queues need to drain first.
        wait: Span,
        /// What to send.
        train: Train,
    },
    /// The measurement is over.
    Done(O),
}

/// An estimator: plans trains, reads their records, and ends when the value is accurate enough or the budget spent. See
/// the crate's loop contract.
pub trait Method {
    /// What to do now. `now` may come from any monotonic clock; the time budget is counted on it.
    fn next(&mut self, now: Time) -> Step;

    /// Takes in the record of the train that [`next`](Method::next) last asked for.
    fn record(&mut self, train: &TrainRecord);

    /// The value so far, for a progress display.
    fn current_estimate(&self) -> Option<Rate>;

    /// The first and the last of the trains that the value rests on, by their number in the order of [`record`](Method::record), counted from zero;
    /// none where it rests on all of them.
    fn value_trains(&self) -> Option<(usize, usize)> {
        None
    }
}
