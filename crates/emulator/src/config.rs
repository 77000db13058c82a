use crate::error::EmulatorError;
use link::queue::QueueConfig;
use link::{Link, LinkConfig};
use middlebox::{Middlebox, MiddleboxConfig, Rule};
use std::hash::{BuildHasher, RandomState};

/// What happens to the packets of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionConfig {
    /// Rate, delay, jitter and loss.
    pub link: LinkConfig,
    /// The queue in front of the link, and its discipline.
    pub queue: QueueConfig,
    /// Filter rules in front of the queue; `None` lets everything pass. Packets other than IP pass in any case.
    pub rules: Option<MiddleboxConfig>,
}

impl DirectionConfig {
    /// Whether these settings are possible.
    ///
    /// # Errors
    /// They are not, and why.
    pub fn check(&self) -> Result<(), EmulatorError> {
        self.link.check()?;
        self.queue.check()?;
        let Some(rules) = &self.rules else { return Ok(()) };
        if rules.nat.is_some() || !rules.prefixes.is_empty() {
            return Err(EmulatorError::Translation);
        }
        Ok(rules.rules.iter().try_for_each(Rule::check)?)
    }

    pub(crate) fn build<P>(&self) -> Result<(Link<P>, Option<Middlebox>), EmulatorError> {
        self.check()?;
        let link = Link::with_queue(self.link.clone(), &self.queue)?;
        Ok((link, self.build_rules()?))
    }

    pub(crate) fn build_rules(&self) -> Result<Option<Middlebox>, EmulatorError> {
        // Nobody outside may know the key of the tables' hashes.
        let random = RandomState::new();
        let seed = u128::from(random.hash_one(0)) << 64 | u128::from(random.hash_one(1));
        Ok(self.rules.clone().map(|rules| Middlebox::new(rules, seed)).transpose()?)
    }
}
