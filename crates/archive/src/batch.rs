use crate::{Event, Gap, NewRun, PairId};
use kumade_sketch::Sample;

/// What an agent delivers at once, under a number of its own. Delivered again, it changes nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// One run of an agent's process, and which agent: numbers begin anew with each.
    pub instance: String,
    /// Its number within the instance, counted from any start, in any order.
    pub sequence: u64,
    /// Light probes, by pair.
    pub samples: Vec<(PairId, Vec<Sample>)>,
    /// Exclusive runs that have ended.
    pub runs: Vec<NewRun>,
    /// What happened.
    pub events: Vec<Event>,
    /// When there was nothing to measure with, and why.
    pub gaps: Vec<Gap>,
}

/// What became of a batch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is written by the next commit.
    Staged,
    /// It was delivered before: acknowledge it again.
    Repeated,
}

/// A batch that is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// Whose it is.
    pub instance: String,
    /// Its number.
    pub sequence: u64,
    /// Probes that were not kept: their time is in the future, too long ago, or their pair is unknown.
    pub refused_samples: u64,
}
