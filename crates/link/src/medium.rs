pub(crate) mod schedule;
pub(crate) mod token_bucket;
pub(crate) mod trace;
pub(crate) mod wireless;

pub use schedule::RateSchedule;
pub use token_bucket::TokenBucket;
pub use trace::{Trace, TraceError};
pub use wireless::Wireless;

use kumade_units::{ConfigError, Rate};

/// How a link transmits packets, where it is not at a constant rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// At a rate that changes at given times.
    Schedule(RateSchedule),
    /// Shaped by a token bucket in front of the link's rate.
    TokenBucket(TokenBucket),
    /// At the transmission opportunities recorded on a cellular network.
    Trace(Trace),
    /// In aggregates and at a varying rate, as a wireless last hop does.
    Wireless(Wireless),
}

impl Medium {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Medium::TokenBucket(bucket) => bucket.check(),
            Medium::Wireless(wireless) => wireless.check(),
            Medium::Schedule(_) | Medium::Trace(_) => Ok(()),
        }
    }

    /// As fast as it gets, for long enough to fill a delay.
    pub(crate) fn highest_rate(&self) -> Rate {
        match self {
            Medium::Schedule(schedule) => schedule.highest_rate(),
            Medium::TokenBucket(bucket) => bucket.rate,
            Medium::Trace(trace) => trace.mean_rate(),
            Medium::Wireless(wireless) => Wireless::physical_rate(wireless.fastest),
        }
    }
}
