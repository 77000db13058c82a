//! How far the look at marked packets is, in both directions.

use crate::path::MarkProbe;
use kumade_probe_train::MarkedTrain;
use kumade_units::{Direction, Time};

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Marking {
    pub(super) probes: Option<[MarkProbe; 2]>,
    /// No train begins after this.
    pub(super) end: Option<Time>,
    /// The train that was requested, until its record arrives.
    pub(super) pending: Option<(Direction, MarkedTrain)>,
    /// The direction of the next train.
    next: Option<Direction>,
    is_over: bool,
    /// Why there are no marked packets, or not all.
    pub(super) failure: Option<String>,
}

impl Marking {
    /// Whether nothing of it is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn end_with(&mut self, failure: impl Into<Option<String>>) {
        (self.is_over, self.pending, self.failure) = (true, None, failure.into());
    }

    /// The next train, in the direction whose turn it is, or in the other one.
    pub(super) fn next_train(&mut self) -> Option<(Direction, MarkedTrain)> {
        let probes = self.probes.as_mut()?;
        let first = self.next.unwrap_or(Direction::Up);
        let trains = [first, first.reversed()].into_iter();
        let found = trains.filter_map(|way| Some((way, probes[way as usize].next_train()?))).next();
        self.next = found.as_ref().map(|(way, _)| way.reversed());
        found
    }
}
