use super::red::{self, RedConfig, RedQueue, RedRule};
use crate::queue::discipline::DisciplineConfig;
use crate::queue::heavy_flows::{self, DropPreference, HeavyFlowDetector, HeavyFlows};
use crate::queue::packet::QueueLimit;
use crate::queue::parameter::{GivenParameters, Parameter};
use kumade_units::{ConfigError, Rate};

/// The settings of [`ActiveDropping`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActiveDroppingConfig {
    /// The RED beneath.
    pub red: RedConfig,
    /// Which flows are dropped by preference, …
    pub heavy: HeavyFlows,
    /// … and how strongly.
    pub preference: DropPreference,
}

/// Active Packet Dropping (Akiyama, Koza, Yamaguchi 2014): RED whose probability of a drop is multiplied by one factor
/// for heavy flows and by another for the rest. Where RED drops everything, it does too.
pub type ActiveDropping<P> = RedQueue<P, HeavyFlowRule>;

/// Packets of heavy flows are dropped by preference.
#[derive(Debug)]
pub struct HeavyFlowRule(HeavyFlowDetector);

impl RedRule for HeavyFlowRule {
    fn observe(&mut self, flow: u64) {
        self.0.observe(flow);
    }

    fn drop_factor(&self, flow: u64) -> f64 {
        self.0.probability(flow)
    }
}

impl AsMut<RedConfig> for ActiveDroppingConfig {
    fn as_mut(&mut self) -> &mut RedConfig {
        &mut self.red
    }
}

impl AsMut<HeavyFlows> for ActiveDroppingConfig {
    fn as_mut(&mut self) -> &mut HeavyFlows {
        &mut self.heavy
    }
}

impl AsMut<DropPreference> for ActiveDroppingConfig {
    fn as_mut(&mut self) -> &mut DropPreference {
        &mut self.preference
    }
}

impl DisciplineConfig for ActiveDroppingConfig {
    const NAME: &'static str = "active-dropping";
    const SUMMARY: &'static str = "RED that drops by preference from heavy flows";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "active-dropping:min=1500b:max=9000b:probability=50%:weight=10%:rec-int=2:hist-len=20:stat-int=5",
        "active-dropping:min=1500b:max=9000b:probability=50%:weight=10%:gentle=off:ecn=on:heavy-flows=7,9:preference=100%/10%",
    ];
    type Queue<P> = ActiveDropping<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        red::parameters().into_iter().chain(heavy_flows::parameters()).collect()
    }

    fn adapt_to_rate(&mut self, rate: Option<Rate>, given: &GivenParameters) {
        self.red.adapt_to_rate(rate, given);
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.red.check()?;
        heavy_flows::check(&self.heavy, self.preference)
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> ActiveDropping<P> {
        let detector = HeavyFlowDetector::new(&self.heavy, self.preference, seed);
        RedQueue::with_rule(limit, self.red, HeavyFlowRule(detector), seed)
    }
}
