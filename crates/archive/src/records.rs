use crate::{HostId, PairId};
use kumade_units::Time;
use serde::{Deserialize, Serialize};

/// Something that happened, for people and for later questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, UTC.
    pub at: Time,
    /// A word for programs: `clock-step`, `agent-connected` …
    pub kind: String,
    /// Which host it is about, if one.
    pub host: Option<HostId>,
    /// Which pair, if one.
    pub pair: Option<PairId>,
    /// A sentence.
    pub text: String,
}

/// A time without probes, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Of which pair.
    pub pair: PairId,
    /// From when, UTC.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// In words: `the agent did not run`.
    pub cause: String,
}

/// Who wrote what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When, UTC.
    pub at: Time,
    /// The name of the key or account.
    pub who: String,
    /// What was done, to what.
    pub what: String,
}
