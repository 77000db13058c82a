//! Grants: given, ended, and void when nothing is heard of them.

use super::Coordinator;
use super::event::{CoordinatorOutput, RunEnd, TokenRecord};
use super::state::{ActiveGrant, GrantEnd, Taken};
use crate::id::RunId;
use crate::message::{Outcome, Role};
use crate::token::Token;
use kumade_units::{Span, Time};
use std::cmp::Reverse;

/// A run begins within this after it was decided on: the token is stored, the grants arrive, the ends connect. Three round trips of
/// half a second, a store that takes a second, and a heartbeat of reserve.
const START_WITHIN: Span = Span::from_secs(10);
/// Clocks that are slewed run by up to 500 ppm fast or slow (`adjtimex`); two of them, twice that as reserve.
const CLOCK_DRIFT_DIVISOR: i64 = 500;
/// What was sent at the last moment is gone from the queues after this.
const GUARD: Span = Span::from_secs(1);
/// A run that was granted in vain is granted again after this, then twice that …
const RETRY_AFTER: Span = Span::from_secs(30);
/// Maximum number of grants in vain for a run in a cycle.
const MAX_ATTEMPTS: u32 = 3;

impl Coordinator {
    /// Takes the resources of each run that may start, and asks for their tokens to be stored.
    pub(super) fn start_runs(&mut self, now: Time) {
        let mut is_any_new = false;
        while let Some(number) = self.list.start_next() {
            self.take(number, now);
            is_any_new = true;
        }
        if is_any_new {
            let longest = self.grants.values().map(|grant| grant.void_after - grant.asked).max().unwrap_or_default();
            let record = TokenRecord { epoch: self.epoch, number: self.last_number, longest };
            self.outputs.push_back(CoordinatorOutput::Persist(record));
        }
    }

    fn take(&mut self, number: u32, now: Time) {
        let run = &self.plan.runs[number as usize];
        let state = &mut self.runs[number as usize];
        state.granted = true;
        self.last_number += 1;
        let token = Token { epoch: self.epoch, number: self.last_number };
        let slot = state.history.slot(run.kind);
        let span = START_WITHIN + slot;
        let cycle = self.classes.iter().find(|class| class.class.id == run.class).map(|class| class.cycle.number);
        let grant = ActiveGrant {
            run: run.id,
            cycle: cycle.unwrap_or_default(),
            resources: run.resources.clone(),
            taken: Taken::ByRun(number),
            asked: now,
            slot,
            start_by: now + START_WITHIN,
            end_by: now + span,
            void_after: now + span + span / CLOCK_DRIFT_DIVISOR + GUARD,
            ends: None,
            began: None,
            took: Span::ZERO,
            outcome: None,
        };
        self.grant_deadlines.insert((grant.start_by, token));
        self.grants.insert(token, grant);
    }

    /// The tokens up to this one are stored.
    pub(super) fn send_grants(&mut self, number: u64, now: Time) {
        let stored = Token { epoch: self.epoch, number };
        let waiting = self.grants.range(..=stored).filter(|(_, grant)| grant.ends.is_none());
        let waiting: Vec<_> = waiting.map(|(token, _)| *token).collect();
        for token in waiting {
            if self.send_grant(token, now).is_none() {
                self.end_grant(token, now);
            }
        }
    }

    /// `None` if it is too late, or an agent is not there.
    fn send_grant(&mut self, token: Token, now: Time) -> Option<()> {
        let grant = self.grants.get_mut(&token)?;
        let run = self.index.runs.get(&grant.run).map(|number| &self.plan.runs[*number as usize])?;
        if now >= grant.start_by || self.deposed {
            return None;
        }
        // Whoever answers should know before it is asked.
        let ends = [(run.responder, Role::Responder), (Some(run.initiator), Role::Initiator)];
        let ends = ends.into_iter().filter_map(|(agent, role)| Some((agent?, role)));
        let mut sent = Vec::new();
        let mut outputs = Vec::new();
        for (agent, role) in ends {
            let echo = self.agents.get(&agent)?.heartbeat.as_ref()?;
            let start_by_stamp = echo.stamp + (grant.start_by - echo.received);
            let end = GrantEnd { agent, role, instance: echo.instance, start_by_stamp, is_done: false };
            let peer = run.agents().find(|peer| *peer != agent);
            outputs.push(CoordinatorOutput::Grant(agent, grant.message(token, &end, peer, echo)));
            sent.push(end);
        }
        grant.ends = Some(sent);
        self.outputs.extend(outputs);
        self.grant_deadlines.remove(&(grant.start_by, token));
        self.grant_deadlines.insert((grant.void_after, token));
        Some(())
    }

    pub(super) fn end_overdue_grants(&mut self, now: Time) {
        while let Some(&(_, token)) = self.grant_deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.end_grant(token, now);
        }
    }

    /// Nobody uses the resources of the grant any more: it was never sent, or all ends say so, or its time has passed.
    pub(super) fn end_grant(&mut self, token: Token, now: Time) {
        let Some(grant) = self.grants.remove(&token) else { return };
        self.grant_deadlines.remove(&(grant.start_by, token));
        self.grant_deadlines.remove(&(grant.void_after, token));
        match &grant.taken {
            Taken::ByRun(number) => self.list.release(*number),
            Taken::Closed(resources) => resources.iter().for_each(|resource| self.list.open(*resource)),
        }
        let unknown = if grant.ends.is_none() { Outcome::NotStarted } else { Outcome::Lost };
        let outcome = grant.outcome.clone().unwrap_or(unknown);
        self.note_outcome(grant.run, &grant, &outcome, now);
        self.outputs.push_back(CoordinatorOutput::Ended(RunEnd {
            run: grant.run,
            token,
            outcome,
            granted: grant.asked,
            began: grant.began,
            took: grant.took,
            ended: now,
            resources: grant.resources,
        }));
    }

    fn note_outcome(&mut self, run: RunId, grant: &ActiveGrant, outcome: &Outcome, now: Time) {
        let Some(&number) = self.index.runs.get(&run) else { return };
        let class = self.plan.runs[number as usize].class;
        let cycle = self.classes.iter().find(|state| state.class.id == class).map(|state| state.cycle);
        let state = &mut self.runs[number as usize];
        state.granted = false;
        state.last_outcome = Some(outcome.clone());
        match outcome {
            Outcome::Finished => state.history.record(grant.took),
            Outcome::CutOff => state.history.record_cut_off(grant.slot),
            _ => {}
        }
        let is_requested = self.requests.contains_key(&run);
        let is_of_this_cycle = cycle.is_some_and(|cycle| cycle.number == grant.cycle);
        if outcome.is_served() {
            state.last_served = Some(now);
            state.unserved_cycles = 0;
            state.served |= is_of_this_cycle;
        } else if is_of_this_cycle || is_requested {
            state.attempts += 1;
            state.release = now + RETRY_AFTER * i64::from(state.attempts);
        }
        if outcome.is_served() || state.attempts >= MAX_ATTEMPTS {
            self.requests.remove(&run);
        }
        let is_wanted = !state.served || self.requests.contains_key(&run);
        if is_wanted && state.attempts < MAX_ATTEMPTS {
            state.release = state.release.max(now);
            self.releases.push(Reverse((state.release, number)));
        }
    }
}
