//! List scheduling (Graham 1966): whenever something becomes free, the first run of the list starts whose resources are all
//! free.
//!
//! A run that waits stands in a queue at each resource that it needs, with one that was not free when it was last looked at:
//! while that is so, it is passed over without a look at the run itself. So a million runs cost a few microseconds at each step.

use kumade_units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Where a run stands in the list; the smallest starts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition {
    /// Overdue runs first.
    pub(crate) rank: Rank,
    /// Then those that wait since earlier.
    pub(crate) since: Time,
    /// Then in random order.
    pub(crate) random: u64,
}

/// Runs that were not served for several cycles go before all others, and those that somebody has asked for before the regular ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Overdue,
    Requested,
    Regular,
}

/// Runs and resources are numbered from zero.
#[derive(Debug, Default)]
pub(crate) struct ListScheduler {
    resources: Vec<Resource>,
    /// Of each resource: whether no run holds it, and it is open.
    is_free: Vec<bool>,
    /// Resources from this number on are conditions: any number of runs use them at a time.
    exclusive: u32,
    runs: Vec<RunState>,
    /// Runs that have been submitted and not been looked at since.
    submitted: BinaryHeap<Reverse<(ListPosition, u32)>>,
    /// Resources that have become free and at which a run may be able to start.
    freed: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct Resource {
    held_by: Option<u32>,
    /// By how many it is closed.
    closed: u32,
    /// In the order of the list.
    queue: Vec<Queued>,
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    run: u32,
    /// What was not free when it was last looked at.
    blocking: u32,
}

#[derive(Debug)]
struct RunState {
    needs: Box<[u32]>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Waiting(ListPosition),
    Holding,
}

impl ListScheduler {
    /// For each run what it needs, each once: resources that it holds alone, numbered below `exclusive`, and after these
    /// `conditions` that are only to be open.
    pub(crate) fn new(exclusive: usize, conditions: usize, needs: impl Iterator<Item = Box<[u32]>>) -> Self {
        let count = exclusive + conditions;
        ListScheduler {
            resources: (0..count).map(|_| Resource::default()).collect(),
            is_free: vec![true; count],
            exclusive: exclusive as u32,
            runs: needs.map(|needs| RunState { needs, phase: Phase::Idle }).collect(),
            ..ListScheduler::default()
        }
    }

    /// The run waits from now on, at this place of the list. One that holds its resources does not.
    pub(crate) fn submit(&mut self, run: u32, position: ListPosition) {
        self.withdraw(run);
        let state = &mut self.runs[run as usize];
        if state.phase == Phase::Holding {
            return;
        }
        state.phase = Phase::Waiting(position);
        self.submitted.push(Reverse((position, run)));
        for need in self.runs[run as usize].needs.clone() {
            let place = self.place(need, position, run);
            self.resources[need as usize].queue.insert(place, Queued { run, blocking: need });
        }
    }

    /// The run waits no longer.
    pub(crate) fn withdraw(&mut self, run: u32) {
        if let Phase::Waiting(position) = self.runs[run as usize].phase {
            for need in self.runs[run as usize].needs.clone() {
                let place = self.place(need, position, run);
                self.resources[need as usize].queue.remove(place);
            }
            self.runs[run as usize].phase = Phase::Idle;
        }
    }

    /// Where a run with this position stands, or is to stand, in the queue of a resource.
    fn place(&self, resource: u32, position: ListPosition, run: u32) -> usize {
        let queue = &self.resources[resource as usize].queue;
        queue.partition_point(|queued| {
            self.position(queued.run).is_some_and(|other| (other, queued.run) < (position, run))
        })
    }

    /// What the run holds becomes free.
    pub(crate) fn release(&mut self, run: u32) {
        let state = &mut self.runs[run as usize];
        if state.phase != Phase::Holding {
            return;
        }
        state.phase = Phase::Idle;
        for need in state.needs.clone() {
            if need < self.exclusive {
                self.resources[need as usize].held_by = None;
                self.note_state(need);
            }
        }
    }

    /// No run that needs it starts until it is opened as often as it was closed. A run that holds it goes on.
    pub(crate) fn close(&mut self, resource: u32) {
        self.resources[resource as usize].closed += 1;
        self.note_state(resource);
    }

    /// Takes back one [`close`](Self::close).
    pub(crate) fn open(&mut self, resource: u32) {
        let state = &mut self.resources[resource as usize];
        state.closed = state.closed.saturating_sub(1);
        self.note_state(resource);
    }

    fn note_state(&mut self, resource: u32) {
        let state = &self.resources[resource as usize];
        let is_free = state.held_by.is_none() && state.closed == 0;
        self.is_free[resource as usize] = is_free;
        if is_free {
            self.freed.insert(resource);
        } else {
            self.freed.remove(&resource);
        }
    }

    /// The next run that may start; it holds its resources from now on.
    pub(crate) fn start_next(&mut self) -> Option<u32> {
        let submitted = self.first_submitted();
        let freed: Vec<_> = self.freed.iter().copied().collect();
        let first = freed.into_iter().filter_map(|resource| self.first_at(resource)).chain(submitted).min();
        let (_, run) = first?;
        self.withdraw(run);
        self.runs[run as usize].phase = Phase::Holding;
        for need in self.runs[run as usize].needs.clone() {
            if need < self.exclusive {
                self.resources[need as usize].held_by = Some(run);
                self.note_state(need);
            }
        }
        Some(run)
    }

    /// The first of the submitted runs that can start. Those that can't stand in the queues.
    fn first_submitted(&mut self) -> Option<(ListPosition, u32)> {
        while let Some(&Reverse((position, run))) = self.submitted.peek() {
            if self.position(run) == Some(position) && self.blocking(run).is_none() {
                return Some((position, run));
            }
            self.submitted.pop();
        }
        None
    }

    /// The first run that can start of those that wait at a resource. Without one, nobody has to look again until something
    /// else is free.
    fn first_at(&mut self, resource: u32) -> Option<(ListPosition, u32)> {
        let mut queue = std::mem::take(&mut self.resources[resource as usize].queue);
        let mut run = None;
        for queued in queue.iter_mut().filter(|queued| self.is_free[queued.blocking as usize]) {
            match self.blocking(queued.run) {
                Some(blocking) => queued.blocking = blocking,
                None => {
                    run = Some(queued.run);
                    break;
                }
            }
        }
        self.resources[resource as usize].queue = queue;
        if run.is_none() {
            self.freed.remove(&resource);
        }
        run.and_then(|run| Some((self.position(run)?, run)))
    }

    /// Which run holds it.
    pub(crate) fn holder(&self, resource: u32) -> Option<u32> {
        self.resources[resource as usize].held_by
    }

    /// Where the run stands in the list, if it waits.
    pub(crate) fn position(&self, run: u32) -> Option<ListPosition> {
        match self.runs[run as usize].phase {
            Phase::Waiting(position) => Some(position),
            _ => None,
        }
    }

    /// Whether the run waits.
    pub(crate) fn is_waiting(&self, run: u32) -> bool {
        self.position(run).is_some()
    }

    /// The first of its resources that the run would have to wait for.
    pub(crate) fn blocking(&self, run: u32) -> Option<u32> {
        self.runs[run as usize].needs.iter().copied().find(|need| !self.is_free[*need as usize])
    }
}
