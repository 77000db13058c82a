//! Runs that somebody asks for, besides those of the plan's cycles.

use super::Coordinator;
use super::event::Waiting;
use crate::id::RunId;
use crate::list_scheduler::{ListPosition, Rank};
use kumade_units::{Span, Time};
use std::cmp::Reverse;
use thiserror::Error;

/// Those that wait at a time, so that what is planned goes on beside them.
const MAX_WAITING_REQUESTS: usize = 8;
/// One that could not be served is forgotten: whoever has asked looks no longer.
const REQUEST_LIFETIME: Span = Span::from_secs(600);

/// Why a run is not made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It is in no plan.
    #[error("it is not measured")]
    NotPlanned,
    /// It goes on.
    #[error("it is being measured now")]
    Running,
    /// It was asked for before.
    #[error("somebody has asked for it already, and it waits")]
    Waiting,
    /// Others have to be served first.
    #[error("{MAX_WAITING_REQUESTS} others were asked for and wait: try again in a minute")]
    TooMany,
    /// Another coordinator leads.
    #[error("another coordinator leads")]
    Deposed,
}

impl Coordinator {
    /// Somebody wants this run to be made now, besides those of its cycles. It waits for what it needs as any other one does, and goes before
    /// those that are not overdue. Returns what it waits for. Drain [`next_output`](Self::next_output) afterwards.
    ///
    /// # Errors
    /// It cannot be made, or is made without that.
    pub fn request(&mut self, run: RunId, now: Time) -> Result<Waiting, RequestError> {
        let &number = self.index.runs.get(&run).ok_or(RequestError::NotPlanned)?;
        if self.deposed {
            return Err(RequestError::Deposed);
        } else if self.runs[number as usize].granted {
            return Err(RequestError::Running);
        } else if self.is_requested(number) {
            return Err(RequestError::Waiting);
        } else if self.requests.len() >= MAX_WAITING_REQUESTS {
            return Err(RequestError::TooMany);
        }
        self.requests.insert(run, now);
        self.submit_requested(number);
        self.advance(now);
        Ok(self.waiting_reason(number, now))
    }

    pub(super) fn is_requested(&self, number: u32) -> bool {
        self.requests.contains_key(&self.plan.runs[number as usize].id)
    }

    /// Those whose time has passed wait as their cycles say; so do those that are planned no longer.
    pub(super) fn forget_old_requests(&mut self, now: Time) {
        let old = self.requests.iter().filter(|(_, asked)| now - **asked > REQUEST_LIFETIME).map(|(run, _)| *run);
        for run in old.collect::<Vec<_>>() {
            self.requests.remove(&run);
            let Some(&number) = self.index.runs.get(&run) else { continue };
            self.list.withdraw(number);
            let state = &self.runs[number as usize];
            if !state.served && !state.granted {
                self.releases.push(Reverse((state.release, number)));
            }
        }
    }

    /// Its place in the list is among those that were asked for, if it is one of them.
    pub(super) fn submit_requested(&mut self, number: u32) {
        let (run, state) = (self.plan.runs[number as usize].id, &self.runs[number as usize]);
        if let Some(since) = self.requests.get(&run).copied().filter(|_| !state.granted) {
            self.list.submit(number, ListPosition { rank: Rank::Requested, since, random: state.random });
        }
    }
}
