//! Which run starts when: one coordinator decides for all agents.

mod agents;
mod configure;
mod cycles;
pub(crate) mod event;
mod granting;
mod reasons;
pub(crate) mod requests;
mod state;
pub(crate) mod view;

use crate::coordinator::event::{CoordinatorInput, CoordinatorOutput, Missed, TokenRecord};
use crate::coordinator::state::{ActiveGrant, AgentState, ClassState, Index, RunState};
use crate::cycle::Calendar;
use crate::id::{AgentId, RunId};
use crate::list_scheduler::ListScheduler;
use crate::plan::{Plan, PlanError};
use crate::slot::DurationHistory;
use crate::token::Token;
use kumade_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// Number of missed runs that the view shows.
const MAX_KEPT_MISSED: usize = 200;

/// Decides which run starts when. See the crate's first page for how to drive it.
#[derive(Debug)]
pub struct Coordinator {
    epoch: u64,
    last_number: u64,
    /// Before this, grants of former coordinators may be in use. None once it has passed.
    quiet_until: Option<Time>,
    deposed: bool,
    calendar: Calendar,
    plan: Plan,
    index: Index,
    list: ListScheduler,
    classes: Vec<ClassState>,
    /// By number.
    runs: Vec<RunState>,
    agents: BTreeMap<AgentId, AgentState>,
    grants: BTreeMap<Token, ActiveGrant>,
    /// When something is to be done about a grant.
    grant_deadlines: BTreeSet<(Time, Token)>,
    /// When an agent counts as silent.
    agent_deadlines: BTreeSet<(Time, AgentId)>,
    /// Runs whose time in their cycle comes.
    releases: BinaryHeap<Reverse<(Time, u32)>>,
    outputs: VecDeque<CoordinatorOutput>,
    missed: VecDeque<Missed>,
    /// Runs that somebody has asked for, and when, until they were served.
    requests: BTreeMap<RunId, Time>,
}

impl Coordinator {
    /// One that begins to lead. `record` is what the store has since then: [`TokenRecord::next_epoch`] of what it had.
    /// `wall` is what the clock on the wall shows now: cycles are numbered by it, so that those of the coordinator before go
    /// on. It is not asked for again.
    ///
    /// # Errors
    ///
    /// The plan is not valid.
    pub fn new(plan: Plan, record: TokenRecord, wall: Time, now: Time) -> Result<Self, PlanError> {
        plan.validate()?;
        let mut coordinator = Coordinator {
            epoch: record.epoch,
            last_number: record.number,
            quiet_until: Some(now + record.longest),
            deposed: false,
            calendar: Calendar::new(wall, now),
            plan: Plan::default(),
            index: Index::default(),
            list: ListScheduler::default(),
            classes: Vec::new(),
            runs: Vec::new(),
            agents: BTreeMap::new(),
            grants: BTreeMap::new(),
            grant_deadlines: BTreeSet::new(),
            agent_deadlines: BTreeSet::new(),
            releases: BinaryHeap::new(),
            outputs: VecDeque::new(),
            missed: VecDeque::new(),
            requests: BTreeMap::new(),
        };
        coordinator.configure(plan, now);
        Ok(coordinator)
    }

    /// What is known of a run from before: what it took, and how long ago it was served last. To be told before
    /// anything else; a run that was served in the current cycle is not repeated in it.
    pub fn restore(&mut self, run: RunId, history: DurationHistory, served_ago: Option<Span>, now: Time) {
        let Some(&number) = self.index.runs.get(&run) else { return };
        let state = &mut self.runs[number as usize];
        state.history = history;
        state.last_served = served_ago.map(|ago| now - ago);
        let class = self.plan.runs[number as usize].class;
        let cycle = self.classes.iter().find(|state| state.class.id == class).map(|state| state.cycle);
        let state = &mut self.runs[number as usize];
        state.served |= state.last_served.zip(cycle).is_some_and(|(served, cycle)| served >= cycle.start);
        if state.served {
            self.list.withdraw(number);
        } else if let Some(cycle) = cycle {
            self.release(number, cycle);
        }
    }

    /// Something has happened. Drain [`next_output`](Self::next_output) afterwards.
    ///
    /// # Errors
    ///
    /// The plan of [`CoordinatorInput::Configure`] is not valid; the one before stays.
    pub fn process(&mut self, input: CoordinatorInput, now: Time) -> Result<(), PlanError> {
        match input {
            CoordinatorInput::Disconnected(agent) => self.disconnect(agent),
            CoordinatorInput::Message(agent, message) => self.receive(agent, message, now),
            CoordinatorInput::Persisted { number } => self.send_grants(number, now),
            CoordinatorInput::Deposed => self.deposed = true,
            CoordinatorInput::Configure(plan) => {
                plan.validate()?;
                self.configure(plan, now);
            }
        }
        self.advance(now);
        Ok(())
    }

    /// Time has passed. Drain [`next_output`](Self::next_output) afterwards.
    pub fn advance(&mut self, now: Time) {
        self.end_overdue_grants(now);
        self.mark_silent_agents(now);
        self.advance_cycles(now);
        self.forget_old_requests(now);
        self.submit_released(now);
        self.quiet_until = self.quiet_until.filter(|until| now < *until);
        if !self.deposed && self.quiet_until.is_none() {
            self.start_runs(now);
        }
    }

    /// What is to be done next, or is told.
    pub fn next_output(&mut self) -> Option<CoordinatorOutput> {
        self.outputs.pop_front()
    }

    /// When to call [`advance`](Self::advance), at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let released = self.releases.peek().map(|Reverse((time, _))| *time);
        let grants = self.grant_deadlines.first().map(|(time, _)| *time);
        let agents = self.agent_deadlines.first().map(|(time, _)| *time);
        let cycles = self.classes.iter().map(|class| class.cycle.end()).min();
        [released, grants, agents, cycles, self.quiet_until].into_iter().flatten().min()
    }
}
