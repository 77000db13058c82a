//! Measurements that an agent was granted, at either end.

use super::{MeshAgentRun, STOP_RESERVE};
use crate::mesh::answering::AnsweredRun;
use crate::mesh::condition::Fault;
use crate::mesh::day_budget::carried_bytes;
use crate::mesh::frame::{AgentFrame, MAX_DOCUMENT_BYTES, RunGrant, RunResult};
use crate::mesh::initiated_run::{EndedRun, InitiatedRun};
use crate::run_document::failed_document;
use crate::schedule::planner_outcome;
use kumade_client::PresharedKey;
use kumade_net::clock;
use kumade_planner::{AgentOutput, Outcome, Token};
use kumade_units::Time;

impl MeshAgentRun {
    pub(super) fn follow_planner(&mut self) {
        while let Some(output) = self.planner.next_output() {
            match output {
                AgentOutput::Send(message) => self.send(&AgentFrame::Planner { message }),
                AgentOutput::Begin(held) => {
                    self.end_initiated();
                    let Some(granted) = self.granted.get(&held.grant.token).cloned() else { continue };
                    match InitiatedRun::start(granted) {
                        Ok(run) => self.initiated = Some(run),
                        Err(error) => self.end(held.grant.token, Outcome::Failed(error.to_string())),
                    }
                }
                AgentOutput::Stop(token) => self.stop_run(token),
            }
        }
        let held: Vec<_> = self.planner.held().map(|held| held.grant.token).collect();
        self.granted.retain(|token, _| held.contains(token));
        // What was not begun in time is not held any more.
        if self.initiated.as_ref().is_some_and(|run| !held.contains(&run.token)) {
            self.end_initiated();
        }
        if self.answered.as_ref().is_some_and(|run| !held.contains(&run.token)) {
            self.answered = None;
        }
    }

    pub(super) fn advance_runs(&mut self, now: Time) {
        let end_by = |token: Token| self.planner.held().find(|held| held.grant.token == token).map(|held| held.end_by);
        if let Some(run) = &self.initiated
            && run.is_ready()
            && let Some(end_by) = end_by(run.token)
        {
            self.begin_initiated(end_by, now);
        } else if self.initiated.as_ref().is_some_and(InitiatedRun::is_finished) {
            self.end_initiated();
        }
        let is_over = |run: &AnsweredRun| {
            self.planner.held().any(|held| held.grant.token == run.token && now + STOP_RESERVE >= held.end_by)
        };
        if let Some(run) = self.answered.take_if(|run| is_over(run)) {
            let token = run.token;
            drop(run);
            self.end(token, Outcome::CutOff);
        }
    }

    fn begin_initiated(&mut self, end_by: Time, now: Time) {
        let Some(run) = &mut self.initiated else { return };
        let token = run.token;
        if self.planner.begin(token, now).is_err() {
            self.initiated = None;
        } else if let Err(reason) = run.measure(end_by - now - STOP_RESERVE, self.host_use.if_held(now)) {
            self.initiated = None;
            self.end(token, Outcome::Failed(reason));
        }
    }

    /// Takes what came of the run that this end began, if there is one; waits until it has ended.
    pub(super) fn end_initiated(&mut self) {
        let Some(run) = self.initiated.take() else { return };
        let token = run.token;
        let Some(EndedRun { granted, began, utc, measurement }) = run.finish() else { return };
        let told = planner_outcome(&measurement.outcome);
        let is_refused = told.is_refused();
        self.end(token, told);
        // It has not been measured, and is planned again.
        if is_refused {
            return;
        }
        let report = measurement.outcome.unwrap_or_else(|error| failed_document(&granted.host, utc, error));
        // Reports always can be written.
        let document = serde_json::to_string(&report).unwrap_or_default();
        self.budget.add_bytes(carried_bytes(&serde_json::from_str(&document).unwrap_or_default()));
        if document.len() > MAX_DOCUMENT_BYTES {
            tracing::warn!("a report of {} bytes is not delivered", document.len());
            return;
        }
        let shift = clock::boottime() - clock::monotonic();
        let (began, ended) = (began + shift, measurement.ended + shift);
        self.outbox.add_run(RunResult { path: granted.path, began, ended, document });
    }

    /// Serves the measurement of this grant alone, with its key.
    pub(super) fn answer(&mut self, granted: &RunGrant, now: Time) {
        let token = granted.grant.token;
        let Some(held) = self.planner.held().find(|held| held.grant.token == token) else { return };
        let within = held.end_by - now;
        // Its port is free once it has ended.
        self.answered = None;
        let key = PresharedKey::parse(&granted.key).map_err(|error| error.to_string());
        self.budget.begin();
        match key.and_then(|key| AnsweredRun::start(token, self.config.port, key, within, &self.budget)) {
            Ok(run) => {
                self.faults.set(Fault::Server, None);
                self.answered = self.planner.begin(token, now).is_ok().then_some(run);
            }
            Err(error) => {
                self.faults.set(Fault::Server, Some(format!("cannot answer a measurement: {error}")));
                self.tell_condition();
                self.end(token, Outcome::Failed(error));
            }
        }
    }

    /// Its time is over; for the planner, it has ended.
    fn stop_run(&mut self, token: Token) {
        if self.initiated.as_ref().is_some_and(|run| run.token == token) {
            self.end_initiated();
        }
        self.answered.take_if(|run| run.token == token);
    }

    pub(super) fn end(&mut self, token: Token, outcome: Outcome) {
        self.planner.end(token, outcome, clock::boottime());
    }
}
