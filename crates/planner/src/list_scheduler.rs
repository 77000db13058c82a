//! List scheduling (Graham 1966): whenever something becomes free, the first run of the list starts whose resources are all
//! free.
//!
//! A run that waits is kept at one resource that it waits for, and looked at again when that is free. So a million
//! runs cost no more at each step than those few that wait for what has become free.

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

/// Runs that were not served for several cycles go before all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Overdue,
    Regular,
}

/// Runs and resources are numbered from zero.
#[derive(Debug, Default)]
pub(crate) struct ListScheduler {
    resources: Vec<Resource>,
    /// Those from this number on are conditions: any number of runs use them at a time.
    exclusive: u32,
    runs: Vec<RunState>,
    submitted: Waiting,
    /// Resources that have become free and have not been looked at since.
    freed: BTreeSet<u32>,
}

type Waiting = BinaryHeap<Reverse<Entry>>;

#[derive(Debug, Default)]
struct Resource {
    held_by: Option<u32>,
    /// By how many it is closed.
    closed: u32,
    waiting: Waiting,
}

#[derive(Debug)]
struct RunState {
    needs: Box<[u32]>,
    /// Entries of earlier submissions don't count.
    ticket: u32,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Waiting { position: ListPosition, at: Option<u32> },
    Holding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    position: ListPosition,
    run: u32,
    ticket: u32,
}

impl ListScheduler {
    /// For each run what it needs: resources that it holds alone, numbered below `exclusive`, and after these `conditions`
    /// that are only to be open.
    pub(crate) fn new(exclusive: usize, conditions: usize, needs: impl Iterator<Item = Box<[u32]>>) -> Self {
        let runs = needs.map(|needs| RunState { needs, ticket: 0, phase: Phase::Idle }).collect();
        let resources = (0..exclusive + conditions).map(|_| Resource::default()).collect();
        ListScheduler { resources, exclusive: exclusive as u32, runs, ..ListScheduler::default() }
    }

    /// The run waits from now on, unless it holds its resources.
    pub(crate) fn submit(&mut self, run: u32, position: ListPosition) {
        let state = &mut self.runs[run as usize];
        if state.phase == Phase::Holding {
            return;
        }
        state.ticket += 1;
        state.phase = Phase::Waiting { position, at: None };
        self.submitted.push(Reverse(Entry { position, run, ticket: state.ticket }));
    }

    /// The run waits no longer.
    pub(crate) fn withdraw(&mut self, run: u32) {
        let state = &mut self.runs[run as usize];
        if matches!(state.phase, Phase::Waiting { .. }) {
            state.phase = Phase::Idle;
        }
    }

    /// What the run holds becomes free.
    pub(crate) fn release(&mut self, run: u32) {
        let state = &mut self.runs[run as usize];
        if state.phase != Phase::Holding {
            return;
        }
        state.phase = Phase::Idle;
        for &resource in state.needs.iter().filter(|need| **need < self.exclusive) {
            self.resources[resource as usize].held_by = None;
            self.freed.insert(resource);
        }
    }

    /// No run that needs it starts until it is opened as often as it was closed. A run that holds it goes on.
    pub(crate) fn close(&mut self, resource: u32) {
        self.resources[resource as usize].closed += 1;
    }

    /// Takes back one [`close`](Self::close).
    pub(crate) fn open(&mut self, resource: u32) {
        let state = &mut self.resources[resource as usize];
        state.closed = state.closed.saturating_sub(1);
        self.freed.insert(resource);
    }

    /// The next run that may start; it holds its resources from now on.
    pub(crate) fn start_next(&mut self) -> Option<u32> {
        while let Some(entry) = self.pop_first() {
            let state = &mut self.runs[entry.run as usize];
            if state.ticket != entry.ticket || !matches!(state.phase, Phase::Waiting { .. }) {
                continue;
            }
            let blocking = state.needs.iter().copied().find(|&need| !self.resources[need as usize].is_free());
            if let Some(blocking) = blocking {
                state.phase = Phase::Waiting { position: entry.position, at: Some(blocking) };
                self.resources[blocking as usize].waiting.push(Reverse(entry));
                continue;
            }
            state.phase = Phase::Holding;
            for &need in state.needs.iter().filter(|need| **need < self.exclusive) {
                self.resources[need as usize].held_by = Some(entry.run);
            }
            return Some(entry.run);
        }
        None
    }

    /// The first of all runs that may be able to start.
    fn pop_first(&mut self) -> Option<Entry> {
        let resources = &self.resources;
        self.freed
            .retain(|&freed| resources[freed as usize].is_free() && !resources[freed as usize].waiting.is_empty());
        let freed = self.freed.iter().copied();
        let first = freed.filter_map(|freed| Some((resources[freed as usize].waiting.peek()?.0, freed))).min();
        match (first, self.submitted.peek()) {
            (Some((entry, freed)), submitted) if submitted.is_none_or(|Reverse(other)| entry < *other) => {
                self.resources[freed as usize].waiting.pop();
                Some(entry)
            }
            _ => Some(self.submitted.pop()?.0),
        }
    }

    /// Which run holds it.
    pub(crate) fn holder(&self, resource: u32) -> Option<u32> {
        self.resources[resource as usize].held_by
    }

    /// Whether the run waits.
    pub(crate) fn is_waiting(&self, run: u32) -> bool {
        matches!(self.runs[run as usize].phase, Phase::Waiting { .. })
    }

    /// The resource that the run waits for.
    pub(crate) fn blocking(&self, run: u32) -> Option<u32> {
        match self.runs[run as usize].phase {
            Phase::Waiting { at, .. } => at,
            _ => None,
        }
    }

    /// Where the run stands in the list.
    pub(crate) fn position(&self, run: u32) -> Option<ListPosition> {
        match self.runs[run as usize].phase {
            Phase::Waiting { position, .. } => Some(position),
            _ => None,
        }
    }
}

impl Resource {
    fn is_free(&self) -> bool {
        self.held_by.is_none() && self.closed == 0
    }
}
