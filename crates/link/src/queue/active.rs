use super::heavy::Detector;
use super::red::{RedQueue, Rule};
use super::{Heavy, Limit, Preference, RedConfig};
use units::ConfigError;

/// The settings of [`ActiveDropping`].
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveDroppingConfig {
    /// The RED beneath.
    pub red: RedConfig,
    /// Which flows are dropped by preference, …
    pub heavy: Heavy,
    /// … and how strongly.
    pub preference: Preference,
}

/// Active Packet Dropping (Akiyama, Koza, Yamaguchi 2014): RED whose probability of a drop is multiplied by one factor
/// for heavy flows and by another for the rest. Where RED drops everything, it does too.
pub type ActiveDropping<P> = RedQueue<P, PreferHeavy>;

/// Heavy flows' packets are dropped by preference.
#[derive(Debug)]
pub struct PreferHeavy(Detector);

impl Rule for PreferHeavy {
    fn observe(&mut self, flow: u64) {
        self.0.observe(flow);
    }

    fn factor(&self, flow: u64) -> f64 {
        self.0.probability(flow)
    }
}

impl<P> ActiveDropping<P> {
    pub(super) fn new(limit: Limit, config: &ActiveDroppingConfig, seed: u64) -> Result<Self, ConfigError> {
        let detector = Detector::new(&config.heavy, config.preference, seed)?;
        RedQueue::with_rule(limit, config.red, PreferHeavy(detector), seed)
    }
}
