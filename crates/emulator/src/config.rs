use kumade_link::queue::QueueConfig;
use kumade_link::{LinkConfig, Valid};
use kumade_middlebox::{FilterRule, Middlebox, MiddleboxConfig};
use kumade_units::ConfigError;
use std::hash::{BuildHasher, RandomState};

/// What happens to the packets of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionConfig {
    pub(crate) link: Valid<LinkConfig>,
    pub(crate) queue: Valid<QueueConfig>,
    pub(crate) rules: Vec<FilterRule>,
}

impl DirectionConfig {
    /// A link with this queue in front of it, and filter rules in front of both. Packets other than IP pass the rules in
    /// any case. This is the only place where the settings are checked.
    ///
    /// # Errors
    /// A setting is out of range, or the settings don't fit together.
    pub fn new(link: LinkConfig, queue: QueueConfig, rules: Vec<FilterRule>) -> Result<Self, ConfigError> {
        rules.iter().try_for_each(FilterRule::check)?;
        Ok(DirectionConfig { link: link.validate()?, queue: queue.validate()?, rules })
    }

    /// What applies the rules; `None` where there are none.
    pub(crate) fn middlebox(&self) -> Result<Option<Middlebox>, ConfigError> {
        if self.rules.is_empty() {
            return Ok(None);
        }
        // Nobody outside may know the key of the tables' hashes.
        let random = RandomState::new();
        let seed = u128::from(random.hash_one(0)) << 64 | u128::from(random.hash_one(1));
        let config = MiddleboxConfig { rules: self.rules.clone(), ..Default::default() };
        Middlebox::new(config, seed).map(Some)
    }
}
