use super::config::DelayRange;
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use kumade_units::{Span, Time};

/// How far each path has come.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    paths: [PathFrontier; PathId::MAX_PATHS],
}

#[derive(Debug, Default)]
struct PathFrontier {
    /// The counter after the highest one that arrived; 0 before any has.
    after_highest: u64,
    /// Counters below this are not waited for any more.
    given_up: u64,
    /// Nothing is waited for until something arrives.
    is_down: bool,
    /// How far below the counter after the highest one that arrived others may still come: 0 on a path that keeps order.
    reordering_reserve: u64,
    delay_range: Option<DelayRange>,
    last_arrival: Option<Time>,
}

impl PathFrontier {
    fn has_passed(&self, counter: u64) -> bool {
        counter < self.given_up.max(self.after_highest.saturating_sub(self.reordering_reserve))
    }
}

/// For each path in a set, a datagram that was assigned to it before a packet was: while it and all after it may still
/// come, the packet waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedCounters {
    path_bits: u16,
    counters: [u64; PathId::MAX_PATHS],
}

impl AwaitedCounters {
    const NOTHING_AWAITED: AwaitedCounters = AwaitedCounters { path_bits: 0, counters: [0; PathId::MAX_PATHS] };

    fn add_counter(&mut self, path: PathId, counter: u64) {
        self.path_bits |= 1 << path.index();
        let place = &mut self.counters[path.index()];
        *place = counter.max(*place);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PathId, u64)> {
        let AwaitedCounters { path_bits: paths, counters } = self;
        PathId::all().filter(move |path| paths & 1 << path.index() != 0).map(|path| (path, counters[path.index()]))
    }
}

impl Frontier {
    /// A datagram has arrived.
    pub(super) fn datagram_arrived(&mut self, path: PathId, counter: u64, now: Time) {
        let path = &mut self.paths[path.index()];
        path.last_arrival = Some(now);
        path.after_highest = path.after_highest.max(counter.saturating_add(1));
        path.is_down = false;
    }

    pub(super) fn path_down(&mut self, path: PathId) {
        self.paths[path.index()].is_down = true;
    }

    pub(super) fn give_up(&mut self, path: PathId, counter: u64) {
        let path = &mut self.paths[path.index()];
        path.given_up = path.given_up.max(counter.saturating_add(1));
    }

    pub(super) fn set_delay(&mut self, path: PathId, delay: Option<DelayRange>) {
        self.paths[path.index()].delay_range = delay;
    }

    pub(super) fn set_reordering_extent(&mut self, path: PathId, datagrams: u32) {
        // The highest itself has come: if nothing is late, what is below it is lost.
        self.paths[path.index()].reordering_reserve = if datagrams == 0 { 0 } else { u64::from(datagrams) + 1 };
    }

    /// Whether nothing up to this counter is to be waited for.
    pub(super) fn has_passed(&self, path: PathId, counter: u64) -> bool {
        let path = &self.paths[path.index()];
        path.is_down || path.has_passed(counter)
    }

    /// What a packet has to wait for that has just arrived in this datagram.
    pub(super) fn awaited_counters(
        &self,
        path: PathId,
        counter: u64,
        predecessors: impl IntoIterator<Item = Predecessor>,
    ) -> AwaitedCounters {
        let mut waits = AwaitedCounters::NOTHING_AWAITED;
        for predecessor in predecessors {
            let of = predecessor.path();
            let counter = predecessor.counter_near(self.paths[of.index()].after_highest);
            // A path that is down may be back before the packet goes.
            if of != path && !self.paths[of.index()].has_passed(counter) {
                waits.add_counter(of, counter);
            }
        }
        if self.paths[path.index()].reordering_reserve > 0 && counter > 0 {
            waits.add_counter(path, counter - 1);
        }
        waits
    }

    /// Whether any of these is not waited for since its path is down.
    pub(super) fn lost_with_path(&self, waits: &AwaitedCounters) -> bool {
        let is_lost = |(path, counter): (PathId, u64)| {
            let path = &self.paths[path.index()];
            path.is_down && !path.has_passed(counter)
        };
        waits.iter().any(is_lost)
    }

    /// The datagrams that may still come.
    pub(super) fn still_awaited<'a>(&'a self, waits: &'a AwaitedCounters) -> impl Iterator<Item = (PathId, u64)> + 'a {
        waits.iter().filter(|(path, counter)| !self.has_passed(*path, *counter))
    }

    pub(super) fn last_arrival(&self, path: PathId) -> Option<Time> {
        self.paths[path.index()].last_arrival
    }

    /// How much later what was sent before may arrive over another path: the difference of the delays. `None` where one is
    /// not known.
    pub(super) fn delay_difference(&self, path: PathId, other: PathId) -> Option<Span> {
        let difference = self.paths[other.index()].delay_range?.max - self.paths[path.index()].delay_range?.min;
        Some(difference.max(Span::ZERO))
    }
}
