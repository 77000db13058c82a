use super::pool::{List, Pool, Waiting};
use super::window::Window;
use crate::path_id::PathId;

/// The packets of one bucket that wait, and which have come.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Of those in order; its next number is the one that is delivered next.
    pub(super) ordered: Window,
    /// Of those that need none, as far as copies are sent.
    pub(super) unordered: Window,
    /// What waits, by the path that it came over. Since paths keep order, the lowest number is the first of one of them.
    lists: [List; PathId::MAX_PATHS],
    /// Those lists that are not empty, as bits.
    occupied: u16,
    /// How many packets wait.
    pub(super) depth: u32,
    /// The path for which the packet with the lowest number waits.
    pub(super) waiting_for: Option<PathId>,
}

/// Numbers are counted on from here, so that there are some before the first.
const FIRST: u64 = 1 << 32;

impl Bucket {
    pub(super) fn new() -> Self {
        Bucket {
            ordered: Window::new(FIRST),
            unordered: Window::new(FIRST),
            lists: [List::EMPTY; PathId::MAX_PATHS],
            occupied: 0,
            depth: 0,
            waiting_for: None,
        }
    }

    /// The packet with the lowest number, and the path that it came over.
    pub(super) fn first<'p, T>(&self, pool: &'p Pool<T>) -> Option<(PathId, &'p Waiting<T>)> {
        self.firsts(pool).min_by_key(|(_, waiting)| waiting.number)
    }

    /// Of each path, the packet with the lowest number that came over it.
    pub(super) fn firsts<'p, T>(&self, pool: &'p Pool<T>) -> impl Iterator<Item = (PathId, &'p Waiting<T>)> {
        PathId::all()
            .filter(|path| self.occupied & 1 << path.index() != 0)
            .filter_map(|path| Some((path, pool.first(&self.lists[path.index()])?)))
    }

    pub(super) fn insert<T>(&mut self, pool: &mut Pool<T>, path: PathId, waiting: Waiting<T>) {
        pool.insert(&mut self.lists[path.index()], waiting);
        self.occupied |= 1 << path.index();
        self.depth += 1;
    }

    /// Takes the first of those that came over a path.
    pub(super) fn take<T>(&mut self, pool: &mut Pool<T>, path: PathId) -> Option<Waiting<T>> {
        let list = &mut self.lists[path.index()];
        let waiting = pool.take_first(list)?;
        if list.is_empty() {
            self.occupied &= !(1 << path.index());
        }
        self.depth -= 1;
        Some(waiting)
    }
}
