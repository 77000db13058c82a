//! When which pair is measured: the planner's coordinator and this host's own agent, in one process. Other hosts' agents are told by
//! the mesh.

use crate::config::MonitoredTarget;
use kumade_archive::{HostId, Run as ArchivedRun};
use kumade_client::report::ErrorReport;
use kumade_client::{DEADLINE_EXCEEDED, HOST_IN_USE};
use kumade_planner::{
    Agent, AgentId, AgentMessage, AgentOutput, Class, ClassId, Coordinator, CoordinatorInput, CoordinatorOutput,
    DurationHistory, Grant, HeldGrant, Outcome, Plan, PlanError, PlannedAgent, Refusal, RequestError, Resource,
    ResourceId, ResourceKind, Run, RunId, RunKind, ScheduleView, Token, TokenRecord, Waiting,
};
use kumade_units::{Span, Time};

/// What the planner is told of a measurement that ended so. Its deadline is the end of its slot.
pub(crate) fn planner_outcome<T>(outcome: &Result<T, ErrorReport>) -> Outcome {
    match outcome {
        Ok(_) => Outcome::Finished,
        Err(error) if error.kind == HOST_IN_USE => Outcome::Refused(Refusal::Claimed(error.message.clone())),
        Err(error) if error.kind == DEADLINE_EXCEEDED => Outcome::CutOff,
        Err(error) => Outcome::Failed(error.message.clone()),
    }
}

/// Decides when which target is measured. Mutate, then drain [`next_step`](Self::next_step).
#[derive(Debug)]
pub(crate) struct Schedule {
    coordinator: Coordinator,
    agent: Agent,
    /// What could not be stored so far.
    unstored: Option<TokenRecord>,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum ScheduleStep {
    /// Store this, then say so by [`Schedule::stored`].
    Store(TokenRecord),
    /// Measure from this host; it has to end by then.
    Begin { run: RunId, token: Token, end_by: Time },
    /// End the measurement.
    Stop,
    /// Tell another host's agent.
    Grant { agent: AgentId, grant: Grant },
    /// What this grant used is free again.
    Ended(Token),
    /// A pair was not measured in its period.
    Missed { run: RunId, reason: Waiting },
}

/// This host is the first agent, and the first resource: targets have the numbers that the archive gave them, above zero.
const OWN_AGENT: AgentId = AgentId(0);
const OWN_HOST: ResourceId = ResourceId(0);

impl Schedule {
    /// `record` is what was stored last; what is returned with it is to be stored at once.
    pub(crate) fn new(
        plan: Plan,
        record: TokenRecord,
        instance: u64,
        utc: Time,
        now: Time,
    ) -> Result<(Self, TokenRecord), PlanError> {
        let record = record.next_epoch();
        let coordinator = Coordinator::new(plan, record, utc, now)?;
        let mut agent = Agent::new(instance, now);
        agent.connect(now);
        Ok((Schedule { coordinator, agent, unstored: None }, record))
    }

    /// Earlier measurements of a pair, the latest first, tell how long one takes, and when the next is due.
    pub(crate) fn restore(&mut self, run: RunId, earlier: &[ArchivedRun], utc: Time, now: Time) {
        let mut history = DurationHistory::default();
        earlier.iter().rev().for_each(|run| history.record(run.ended - run.started));
        let served_ago = earlier.first().map(|run| (utc - run.started).max(Span::ZERO));
        self.coordinator.restore(run, history, served_ago, now);
    }

    /// Somebody else measures at this host, or nobody else any more: nothing begins meanwhile.
    pub(crate) fn set_claim(&mut self, holder: Option<&str>, now: Time) {
        self.agent.release_claim(now);
        if let Some(holder) = holder
            && let Err(error) = self.agent.claim(holder, now)
        {
            tracing::debug!("{holder} measures at this host, although {error}");
        }
    }

    /// Another plan: what runs goes on, and what was known of those that are in both. Those that are new can be
    /// [restored](Self::restore) then.
    pub(crate) fn configure(&mut self, plan: Plan, now: Time) -> Result<(), PlanError> {
        self.coordinator.process(CoordinatorInput::Configure(plan), now)
    }

    /// Time has passed.
    pub(crate) fn advance(&mut self, now: Time) {
        self.coordinator.advance(now);
        self.agent.advance(now);
    }

    /// Another host's agent has said something.
    pub(crate) fn receive(&mut self, agent: AgentId, message: AgentMessage, now: Time) {
        self.process(CoordinatorInput::Message(agent, message), now);
    }

    /// Its connection has ended.
    pub(crate) fn disconnect(&mut self, agent: AgentId, now: Time) {
        self.process(CoordinatorInput::Disconnected(agent), now);
    }

    /// Somebody wants this to be measured now. Returns what it waits for.
    pub(crate) fn request(&mut self, run: RunId, now: Time) -> Result<Waiting, RequestError> {
        self.coordinator.request(run, now)
    }

    /// A measurement has ended.
    pub(crate) fn end(&mut self, token: Token, outcome: Outcome, now: Time) {
        self.agent.end(token, outcome, now);
    }

    /// The record is on the disk.
    pub(crate) fn stored(&mut self, record: TokenRecord, now: Time) {
        self.unstored = None;
        self.process(CoordinatorInput::Persisted { number: record.number }, now);
    }

    /// The record could not be stored: it is tried again.
    pub(crate) fn not_stored(&mut self, record: TokenRecord) {
        self.unstored = Some(record);
    }

    /// What could not be stored, to try again.
    pub(crate) fn take_unstored(&mut self) -> Option<TokenRecord> {
        self.unstored.take()
    }

    /// What runs, what comes next, and what was missed.
    pub(crate) fn view(&self, limit: usize, now: Time) -> ScheduleView {
        self.coordinator.view(limit, now)
    }

    /// What is to be done next; none when all is done.
    pub(crate) fn next_step(&mut self, now: Time) -> Option<ScheduleStep> {
        loop {
            if let Some(output) = self.agent.next_output() {
                match output {
                    AgentOutput::Send(message) => self.process(CoordinatorInput::Message(OWN_AGENT, message), now),
                    AgentOutput::Begin(HeldGrant { grant, end_by, .. })
                        if self.agent.begin(grant.token, now).is_ok() =>
                    {
                        return Some(ScheduleStep::Begin { run: grant.run, token: grant.token, end_by });
                    }
                    AgentOutput::Begin(_) => {}
                    AgentOutput::Stop(_) => return Some(ScheduleStep::Stop),
                }
            } else {
                match self.coordinator.next_output()? {
                    CoordinatorOutput::Persist(record) => return Some(ScheduleStep::Store(record)),
                    CoordinatorOutput::Grant(OWN_AGENT, grant) => self.agent.receive(grant, now),
                    CoordinatorOutput::Grant(agent, grant) => return Some(ScheduleStep::Grant { agent, grant }),
                    CoordinatorOutput::Ended(end) => return Some(ScheduleStep::Ended(end.token)),
                    CoordinatorOutput::Missed(missed) => {
                        return Some(ScheduleStep::Missed { run: missed.run, reason: missed.reason });
                    }
                }
            }
        }
    }

    fn process(&mut self, input: CoordinatorInput, now: Time) {
        // Only a plan can be refused, and none is handed over here.
        if let Err(error) = self.coordinator.process(input, now) {
            tracing::error!("the planner: {error}");
        }
    }
}

/// The number of the run from this host to another.
pub(crate) fn own_run_id(target: HostId) -> RunId {
    RunId(target.0)
}

/// The plan of this host: all measurements use it, so that they run one at a time. `targets` are those that are measured, with their
/// numbers.
pub(crate) fn plan<'t>(targets: impl IntoIterator<Item = (HostId, &'t MonitoredTarget)>) -> Plan {
    let host = |id| Resource { id, kind: ResourceKind::Host };
    let mut plan = Plan {
        resources: vec![host(OWN_HOST)],
        agents: vec![PlannedAgent { id: OWN_AGENT, claims: vec![OWN_HOST] }],
        ..Plan::default()
    };
    for (HostId(number), target) in targets {
        let Some(schedule) = &target.measurement else { continue };
        // Each has a period of its own; that it is the same as another's means nothing.
        plan.classes.push(Class { id: ClassId(number), period: schedule.period });
        plan.resources.push(host(ResourceId(number)));
        plan.runs.push(Run {
            id: own_run_id(HostId(number)),
            class: ClassId(number),
            kind: RunKind::Full,
            initiator: OWN_AGENT,
            responder: None,
            resources: vec![OWN_HOST, ResourceId(number)],
        });
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that took longer than its slot was said to have failed, so that the next slot was no longer.
    #[test]
    fn the_end_of_a_slot_is_no_failure() {
        let error = |kind: &str| ErrorReport { kind: kind.to_owned(), message: "words".to_owned(), hint: None };
        let outcome = |kind| planner_outcome::<()>(&Err(error(kind)));
        assert_eq!(outcome(DEADLINE_EXCEEDED), Outcome::CutOff);
        assert_eq!(outcome(HOST_IN_USE), Outcome::Refused(Refusal::Claimed("words".to_owned())));
        assert_eq!(outcome("lost"), Outcome::Failed("words".to_owned()));
        assert_eq!(planner_outcome(&Ok(())), Outcome::Finished);
    }
}
