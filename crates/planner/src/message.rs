//! What a coordinator and an agent say to each other.

use crate::id::{AgentId, ResourceId, RunId};
use crate::token::Token;
use kumade_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// From an agent to the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessage {
    /// The agent lives. The first message of each connection, and then sent at intervals.
    Heartbeat(Heartbeat),
    /// A granted run has begun at this end.
    Began {
        /// Of its grant.
        token: Token,
    },
    /// A granted run has ended at this end, or will never begin there.
    Ended {
        /// Of its grant.
        token: Token,
        /// What became of it.
        outcome: Outcome,
        /// From its begin, zero if it has not begun.
        took: Span,
    },
}

/// The whole state of an agent that the coordinator has to know, so that no single message has to arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// A random number of the agent's process: what was granted to an earlier one is void.
    pub instance: u64,
    /// When it was sent, by the agent's own clock that never goes back, and that runs while the host is suspended
    /// (`CLOCK_BOOTTIME`). Deadlines of grants count from it.
    pub stamp: Time,
    /// The grants that it holds.
    pub held: Vec<Token>,
    /// Who else measures at this host, and uses the links that all of its traffic takes.
    pub claim: Option<String>,
    /// Why nothing may begin at this host although nobody measures there: what is used up.
    #[serde(default)]
    pub unavailable: Option<String>,
}

/// A run may use its resources, within these times. From the coordinator to the agent at each end.
///
/// The spans count from a time stamp that the *receiver* sent before the grant was made. So however long the grant takes to arrive, it
/// is void when the coordinator believes that it is. (Counted from its arrival, a delayed grant would let a run start while
/// another one has the resources.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What is measured.
    pub run: RunId,
    /// Greater than that of each earlier grant.
    pub token: Token,
    /// What this end has to do.
    pub role: Role,
    /// The agent at the other end, where there is one.
    pub peer: Option<AgentId>,
    /// What the run uses.
    pub resources: Vec<ResourceId>,
    /// The process that it is for: [`Heartbeat::instance`].
    pub instance: u64,
    /// The receiver's time stamp from which the spans count: [`Heartbeat::stamp`].
    pub stamp: Time,
    /// It must begin within this.
    pub start_within: Span,
    /// It must end within this.
    pub end_within: Span,
}

/// What an end of a run has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It connects to the other end, and asks for trains.
    Initiator,
    /// It answers, and carries trains of the newest token only.
    Responder,
}

/// What became of a granted run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Finished,
    /// It began, and failed.
    Failed(String),
    /// It was ended at the end of its slot.
    CutOff,
    /// It did not begin in time.
    NotStarted,
    /// The agent gave the slot up.
    Refused(Refusal),
    /// Nothing was heard of it.
    Lost,
}

/// Why an agent gives a slot up, or carries no train.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// Someone else measures at this host.
    #[error("this host is not free: {0}")]
    Claimed(String),
    /// Its time had passed when it arrived, or has since.
    #[error("the time of the grant has passed")]
    Late,
    /// There is no grant with this token: not yet, or no longer.
    #[error("no grant with this token is held")]
    NotHeld,
    /// The run has not begun at this end.
    #[error("the run has not begun")]
    NotBegun,
    /// The coordinator can't be reached.
    #[error("the coordinator can't be reached")]
    Disconnected,
}

impl Outcome {
    /// Whether the run was tried as far as the planner can bring it: a run that failed is not repeated before its next cycle; one whose slot was
    /// too short is, with a longer one.
    pub fn is_served(&self) -> bool {
        matches!(self, Outcome::Finished | Outcome::Failed(_))
    }

    /// Whether an agent gave the slot up: nothing was measured, and the run is planned again.
    pub fn is_refused(&self) -> bool {
        matches!(self, Outcome::Refused(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Finished => f.write_str("finished"),
            Outcome::Failed(reason) => write!(f, "failed: {reason}"),
            Outcome::CutOff => f.write_str("ended at the end of its slot"),
            Outcome::NotStarted => f.write_str("did not begin in time"),
            Outcome::Refused(refusal) => write!(f, "refused: {refusal}"),
            Outcome::Lost => f.write_str("nothing was heard of it"),
        }
    }
}
