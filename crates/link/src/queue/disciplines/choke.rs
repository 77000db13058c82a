use super::red::{self, RedConfig, RedQueue, RedRule};
use crate::queue::discipline::DisciplineConfig;
use crate::queue::packet::QueueLimit;
use crate::queue::parameter::{GivenParameters, Parameter};
use kumade_units::{ConfigError, Rate};

/// The settings of [`Choke`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChokeConfig {
    /// The RED beneath.
    pub red: RedConfig,
}

/// CHOKe (Pan, Prabhakar, Psounis 2000): while the average length is above RED's minimum, an arriving packet is
/// compared with one drawn from the queue. If both are of the same flow, both are dropped, else RED decides. A flow
/// with many packets in the queue is likely to be drawn; no state of flows is kept.
pub type Choke<P> = RedQueue<P, ChokeRule>;

/// Arriving packets are compared with one drawn from the queue.
#[derive(Debug)]
pub struct ChokeRule;

impl RedRule for ChokeRule {
    const COMPARES_FLOWS: bool = true;
}

impl AsMut<RedConfig> for ChokeConfig {
    fn as_mut(&mut self) -> &mut RedConfig {
        &mut self.red
    }
}

impl DisciplineConfig for ChokeConfig {
    const NAME: &'static str = "choke";
    const SUMMARY: &'static str =
        "CHOKe: RED that also drops a packet and one drawn from the queue if both are of one flow";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "choke:min=1500b:max=9000b:probability=50%:weight=10%",
        "choke:min=1500b:max=9000b:probability=50%:weight=10%:gentle=off:ecn=on",
    ];
    type Queue<P> = Choke<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        red::parameters()
    }

    fn adapt_to_rate(&mut self, rate: Option<Rate>, given: &GivenParameters) {
        self.red.adapt_to_rate(rate, given);
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.red.check()
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Choke<P> {
        RedQueue::with_rule(limit, self.red, ChokeRule, seed)
    }
}
