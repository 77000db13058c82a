//! Another plan, while runs go on.

use super::Coordinator;
use super::state::{ClassState, Index, RunState, Taken};
use crate::id::{ClassId, RunId};
use crate::list_scheduler::ListScheduler;
use crate::plan::{Class, Plan};
use kumade_units::Time;
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl Coordinator {
    /// Takes over a valid plan. Runs that are granted go on, also those that are no longer planned; what they use stays in use.
    pub(super) fn configure(&mut self, plan: Plan, now: Time) {
        let old_plan = std::mem::replace(&mut self.plan, plan);
        let old_runs = std::mem::take(&mut self.runs);
        let old_runs: BTreeMap<RunId, (ClassId, RunState)> =
            old_plan.runs.iter().zip(old_runs).map(|(run, state)| (run.id, (run.class, state))).collect();
        self.index = Index::from_plan(&self.plan);
        let needs = self.plan.runs.iter().map(|run| self.index.needs(run));
        self.list = ListScheduler::new(self.plan.resources.len(), self.plan.agents.len(), needs);
        let kept = self.configure_classes(now);
        self.configure_runs(old_runs, &kept);
        self.close_absent_and_claimed();
        self.close_granted();
    }

    /// Gives the classes that go on as they were.
    fn configure_classes(&mut self, now: Time) -> Vec<Class> {
        let mut kept = Vec::new();
        let old = std::mem::take(&mut self.classes);
        for class in &self.plan.classes {
            let cycle = self.calendar.cycle(class, now);
            let same = old.iter().find(|old| old.class == *class && old.cycle == cycle);
            kept.extend(same.map(|same| same.class));
            let runs = (0..).zip(&self.plan.runs).filter(|(_, run)| run.class == class.id).map(|(number, _)| number);
            let whole = same.is_some_and(|same| same.whole) || now == cycle.start;
            self.classes.push(ClassState { class: *class, cycle, whole, runs: runs.collect() });
        }
        kept
    }

    fn configure_runs(&mut self, mut old: BTreeMap<RunId, (ClassId, RunState)>, kept: &[Class]) {
        self.runs = vec![RunState::default(); self.plan.runs.len()];
        let mut as_before = vec![false; self.runs.len()];
        for ((run, state), as_before) in self.plan.runs.iter().zip(&mut self.runs).zip(&mut as_before) {
            if let Some((class, old)) = old.remove(&run.id) {
                *as_before = class == run.class && kept.iter().any(|kept| kept.id == class);
                *state = old;
            }
        }
        self.note_loads();
        self.releases.clear();
        let cycles = self.classes.iter().flat_map(|class| class.runs.iter().map(|number| (*number, class.cycle)));
        for (number, cycle) in cycles.collect::<Vec<_>>() {
            let state = &mut self.runs[number as usize];
            if as_before[number as usize] {
                self.releases.push(Reverse((state.release, number)));
            } else {
                state.served = state.last_served.is_some_and(|served| served >= cycle.start);
                state.attempts = 0;
                self.release(number, cycle);
            }
            self.submit_requested(number);
        }
    }

    fn close_granted(&mut self) {
        for grant in self.grants.values_mut() {
            let resources = grant.resources.iter().filter_map(|resource| self.index.resource(*resource));
            let resources: Vec<_> = resources.collect();
            resources.iter().for_each(|resource| self.list.close(*resource));
            grant.taken = Taken::Closed(resources);
        }
    }
}
