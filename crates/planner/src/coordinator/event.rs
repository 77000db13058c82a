use crate::id::{AgentId, ResourceId, RunId};
use crate::message::{AgentMessage, Grant, Outcome};
use crate::plan::Plan;
use crate::token::Token;
use kumade_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the store keeps of the tokens that were granted. One for all coordinators that may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Of the coordinator that leads, or led last.
    pub epoch: u64,
    /// No token with a greater number was granted in this epoch.
    pub number: u64,
    /// Each grant is void so long after its token was asked to be stored. Before the first one of this epoch: that of the
    /// epoch before.
    pub longest: Span,
}

impl TokenRecord {
    /// What to store when a coordinator begins to lead, also after a restart: in the same transaction in which the old record is read, so that the
    /// former leader can persist nothing more. With it, [`Coordinator::new`](crate::Coordinator::new).
    pub fn next_epoch(self) -> TokenRecord {
        TokenRecord { epoch: self.epoch + 1, number: 0, longest: self.longest }
    }
}

/// What has happened, for the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorInput {
    /// An agent's connection has ended. It is given no run before its next heartbeat; what it holds stays granted.
    Disconnected(AgentId),
    /// An agent has said something.
    Message(AgentId, AgentMessage),
    /// This record, or one with a greater number, has been stored durably.
    Persisted {
        /// [`TokenRecord::number`].
        number: u64,
    },
    /// The store has a greater epoch: another coordinator leads. This one grants nothing more, for good.
    Deposed,
    /// Another plan, which is [valid](Plan::validate). Runs that are in both go on.
    Configure(Plan),
}

/// What is to be done, or is told, by the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorOutput {
    /// Store this record durably **if the store's epoch is the same** (and its number not greater), then report [`CoordinatorInput::Persisted`]; if the
    /// epoch is greater there, [`CoordinatorInput::Deposed`]. Try again where the store can't be reached. Only then grants leave.
    Persist(TokenRecord),
    /// Send this to an agent.
    Grant(AgentId, Grant),
    /// A run has ended.
    Ended(RunEnd),
    /// A run was not served in its cycle.
    Missed(Missed),
}

/// How a run has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// Which run.
    pub run: RunId,
    /// Of its grant.
    pub token: Token,
    /// What became of it.
    pub outcome: Outcome,
    /// When its resources were taken, by the coordinator's clock.
    pub granted: Time,
    /// When the initiator began, as far as was heard.
    pub began: Option<Time>,
    /// What it took, by the initiator's clock; zero if it has not begun, or was not heard of.
    pub took: Span,
    /// When its resources became free. What else was measured on them from `granted` to then may have been disturbed.
    pub ended: Time,
    /// What it used.
    pub resources: Vec<ResourceId>,
}

/// A run that was not served in a cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Which run.
    pub run: RunId,
    /// Number of the cycle.
    pub cycle: u64,
    /// In how many cycles it has not been served since it last was.
    pub unserved_cycles: u32,
    /// Why.
    pub reason: Waiting,
}

/// What a run waits for, or what it has waited for until its cycle was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// Its time in the cycle has not come.
    NotDue,
    /// The coordinator has begun to lead not long ago: grants of the one before may be in use.
    FormerGrants,
    /// Another coordinator leads.
    Deposed,
    /// An agent is not connected, or silent.
    AgentAbsent(AgentId),
    /// Someone else measures.
    Claimed {
        /// At which agent's host.
        agent: AgentId,
        /// Who.
        holder: String,
    },
    /// Another run uses a resource.
    InUse {
        /// Which resource.
        resource: ResourceId,
        /// By which run; none if a run that is no longer in the plan uses it.
        run: Option<RunId>,
    },
    /// It was granted in vain; it is tried again after a while.
    Retry(Outcome),
    /// It is being measured.
    Running,
    /// It is the next.
    Ready,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::NotDue => f.write_str("its time has not come"),
            Waiting::FormerGrants => f.write_str("grants of the former coordinator may be in use"),
            Waiting::Deposed => f.write_str("another coordinator leads"),
            Waiting::AgentAbsent(agent) => write!(f, "the agent {} is not connected", agent.0),
            Waiting::Claimed { agent, holder } => write!(f, "the host of the agent {} is not free: {holder}", agent.0),
            Waiting::InUse { resource, run: Some(run) } => {
                write!(f, "the run {} uses the resource {}", run.0, resource.0)
            }
            Waiting::InUse { resource, run: None } => write!(f, "a former run uses the resource {}", resource.0),
            Waiting::Retry(outcome) => write!(f, "{outcome}"),
            Waiting::Running => f.write_str("it is being measured"),
            Waiting::Ready => f.write_str("it is the next"),
        }
    }
}
