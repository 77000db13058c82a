//! What is seen of the schedule.

use super::Coordinator;
use super::event::{Missed, Waiting};
use crate::cycle::Cycle;
use crate::id::{AgentId, ClassId, ResourceId, RunId};
use crate::load::ScheduleLoad;
use crate::token::Token;
use kumade_units::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// What runs, what runs next, how busy the resources are, and what was missed. Times are spans from now, in nanoseconds, so
/// that nobody has to know the coordinator's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleView {
    /// Until when no run starts, since grants of a former coordinator may be in use.
    #[serde(rename = "former_grants_for_nanoseconds")]
    pub former_grants_for: Option<Span>,
    /// Whether another coordinator leads.
    pub is_deposed: bool,
    /// What is being measured.
    pub running: Vec<RunningView>,
    /// What comes next, in this order as far as resources are free.
    pub next: Vec<NextView>,
    /// How many runs wait in all.
    pub waiting: usize,
    /// How busy the resources are, with what the runs take now.
    pub load: ScheduleLoad,
    /// The cycle of each class.
    pub classes: Vec<CycleView>,
    /// What was missed lately; the last one first.
    pub missed: Vec<Missed>,
    /// Who else measures.
    pub claims: Vec<(AgentId, String)>,
}

/// A run that is being measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningView {
    /// Which.
    pub run: RunId,
    /// Of its grant.
    pub token: Token,
    /// Whether the initiator has said that it has begun.
    pub has_begun: bool,
    /// How long it has had its resources.
    #[serde(rename = "granted_for_nanoseconds")]
    pub granted_for: Span,
    /// How long it may go on.
    #[serde(rename = "ends_within_nanoseconds")]
    pub ends_within: Span,
    /// What it uses.
    pub resources: Vec<ResourceId>,
}

/// A run that comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextView {
    /// Which.
    pub run: RunId,
    /// In how long its time comes, in the next cycle where it was served in this one; zero or below if it waits for something else.
    #[serde(rename = "due_in_nanoseconds")]
    pub due_in: Span,
    /// What it waits for.
    pub waits_for: Waiting,
    /// In how many cycles it has not been served since it last was.
    pub unserved_cycles: u32,
    /// What it is given.
    #[serde(rename = "slot_nanoseconds")]
    pub slot: Span,
}

/// Where a class is in its period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CycleView {
    /// Which class.
    pub class: ClassId,
    /// Number of the cycle.
    pub cycle: u64,
    /// In how long the next one begins.
    #[serde(rename = "next_in_nanoseconds")]
    pub next_in: Span,
    /// How many runs it has.
    pub runs: usize,
    /// How many of them were served in this cycle.
    pub served: usize,
}

impl Coordinator {
    /// What is seen of the schedule, with the first `limit` runs that come next.
    pub fn view(&self, limit: usize, now: Time) -> ScheduleView {
        let running = self.grants.iter().map(|(token, grant)| RunningView {
            run: grant.run,
            token: *token,
            has_begun: grant.began.is_some(),
            granted_for: now - grant.asked,
            ends_within: grant.end_by - now,
            resources: grant.resources.clone(),
        });
        let claims = self.agents.iter().filter_map(|(agent, state)| Some((*agent, state.claim.clone()?)));
        ScheduleView {
            former_grants_for: self.quiet_until.map(|until| until - now),
            is_deposed: self.deposed,
            running: running.collect(),
            next: self.next_runs(limit, now),
            waiting: (0..self.runs.len() as u32).filter(|number| self.list.is_waiting(*number)).count(),
            load: self.load(),
            classes: self.cycle_views(now),
            missed: self.missed.iter().rev().cloned().collect(),
            claims: claims.collect(),
        }
    }

    fn next_runs(&self, limit: usize, now: Time) -> Vec<NextView> {
        let numbers = 0..self.runs.len() as u32;
        let open = numbers.filter(|number| !self.runs[*number as usize].granted);
        let next_cycles: BTreeMap<ClassId, Cycle> = self
            .classes
            .iter()
            .map(|class| (class.class.id, self.calendar.cycle(&class.class, class.cycle.end())))
            .collect();
        let due = |number: u32| self.due(number, &next_cycles, now);
        // Those in the list in its order, then those whose time has not come.
        let mut open: Vec<_> = open.collect();
        open.sort_by_cached_key(|number| {
            let position = self.list.position(*number);
            (position.is_none(), position, due(*number))
        });
        let view = |number: u32| {
            let (run, state) = (&self.plan.runs[number as usize], &self.runs[number as usize]);
            NextView {
                run: run.id,
                due_in: due(number) - now,
                waits_for: self.waiting_reason(number, now),
                unserved_cycles: state.unserved_cycles,
                slot: state.history.slot(run.kind),
            }
        };
        open.into_iter().take(limit).map(view).collect()
    }

    /// Of a run that was served, in its next cycle.
    fn due(&self, number: u32, next_cycles: &BTreeMap<ClassId, Cycle>, now: Time) -> Time {
        let (run, state) = (&self.plan.runs[number as usize], &self.runs[number as usize]);
        if self.list.is_waiting(number) {
            return state.release.min(now);
        }
        let next = next_cycles.get(&run.class).filter(|_| state.served && !self.is_requested(number));
        next.map_or(state.release, |next| next.release(run.id, state.load_ratio).0)
    }

    fn cycle_views(&self, now: Time) -> Vec<CycleView> {
        let view = |class: &super::state::ClassState| CycleView {
            class: class.class.id,
            cycle: class.cycle.number,
            next_in: class.cycle.end() - now,
            runs: class.runs.len(),
            served: class.runs.iter().filter(|number| self.runs[**number as usize].served).count(),
        };
        self.classes.iter().map(view).collect()
    }
}
