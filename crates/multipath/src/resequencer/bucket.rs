use super::pool::{PacketPool, PoolList, WaitingPacket};
use super::window::SequenceWindow;
use crate::path::id::PathId;
use kumade_units::Time;

/// The packets of one bucket that wait, and which have come.
#[derive(Debug)]
pub(super) struct ReorderBucket {
    /// Of those in order; its next number is the one that is delivered next.
    pub(super) ordered_window: SequenceWindow,
    /// Of those that need none, as far as copies are sent.
    pub(super) unordered_window: SequenceWindow,
    /// What waits, by the path that it came over. Since paths keep order, the lowest number is the first of one of them.
    path_lists: [PoolList; PathId::MAX_PATHS],
    /// What was repeated and waits; it is behind what its path has brought.
    repeated_list: PoolList,
    /// Those lists that are not empty, as bits.
    occupied_paths: u16,
    /// How many packets wait.
    pub(super) depth: u32,
    /// The path for which the packet with the lowest number waits.
    pub(super) waiting_for: Option<PathId>,
}

/// One of the lists of a bucket's packets that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitingList {
    /// Of those that came over a path.
    Path(PathId),
    /// Of those that were repeated.
    Repeated,
}

/// Numbers are counted on from here, so that there are some before the first.
const FIRST_NUMBER: u64 = 1 << 32;

impl ReorderBucket {
    pub(super) fn new() -> Self {
        ReorderBucket {
            ordered_window: SequenceWindow::new(FIRST_NUMBER),
            unordered_window: SequenceWindow::new(FIRST_NUMBER),
            path_lists: [PoolList::EMPTY_LIST; PathId::MAX_PATHS],
            repeated_list: PoolList::EMPTY_LIST,
            occupied_paths: 0,
            depth: 0,
            waiting_for: None,
        }
    }

    /// The packet with the lowest number, and the list that it is in.
    pub(super) fn lowest<'p, T>(&self, pool: &'p PacketPool<T>) -> Option<(WaitingList, &'p WaitingPacket<T>)> {
        let repeated = pool.first(&self.repeated_list).map(|waiting| (WaitingList::Repeated, waiting));
        let heads = self.path_heads(pool).map(|(path, waiting)| (WaitingList::Path(path), waiting));
        heads.chain(repeated).min_by_key(|(_, waiting)| waiting.number)
    }

    /// When the first of those that wait arrived.
    pub(super) fn earliest_arrival<T>(&self, pool: &PacketPool<T>) -> Option<Time> {
        let heads = self.path_heads(pool).map(|(_, waiting)| waiting);
        heads.chain(pool.first(&self.repeated_list)).map(|waiting| waiting.earliest_arrival_onward).min()
    }

    /// Of each path, the packet with the lowest number that came over it.
    pub(super) fn path_heads<'p, T>(
        &self,
        pool: &'p PacketPool<T>,
    ) -> impl Iterator<Item = (PathId, &'p WaitingPacket<T>)> {
        PathId::all()
            .filter(|path| self.occupied_paths & 1 << path.index() != 0)
            .filter_map(|path| Some((path, pool.first(&self.path_lists[path.index()])?)))
    }

    /// Has a packet wait. It comes back where it was overtaken on its path by more than that passes for reordering.
    pub(super) fn insert<T>(
        &mut self,
        pool: &mut PacketPool<T>,
        path: PathId,
        waiting: WaitingPacket<T>,
    ) -> Result<(), T> {
        pool.insert(&mut self.path_lists[path.index()], waiting)?;
        self.occupied_paths |= 1 << path.index();
        self.depth += 1;
        Ok(())
    }

    /// Whether a later number waits that came over this path: one that comes now was sent before over another path, and is repeated.
    pub(super) fn has_passed_number<T>(&self, pool: &PacketPool<T>, path: PathId, number: u64) -> bool {
        pool.last(&self.path_lists[path.index()]).is_some_and(|last| last.number > number)
    }

    /// Has a packet wait that was lost and repeated. It comes back as with [`insert`](Self::insert).
    pub(super) fn insert_repeated<T>(&mut self, pool: &mut PacketPool<T>, waiting: WaitingPacket<T>) -> Result<(), T> {
        pool.insert(&mut self.repeated_list, waiting)?;
        self.depth += 1;
        Ok(())
    }

    /// Takes the first of a list.
    pub(super) fn take<T>(&mut self, pool: &mut PacketPool<T>, from: WaitingList) -> Option<WaitingPacket<T>> {
        let list = match from {
            WaitingList::Path(path) => &mut self.path_lists[path.index()],
            WaitingList::Repeated => &mut self.repeated_list,
        };
        let waiting = pool.take_first(list)?;
        if let (WaitingList::Path(path), true) = (from, list.is_empty()) {
            self.occupied_paths &= !(1 << path.index());
        }
        self.depth -= 1;
        Some(waiting)
    }
}
