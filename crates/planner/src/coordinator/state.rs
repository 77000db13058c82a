//! What a coordinator knows of agents, runs and grants.

use crate::coordinator::event::Waiting;
use crate::cycle::Cycle;
use crate::id::{AgentId, ResourceId, RunId};
use crate::message::{Grant, Outcome, Role};
use crate::plan::{Class, Plan, Run};
use crate::slot::DurationHistory;
use crate::token::Token;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// A plan with its parts numbered from zero, for the list scheduler: the resources first, then the agents.
#[derive(Debug, Default)]
pub(super) struct Index {
    resources: BTreeMap<ResourceId, u32>,
    agents: BTreeMap<AgentId, u32>,
    pub(super) runs: BTreeMap<RunId, u32>,
}

impl Index {
    pub(super) fn from_plan(plan: &Plan) -> Self {
        let resources = (0..).zip(&plan.resources).map(|(number, resource)| (resource.id, number)).collect();
        let agents = (plan.resources.len() as u32..).zip(&plan.agents).map(|(number, agent)| (agent.id, number));
        let runs = (0..).zip(&plan.runs).map(|(number, run)| (run.id, number)).collect();
        Index { resources, agents: agents.collect(), runs }
    }

    pub(super) fn resource(&self, id: ResourceId) -> Option<u32> {
        self.resources.get(&id).copied()
    }

    pub(super) fn agent(&self, id: AgentId) -> Option<u32> {
        self.agents.get(&id).copied()
    }

    /// The agents first: an absent one says more than a host that it has left busy.
    pub(super) fn needs(&self, run: &Run) -> Box<[u32]> {
        let agents = run.agents().filter_map(|agent| self.agent(agent));
        let mut needs: Vec<_> = agents.collect();
        for need in run.resources.iter().filter_map(|resource| self.resource(*resource)) {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        needs.into()
    }
}

/// A class and where it is.
#[derive(Debug)]
pub(super) struct ClassState {
    pub(super) class: Class,
    pub(super) cycle: Cycle,
    /// Whether the coordinator has led since it began: otherwise a run that was not served is not missed.
    pub(super) whole: bool,
    pub(super) runs: Vec<u32>,
}

/// What is known of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct RunState {
    pub(super) history: DurationHistory,
    pub(super) last_served: Option<Time>,
    /// In how many cycles it has not been served since it last was.
    pub(super) unserved_cycles: u32,
    /// How often it was granted in vain in this cycle, and what came of it last.
    pub(super) attempts: u32,
    pub(super) last_outcome: Option<Outcome>,
    pub(super) served: bool,
    /// From when on it may start in this cycle.
    pub(super) release: Time,
    pub(super) random: u64,
    /// Whether it was granted, and has not ended.
    pub(super) granted: bool,
    /// The load of its busiest resource.
    pub(super) load_ratio: f64,
}

/// What is known of an agent.
#[derive(Debug, Default)]
pub(super) struct AgentState {
    /// Of this connection; none while it is not connected, or silent.
    pub(super) heartbeat: Option<HeartbeatEcho>,
    /// Who else measures at its host.
    pub(super) claim: Option<String>,
    /// Whether that leaves links to others.
    pub(super) is_host_alone: bool,
    /// What is closed since someone else measures.
    pub(super) closed: Vec<u32>,
}

/// The last heartbeat.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeartbeatEcho {
    pub(super) instance: u64,
    /// By the agent's clock.
    pub(super) stamp: Time,
    /// By the coordinator's clock.
    pub(super) received: Time,
}

/// A grant, from when its resources are taken until they are free.
#[derive(Debug)]
pub(super) struct ActiveGrant {
    pub(super) run: RunId,
    /// The cycle that it is for.
    pub(super) cycle: u64,
    pub(super) resources: Vec<ResourceId>,
    pub(super) taken: Taken,
    /// When it was asked to be persisted. All that follows counts from here: the store shows when another coordinator began to
    /// lead, so that whatever was persisted before that ends in a time that the other one knows.
    pub(super) asked: Time,
    pub(super) slot: Span,
    pub(super) start_by: Time,
    pub(super) end_by: Time,
    /// When its resources are free whatever was heard.
    pub(super) void_after: Time,
    /// None before it is persisted.
    pub(super) ends: Option<Vec<GrantEnd>>,
    pub(super) began: Option<Time>,
    pub(super) took: Span,
    pub(super) outcome: Option<Outcome>,
}

/// How the list scheduler knows that the resources of a grant are taken.
#[derive(Debug)]
pub(super) enum Taken {
    /// The run holds them.
    ByRun(u32),
    /// They are closed: the plan has changed since.
    Closed(Vec<u32>),
}

/// One end of a granted run.
#[derive(Debug)]
pub(super) struct GrantEnd {
    pub(super) agent: AgentId,
    pub(super) role: Role,
    pub(super) instance: u64,
    /// By the agent's clock: after this it does not begin.
    pub(super) start_by_stamp: Time,
    pub(super) is_done: bool,
}

impl ActiveGrant {
    /// For one end.
    ///
    /// The stamp was sent before it was received, and the end counts from when it sent it: so what is `start_by` here is never
    /// later there, whenever the grant arrives.
    pub(super) fn message(&self, token: Token, end: &GrantEnd, peer: Option<AgentId>, echo: &HeartbeatEcho) -> Grant {
        Grant {
            run: self.run,
            token,
            role: end.role,
            peer,
            resources: self.resources.clone(),
            instance: echo.instance,
            stamp: echo.stamp,
            start_within: self.start_by - echo.received,
            end_within: self.end_by - echo.received,
        }
    }

    /// Whether neither end uses the resources any more, nor will.
    pub(super) fn is_done(&self) -> bool {
        self.ends.as_ref().is_some_and(|ends| ends.iter().all(|end| end.is_done))
    }
}

impl RunState {
    /// Why it does not wait in the list, if it doesn't.
    pub(super) fn unlisted_reason(&self, is_requested: bool, now: Time) -> Waiting {
        match &self.last_outcome {
            _ if self.granted => Waiting::Running,
            Some(outcome) if (!self.served || is_requested) && self.attempts > 0 => Waiting::Retry(outcome.clone()),
            _ if self.served || self.release > now => Waiting::NotDue,
            _ => Waiting::Ready,
        }
    }
}
