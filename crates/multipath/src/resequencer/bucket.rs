use super::pool::{PacketPool, PoolList, WaitingPacket};
use super::window::SequenceWindow;
use crate::path::id::PathId;

/// The packets of one bucket that wait, and which have come.
#[derive(Debug)]
pub(super) struct ReorderBucket {
    /// Of those in order; its next number is the one that is delivered next.
    pub(super) ordered_window: SequenceWindow,
    /// Of those that need none, as far as copies are sent.
    pub(super) unordered_window: SequenceWindow,
    /// What waits, by the path that it came over. Since paths keep order, the lowest number is the first of one of them.
    path_lists: [PoolList; PathId::MAX_PATHS],
    /// Those lists that are not empty, as bits.
    occupied_paths: u16,
    /// How many packets wait.
    pub(super) depth: u32,
    /// The path for which the packet with the lowest number waits.
    pub(super) waiting_for: Option<PathId>,
}

/// Numbers are counted on from here, so that there are some before the first.
const FIRST_NUMBER: u64 = 1 << 32;

impl ReorderBucket {
    pub(super) fn new() -> Self {
        ReorderBucket {
            ordered_window: SequenceWindow::new(FIRST_NUMBER),
            unordered_window: SequenceWindow::new(FIRST_NUMBER),
            path_lists: [PoolList::EMPTY_LIST; PathId::MAX_PATHS],
            occupied_paths: 0,
            depth: 0,
            waiting_for: None,
        }
    }

    /// The packet with the lowest number, and the path that it came over.
    pub(super) fn lowest<'p, T>(&self, pool: &'p PacketPool<T>) -> Option<(PathId, &'p WaitingPacket<T>)> {
        self.path_heads(pool).min_by_key(|(_, waiting)| waiting.number)
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

    /// Takes the first of those that came over a path.
    pub(super) fn take<T>(&mut self, pool: &mut PacketPool<T>, path: PathId) -> Option<WaitingPacket<T>> {
        let list = &mut self.path_lists[path.index()];
        let waiting = pool.take_first(list)?;
        if list.is_empty() {
            self.occupied_paths &= !(1 << path.index());
        }
        self.depth -= 1;
        Some(waiting)
    }
}
