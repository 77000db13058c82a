use super::red::{self, RedConfig, RedQueue, Rule};
use crate::queue::discipline::DisciplineConfig;
use crate::queue::heavy::{self, Detector, Heavy, Preference};
use crate::queue::packet::Limit;
use crate::queue::parameter::{Given, Parameter};
use kumade_units::{ConfigError, Rate};

/// The settings of [`ActiveDropping`].
#[derive(Debug, Clone, PartialEq, Default)]
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

/// Packets of heavy flows are dropped by preference.
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

impl AsMut<RedConfig> for ActiveDroppingConfig {
    fn as_mut(&mut self) -> &mut RedConfig {
        &mut self.red
    }
}

impl AsMut<Heavy> for ActiveDroppingConfig {
    fn as_mut(&mut self) -> &mut Heavy {
        &mut self.heavy
    }
}

impl AsMut<Preference> for ActiveDroppingConfig {
    fn as_mut(&mut self) -> &mut Preference {
        &mut self.preference
    }
}

impl DisciplineConfig for ActiveDroppingConfig {
    const NAME: &'static str = "active-dropping";
    const SUMMARY: &'static str = "RED that drops by preference from heavy flows";
    const TRIALS: &'static [&'static str] = &[
        "active-dropping:min=1500b:max=9000b:probability=50%:weight=10%:rec-int=2:hist-len=20:stat-int=5",
        "active-dropping:min=1500b:max=9000b:probability=50%:weight=10%:gentle=off:ecn=on:heavy-flows=7,9:preference=100%/10%",
    ];
    type Queue<P> = ActiveDropping<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        red::parameters().into_iter().chain(heavy::parameters()).collect()
    }

    fn fit(&mut self, rate: Option<Rate>, given: &Given) {
        self.red.fit(rate, given);
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.red.check()?;
        heavy::check(&self.heavy, self.preference)
    }

    fn queue<P>(&self, limit: Limit, seed: u64) -> ActiveDropping<P> {
        let detector = Detector::new(&self.heavy, self.preference, seed);
        RedQueue::with_rule(limit, self.red, PreferHeavy(detector), seed)
    }
}
