use train::Estimate;
use units::Rate;

/// What became of a rate in a longer train.
#[derive(Debug, Clone, PartialEq)]
pub enum Sustained {
    /// It was not tried, for this reason.
    Untried(&'static str),
    /// So many bytes passed at it as short trains did: only a token bucket with a larger burst may be overlooked.
    Lasts {
        /// Bytes of the longest train.
        bytes: u64,
    },
    /// It does not last.
    Limited(Limiter),
}

/// A token bucket that limits the path in the long run.
#[derive(Debug, Clone, PartialEq)]
pub struct Limiter {
    /// Whether it drops or delays what exceeds it; none where that could not be told.
    pub policing: Option<Policing>,
    /// What arrived of the longer train once the burst was used up, in bit/s: no more than that is available.
    pub delivered: Rate,
    /// What lasts beside the cross traffic; none where it could not be told.
    pub available: Option<Estimate<Rate>>,
    /// The rate of the bucket; none where it could not be told.
    pub committed_rate: Option<Estimate<Rate>>,
    /// The bucket's size in bytes.
    pub burst_bytes: Option<Estimate<u64>>,
}

/// What a token bucket does with packets that exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policing {
    /// A policer.
    Drops,
    /// A shaper.
    Delays,
}
