use super::red::{RedQueue, Rule};
use super::{Limit, RedConfig};
use units::ConfigError;

/// CHOKe (Pan, Prabhakar, Psounis 2000): while the average length is above RED's minimum, an arriving packet is
/// compared with one drawn from the queue. If both are of the same flow, both are dropped, else RED decides. A flow
/// that fills the queue meets itself often; no state of flows is kept.
pub type Choke<P> = RedQueue<P, MeetItself>;

/// A flow that fills the queue meets itself.
#[derive(Debug)]
pub struct MeetItself;

impl Rule for MeetItself {
    const MEETS: bool = true;
}

impl<P> Choke<P> {
    pub(super) fn new(limit: Limit, config: RedConfig, seed: u64) -> Result<Self, ConfigError> {
        RedQueue::with_rule(limit, config, MeetItself, seed)
    }
}
