use crate::statistics::DirectionStatistics;
use crate::{BridgeError, PortSpec};
use link::LinkConfig;
use link::middlebox::MiddleboxConfig;
use link::queue::QueueConfig;

/// What happens to the packets of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionConfig {
    /// Rate, delay, jitter and loss.
    pub link: LinkConfig,
    /// What waits for the link, and what of it is dropped.
    pub queue: QueueConfig,
    /// What is refused before the link; `None` lets everything pass, other than IP too.
    pub rules: Option<MiddleboxConfig>,
}

/// A running bridge.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// Joins two ports: direction 0 leads from the first to the second, direction 1 back.
    ///
    /// # Errors
    /// A port cannot be opened, or a setting is impossible.
    pub fn start(_ports: [PortSpec; 2], _directions: [DirectionConfig; 2]) -> Result<Self, BridgeError> {
        Ok(Engine {})
    }

    /// Changes one direction (0 or 1) while it runs.
    ///
    /// # Errors
    /// The setting is impossible, and nothing is changed; or the bridge has ended.
    pub fn set(&self, _direction: usize, _config: DirectionConfig) -> Result<(), BridgeError> {
        Ok(())
    }

    /// What both directions have done so far.
    pub fn statistics(&self) -> [DirectionStatistics; 2] {
        Default::default()
    }
}
