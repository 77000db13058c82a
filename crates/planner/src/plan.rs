//! What is to be measured, and what that uses.

use crate::id::{AgentId, ClassId, ResourceId, RunId};
use kumade_units::{Direction, Span};
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum of what a run may take, whatever its history: a run that is told nothing else ends by then.
pub const MAX_SLOT: Span = Span::from_secs(3600);
/// Minimum of a period.
pub const MIN_PERIOD: Span = Span::from_secs(1);

/// What is to be measured, and what that uses. Ids stay with what they stand for when a plan is changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What one run at a time may use.
    pub resources: Vec<Resource>,
    /// The programs that take grants.
    pub agents: Vec<PlannedAgent>,
    /// Periods.
    pub classes: Vec<Class>,
    /// What is measured once in each period of its class.
    pub runs: Vec<Run>,
}

/// What one run at a time may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// What it is.
    pub kind: ResourceKind,
}

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// An interface of a host.
    Host,
    /// One direction of a declared link.
    Link(Direction),
}

/// A program that takes grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedAgent {
    /// Its id.
    pub id: AgentId,
    /// What is in use when someone else measures at this host (a person, a gateway): the host, and the links that all of
    /// its traffic takes.
    pub claims: Vec<ResourceId>,
}

/// The runs that have a period in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Its id.
    pub id: ClassId,
    /// Each run of the class is measured once in each.
    pub period: Span,
}

/// One measurement that is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Whose period it has.
    pub class: ClassId,
    /// What is measured.
    pub kind: RunKind,
    /// Who begins, and asks the other end for trains.
    pub initiator: AgentId,
    /// Who answers, where that is an agent.
    pub responder: Option<AgentId>,
    /// Both ends, and each direction of the links on the way that it uses.
    pub resources: Vec<ResourceId>,
}

/// What is measured in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// A full measurement: available bandwidth, capacity, shaping, delay, loss.
    Full,
    /// The same, and transfers that fill the path.
    Load,
}

/// Why a plan can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// An id stands for two things.
    #[error("the {kind} {id} is in the plan twice: give each a number of its own")]
    Duplicate {
        /// Of what kind.
        kind: &'static str,
        /// The id.
        id: u32,
    },
    /// An id stands for nothing.
    #[error("{user} names the {kind} {id}, which is not in the plan: add it")]
    Unknown {
        /// What names it.
        user: String,
        /// Of what kind.
        kind: &'static str,
        /// The id.
        id: u32,
    },
    /// A run that uses nothing could not be kept apart from others.
    #[error("the run {} uses no resource: name the hosts at both ends", .0.0)]
    NoResource(RunId),
    /// An agent that measures to itself.
    #[error("both ends of the run {} are the agent {}: choose two", run.0, agent.0)]
    SameEnds {
        /// The run.
        run: RunId,
        /// Both ends.
        agent: AgentId,
    },
    /// A period that is too short, or not above zero.
    #[error("the period of the class {} is {period}: choose at least {MIN_PERIOD}", class.0)]
    Period {
        /// The class.
        class: ClassId,
        /// Its period.
        period: Span,
    },
}

impl Plan {
    /// Whether all ids are known, and stand for one thing each.
    ///
    /// # Errors
    ///
    /// What is wrong first.
    pub fn validate(&self) -> Result<(), PlanError> {
        let resources = unique("resource", self.resources.iter().map(|resource| resource.id.0))?;
        let agents = unique("agent", self.agents.iter().map(|agent| agent.id.0))?;
        let classes = unique("class", self.classes.iter().map(|class| class.id.0))?;
        unique("run", self.runs.iter().map(|run| run.id.0))?;
        for agent in &self.agents {
            let user = || format!("the agent {}", agent.id.0);
            agent.claims.iter().try_for_each(|resource| known(&resources, user, "resource", resource.0))?;
        }
        if let Some(class) = self.classes.iter().find(|class| class.period < MIN_PERIOD) {
            return Err(PlanError::Period { class: class.id, period: class.period });
        }
        for run in &self.runs {
            let user = || format!("the run {}", run.id.0);
            known(&classes, user, "class", run.class.0)?;
            known(&agents, user, "agent", run.initiator.0)?;
            run.responder.iter().try_for_each(|agent| known(&agents, user, "agent", agent.0))?;
            run.resources.iter().try_for_each(|resource| known(&resources, user, "resource", resource.0))?;
            if run.resources.is_empty() {
                return Err(PlanError::NoResource(run.id));
            }
            if run.responder == Some(run.initiator) {
                return Err(PlanError::SameEnds { run: run.id, agent: run.initiator });
            }
        }
        Ok(())
    }
}

impl Run {
    /// The agents at its ends.
    pub fn agents(&self) -> impl Iterator<Item = AgentId> + use<> {
        [Some(self.initiator), self.responder].into_iter().flatten()
    }
}

fn unique(kind: &'static str, ids: impl Iterator<Item = u32>) -> Result<BTreeSet<u32>, PlanError> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(PlanError::Duplicate { kind, id });
        }
    }
    Ok(seen)
}

fn known(all: &BTreeSet<u32>, user: impl Fn() -> String, kind: &'static str, id: u32) -> Result<(), PlanError> {
    if all.contains(&id) { Ok(()) } else { Err(PlanError::Unknown { user: user(), kind, id }) }
}
