use kumade_probe_train::Estimate;
use kumade_units::Rate;

/// What became of a rate in a longer train.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicingResult {
    /// It was not tried, for this reason.
    NotTried(&'static str),
    /// So many bytes passed at it as short trains did: only a token bucket with a larger burst may be overlooked.
    Sustainable {
        /// Bytes of its trains, sent one right behind the other.
        bytes: u64,
        /// The rate at which it was sent.
        rate: Rate,
        /// By how many seconds a second the delay may have grown, hidden by cross traffic that varies.
        max_growth: f64,
        /// The part of its packets that waited for others; none where the stamps are not exact enough to tell.
        waiting_part: Option<f64>,
    },
    /// A part of its packets passed, where others may be lost at any rate.
    PassesPartly {
        /// Bytes of its trains.
        bytes: u64,
        /// The rate at which it was sent.
        rate: Rate,
        /// The rate at which it arrived, from where it arrived most slowly to the end.
        arrival_rate: Rate,
    },
    /// A queue keeps growing at this rate, though hardly less arrives than is sent, or is full all the time: more was sent than is
    /// available.
    Overloads {
        /// What was sent.
        rate: Rate,
        /// What is available, as trains of several rates tell; none where they do not, or none were sent.
        available: Option<Estimate<Rate>>,
    },
    /// Packets were lost of it. Whether a policer dropped them, or as many are lost of any rate, could not be told.
    LosesPackets {
        /// What was sent.
        rate: Rate,
    },
    /// It does not last.
    Limited(PolicerOrShaper),
}

/// A token bucket that limits the path in the long run.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicerOrShaper {
    /// Whether it drops or delays what exceeds it; none where that could not be told.
    pub excess_action: Option<ExcessAction>,
    /// What arrived of the longer train once the burst was used up: no more than that is available, but for chance.
    pub delivered_rate: Rate,
    /// What was sent then, which is more than is available.
    pub sent_rate: Rate,
    /// By so much more than that may be available: cross traffic may have been more than usual meanwhile.
    pub available_uncertainty: Rate,
    /// Bytes that passed of the longer train before it fell, beyond what lasts: a queue would have to hold as much.
    pub excess_bytes: u64,
    /// What lasts beside the cross traffic; none where it could not be told.
    pub available: Option<Estimate<Rate>>,
    /// The rate of the bucket; none where it could not be told.
    pub committed_rate: Option<Estimate<Rate>>,
    /// The bucket's size in bytes.
    pub burst_bytes: Option<Estimate<u64>>,
}

/// What a token bucket does with packets that exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExcessAction {
    /// A policer.
    Drops,
    /// A shaper.
    Delays,
}
