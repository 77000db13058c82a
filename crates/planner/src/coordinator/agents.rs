//! Which agents are there, what they say, and who else measures at their hosts.

use super::Coordinator;
use super::state::{AgentState, GrantEnd, HeartbeatEcho};
use crate::agent::HEARTBEAT_INTERVAL;
use crate::id::AgentId;
use crate::message::{AgentMessage, Heartbeat, Outcome, Refusal, Role};
use crate::plan::ResourceKind;
use crate::token::Token;
use kumade_units::{Span, Time};

/// An agent that has sent no heartbeat for so long is given nothing.
const SILENT_AFTER: Span = Span::from_nanos(HEARTBEAT_INTERVAL.as_nanos() * 3);

/// Of what an agent says in words, so much is kept.
const MAX_TEXT_CHARS: usize = 200;

impl Coordinator {
    pub(super) fn disconnect(&mut self, agent: AgentId) {
        let Some(echo) = self.agents.get_mut(&agent).and_then(|state| state.heartbeat.take()) else { return };
        self.agent_deadlines.remove(&(echo.received + SILENT_AFTER, agent));
        if let Some(number) = self.index.agent(agent) {
            self.list.close(number);
        }
    }

    pub(super) fn mark_silent_agents(&mut self, now: Time) {
        while let Some(&(deadline, agent)) = self.agent_deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.agent_deadlines.remove(&(deadline, agent));
            self.disconnect(agent);
        }
    }

    pub(super) fn receive(&mut self, agent: AgentId, message: AgentMessage, now: Time) {
        match message {
            AgentMessage::Heartbeat(heartbeat) => self.receive_heartbeat(agent, heartbeat, now),
            AgentMessage::Began { token } => {
                let Some(grant) = self.grants.get_mut(&token) else { return };
                let ends = grant.ends.as_ref();
                let is_initiator = |end: &GrantEnd| end.agent == agent && end.role == Role::Initiator && !end.is_done;
                if ends.is_some_and(|ends| ends.iter().any(is_initiator)) {
                    grant.began.get_or_insert(now);
                }
            }
            AgentMessage::Ended { token, outcome, took } => self.receive_end(agent, token, outcome, took, now),
        }
    }

    fn receive_heartbeat(&mut self, agent: AgentId, heartbeat: Heartbeat, now: Time) {
        self.end_what_is_not_held(agent, &heartbeat, now);
        let Some(number) = self.index.agent(agent) else { return };
        let state = self.agents.entry(agent).or_default();
        let Heartbeat { instance, stamp, claim, unavailable, .. } = heartbeat;
        match state.heartbeat.replace(HeartbeatEcho { instance, stamp, received: now }) {
            // One that was overtaken says nothing new.
            Some(last) if last.instance == instance && last.stamp >= stamp => {
                state.heartbeat = Some(last);
                return;
            }
            Some(last) => {
                self.agent_deadlines.remove(&(last.received + SILENT_AFTER, agent));
            }
            None => self.list.open(number),
        }
        self.agent_deadlines.insert((now + SILENT_AFTER, agent));
        let is_host_alone = claim.is_none();
        self.note_claim(agent, claim.or(unavailable), is_host_alone);
    }

    /// While someone else measures at a host, no run starts that uses it, or, unless it is the host alone, the links that all of its
    /// traffic takes.
    fn note_claim(&mut self, agent: AgentId, claim: Option<String>, is_host_alone: bool) {
        let Some(state) = self.agents.get_mut(&agent) else { return };
        if (claim.is_some(), is_host_alone) != (state.claim.is_some(), state.is_host_alone) {
            for resource in std::mem::take(&mut state.closed) {
                self.list.open(resource);
            }
            if claim.is_some() {
                let planned = self.plan.agents.iter().find(|planned| planned.id == agent);
                let resources = planned.iter().flat_map(|planned| &planned.claims);
                let numbers = resources.filter_map(|resource| self.index.resource(*resource));
                let is_meant =
                    |number: &u32| !is_host_alone || self.plan.resources[*number as usize].kind == ResourceKind::Host;
                state.closed = numbers.filter(is_meant).collect();
                state.closed.iter().for_each(|resource| self.list.close(*resource));
            }
        }
        state.is_host_alone = is_host_alone;
        state.claim = claim.map(|holder| holder.chars().take(MAX_TEXT_CHARS).collect());
    }

    /// What an agent does not hold after the time in which it may begin, it will never begin.
    fn end_what_is_not_held(&mut self, agent: AgentId, heartbeat: &Heartbeat, now: Time) {
        let mut done = Vec::new();
        for (token, grant) in &mut self.grants {
            let ends = grant.ends.iter_mut().flatten();
            for end in ends.filter(|end| end.agent == agent && end.instance == heartbeat.instance) {
                end.is_done |= heartbeat.stamp > end.start_by_stamp && !heartbeat.held.contains(token);
            }
            if grant.is_done() {
                done.push(*token);
            }
        }
        done.into_iter().for_each(|token| self.end_grant(token, now));
    }

    fn receive_end(&mut self, agent: AgentId, token: Token, outcome: Outcome, took: Span, now: Time) {
        let Some(grant) = self.grants.get_mut(&token) else { return };
        let Some(end) = grant.ends.iter_mut().flatten().find(|end| end.agent == agent && !end.is_done) else { return };
        end.is_done = true;
        let outcome = match outcome {
            Outcome::Failed(reason) => Outcome::Failed(reason.chars().take(MAX_TEXT_CHARS).collect()),
            Outcome::Refused(Refusal::Claimed(holder)) => {
                Outcome::Refused(Refusal::Claimed(holder.chars().take(MAX_TEXT_CHARS).collect()))
            }
            outcome => outcome,
        };
        match end.role {
            // That the other end gave the slot up says more than that it could not be begun.
            Role::Initiator
                if outcome == Outcome::NotStarted && grant.outcome.as_ref().is_some_and(Outcome::is_refused) => {}
            Role::Initiator => {
                grant.outcome = Some(outcome);
                grant.took = took;
            }
            Role::Responder if matches!(grant.outcome, None | Some(Outcome::NotStarted)) => {
                grant.outcome = Some(outcome).filter(Outcome::is_refused);
            }
            Role::Responder => {}
        }
        if grant.is_done() {
            self.end_grant(token, now);
        }
    }

    /// After the plan has changed: what is closed in the new list.
    pub(super) fn close_absent_and_claimed(&mut self) {
        let planned: Vec<_> = self.plan.agents.iter().map(|agent| agent.id).collect();
        self.agents.retain(|agent, _| planned.contains(agent));
        self.agent_deadlines.retain(|(_, agent)| planned.contains(agent));
        for agent in planned {
            let state: &mut AgentState = self.agents.entry(agent).or_default();
            let claim = state.claim.take();
            state.closed.clear();
            if let (None, Some(number)) = (state.heartbeat, self.index.agent(agent)) {
                self.list.close(number);
            }
            let is_host_alone = state.is_host_alone;
            self.note_claim(agent, claim, is_host_alone);
        }
    }
}
