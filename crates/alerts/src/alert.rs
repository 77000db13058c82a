use crate::pair::SharedRisk;
use kumade_units::Time;
use serde::{Deserialize, Serialize};

/// An alert that stands, or has stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Different from all others, also of earlier runs.
    pub id: String,
    /// The name of its rule.
    pub rule: String,
    /// The word of its condition.
    pub condition: String,
    /// What has failed, as far as known.
    pub cause: Cause,
    /// Ids of the pairs that it stands for.
    pub pairs: Vec<String>,
    /// When it was raised, UTC.
    pub raised: Time,
    /// One or two sentences.
    pub text: String,
}

/// What has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// One pair.
    Pair(String),
    /// What several pairs have in common.
    Shared(SharedRisk),
    /// The archive.
    Archive,
    /// An agent, by its id: nothing is heard of it.
    Agent(String),
    /// What all agents have in common: their coordinator, with its uplink.
    AllAgents,
}

/// What people are to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What has happened.
    pub kind: NoticeKind,
    /// To which alert, as it is now.
    pub alert: Alert,
    /// When, UTC.
    pub at: Time,
}

/// What has happened to an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// It stands from now on.
    Raised,
    /// Its cause turned out to be more than one pair.
    Changed,
    /// It stands no longer.
    Resolved,
}

impl NoticeKind {
    /// A word for programs.
    pub fn word(self) -> &'static str {
        match self {
            NoticeKind::Raised => "raised",
            NoticeKind::Changed => "changed",
            NoticeKind::Resolved => "resolved",
        }
    }
}

/// What is kept over a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SavedAlerts {
    /// Those that stand.
    pub standing: Vec<Alert>,
}
