//! Which runs are due.

use super::Coordinator;
use super::event::{CoordinatorOutput, Missed};
use crate::coordinator::MAX_KEPT_MISSED;
use crate::cycle::Cycle;
use crate::list_scheduler::{ListPosition, Rank};
use crate::load::ScheduleLoad;
use kumade_units::Time;
use std::cmp::Reverse;

/// After so many cycles unserved a run goes before all others.
const MAX_UNSERVED_CYCLES: u32 = 3;

impl Coordinator {
    pub(super) fn advance_cycles(&mut self, now: Time) {
        for class in 0..self.classes.len() {
            if now >= self.classes[class].cycle.end() {
                self.end_cycle(class, now);
                let state = &mut self.classes[class];
                state.cycle = self.calendar.cycle(&state.class, now);
                state.whole = true;
                self.note_loads();
                self.begin_cycle(class);
            }
        }
    }

    fn end_cycle(&mut self, class: usize, now: Time) {
        let cycle = self.classes[class].cycle.number;
        let whole = self.classes[class].whole;
        for number in self.classes[class].runs.clone() {
            let state = &self.runs[number as usize];
            let reason = self.waiting_reason(number, now);
            self.list.withdraw(number);
            if state.served || state.granted || !whole {
                continue;
            }
            let unserved_cycles = state.unserved_cycles + 1;
            self.runs[number as usize].unserved_cycles = unserved_cycles;
            let missed = Missed { run: self.plan.runs[number as usize].id, cycle, unserved_cycles, reason };
            self.missed.push_back(missed.clone());
            if self.missed.len() > MAX_KEPT_MISSED {
                self.missed.pop_front();
            }
            self.outputs.push_back(CoordinatorOutput::Missed(missed));
        }
    }

    fn begin_cycle(&mut self, class: usize) {
        let cycle = self.classes[class].cycle;
        for number in self.classes[class].runs.clone() {
            let state = &mut self.runs[number as usize];
            state.served = false;
            state.attempts = 0;
            state.last_outcome = None;
            self.release(number, cycle);
            self.submit_requested(number);
        }
    }

    /// Says when in a cycle a run may start. One that was never made, or not for some cycles, is due at once.
    pub(super) fn release(&mut self, number: u32, cycle: Cycle) {
        let state = &mut self.runs[number as usize];
        (state.release, state.random) = cycle.release(self.plan.runs[number as usize].id, state.load_ratio);
        if state.last_served.is_none() || state.unserved_cycles >= MAX_UNSERVED_CYCLES {
            state.release = cycle.start;
        }
        self.releases.push(Reverse((state.release, number)));
    }

    /// Puts the runs into the list whose time in their cycle has come.
    pub(super) fn submit_released(&mut self, now: Time) {
        while let Some(&Reverse((time, number))) = self.releases.peek().filter(|Reverse((time, _))| *time <= now) {
            self.releases.pop();
            let state = &self.runs[number as usize];
            let is_requested = self.is_requested(number);
            // A release of an earlier cycle, or one that was put off.
            if (state.served && !is_requested) || state.granted || state.release != time || self.list.is_waiting(number)
            {
                continue;
            }
            let is_overdue = state.unserved_cycles >= MAX_UNSERVED_CYCLES;
            let rank = match () {
                () if is_overdue => Rank::Overdue,
                () if is_requested => Rank::Requested,
                () => Rank::Regular,
            };
            self.list.submit(number, ListPosition { rank, since: time, random: state.random });
        }
    }

    /// What each run's busiest resource has to do, with what the runs take now.
    pub(super) fn note_loads(&mut self) {
        let load_ratios = self.load().by_run(&self.plan.runs);
        for (state, load_ratio) in self.runs.iter_mut().zip(load_ratios) {
            state.load_ratio = load_ratio;
        }
    }

    /// How busy the resources are, with what the runs take now.
    pub fn load(&self) -> ScheduleLoad {
        ScheduleLoad::from_plan(&self.plan, |run| {
            let state = self.index.runs.get(&run.id).map(|number| &self.runs[*number as usize]);
            state.map(|state| state.history.slot(run.kind)).unwrap_or_default()
        })
    }
}
