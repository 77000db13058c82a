use super::config::DelayRange;
use crate::path_id::PathId;
use crate::predecessor::Predecessor;
use kumade_units::{Span, Time};

/// How far each path has come.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    paths: [Path; PathId::MAX_PATHS],
}

#[derive(Debug, Default)]
struct Path {
    /// The counter after the highest one that arrived; 0 before any has.
    after_highest: u64,
    /// Counters below this are not waited for any more.
    given_up: u64,
    /// Nothing is waited for until something arrives.
    down: bool,
    /// How far below the counter after the highest one that arrived others may still come: 0 on a path that keeps order.
    reserve: u64,
    delay: Option<DelayRange>,
    last_arrival: Option<Time>,
}

impl Path {
    fn has_passed(&self, counter: u64) -> bool {
        counter < self.given_up.max(self.after_highest.saturating_sub(self.reserve))
    }
}

/// For each path in a set, a datagram that was assigned to it before a packet was: while it and all after it may still
/// come, the packet waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    paths: u16,
    counters: [u64; PathId::MAX_PATHS],
}

impl Waits {
    const NONE: Waits = Waits { paths: 0, counters: [0; PathId::MAX_PATHS] };

    fn add(&mut self, path: PathId, counter: u64) {
        self.paths |= 1 << path.index();
        let place = &mut self.counters[path.index()];
        *place = counter.max(*place);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PathId, u64)> {
        let Waits { paths, counters } = self;
        PathId::all().filter(move |path| paths & 1 << path.index() != 0).map(|path| (path, counters[path.index()]))
    }
}

impl Frontier {
    /// A datagram has arrived.
    pub(super) fn arrived(&mut self, path: PathId, counter: u64, now: Time) {
        let path = &mut self.paths[path.index()];
        path.last_arrival = Some(now);
        path.after_highest = path.after_highest.max(counter + 1);
        path.down = false;
    }

    pub(super) fn down(&mut self, path: PathId) {
        self.paths[path.index()].down = true;
    }

    pub(super) fn give_up(&mut self, path: PathId, counter: u64) {
        let path = &mut self.paths[path.index()];
        path.given_up = path.given_up.max(counter + 1);
    }

    pub(super) fn set_delay(&mut self, path: PathId, delay: Option<DelayRange>) {
        self.paths[path.index()].delay = delay;
    }

    pub(super) fn set_reordering_extent(&mut self, path: PathId, datagrams: u32) {
        // The highest itself has come: if nothing is late, what is below it is lost.
        self.paths[path.index()].reserve = if datagrams == 0 { 0 } else { u64::from(datagrams) + 1 };
    }

    /// Whether nothing up to this counter is to be waited for.
    pub(super) fn has_passed(&self, path: PathId, counter: u64) -> bool {
        let path = &self.paths[path.index()];
        path.down || path.has_passed(counter)
    }

    /// What a packet has to wait for that has just arrived in this datagram.
    pub(super) fn waits(
        &self,
        path: PathId,
        counter: u64,
        predecessors: impl IntoIterator<Item = Predecessor>,
    ) -> Waits {
        let mut waits = Waits::NONE;
        for predecessor in predecessors {
            let of = predecessor.path();
            let counter = predecessor.counter_near(self.paths[of.index()].after_highest);
            // A path that is down may be back before the packet goes.
            if of != path && !self.paths[of.index()].has_passed(counter) {
                waits.add(of, counter);
            }
        }
        if self.paths[path.index()].reserve > 0 && counter > 0 {
            waits.add(path, counter - 1);
        }
        waits
    }

    /// The datagrams that may still come.
    pub(super) fn open<'a>(&'a self, waits: &'a Waits) -> impl Iterator<Item = (PathId, u64)> + 'a {
        waits.iter().filter(|(path, counter)| !self.has_passed(*path, *counter))
    }

    pub(super) fn last_arrival(&self, path: PathId) -> Option<Time> {
        self.paths[path.index()].last_arrival
    }

    /// How much later what was sent before may arrive over another path: the difference of the delays. `None` where one is
    /// not known.
    pub(super) fn spread(&self, path: PathId, other: PathId) -> Option<Span> {
        let difference = self.paths[other.index()].delay?.most - self.paths[path.index()].delay?.least;
        Some(difference.max(Span::ZERO))
    }
}
