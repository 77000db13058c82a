use serde::{Deserialize, Serialize};
use std::fmt;

/// A fencing token: a later grant has a greater one, also if another coordinator gives it. Whoever checks that no greater one
/// has been seen for a resource refuses what comes late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Of the coordinator: each that begins to lead has a greater one.
    pub epoch: u64,
    /// Of the grant, within the epoch.
    pub number: u64,
}

impl fmt::Display for Token {
    /// `epoch.number`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.number)
    }
}
