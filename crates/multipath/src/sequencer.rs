use crate::message::BUCKET_COUNT;
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use kumade_link::SparseTable;

/// Numbers packets where they enter: each bucket by itself, and those that need no order apart from those that do.
///
/// A bucket is what the hash of a packet's flow selects, so that all packets of a flow are in one. Path counters are
/// those of the [`Bond`](crate::Bond). All of it is made anew, and the far end's [`Resequencer`](crate::Resequencer)
/// with it, when one of the two gateways has restarted; not when only their keys change.
#[derive(Debug)]
pub struct Sequencer {
    buckets: SparseTable<SequencerBucket>,
    paths: [PathCounters; PathId::MAX_PATHS],
}

/// What the packet after it has to be told.
#[derive(Debug, Clone, Copy, Default)]
struct SequencerBucket {
    next_ordered: u32,
    next_unordered: u32,
    /// For each path the counter after that of the bucket's last datagram; 0 where there was none.
    next_counters: [u64; PathId::MAX_PATHS],
}

#[derive(Debug, Clone, Copy, Default)]
struct PathCounters {
    /// The counter after the last one assigned, of any bucket.
    next_counter: u64,
    /// Below this, nothing is to be waited for: it has arrived, or it is known to be lost.
    settled_counter: u64,
}

/// A packet's number, and what was sent before it. See [`Sequencer::assign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    /// The packet's number in its bucket; after 2³² packets they begin again. Messages have its lowest bits ([`NUMBER_BITS`](crate::message::NUMBER_BITS)).
    pub number: u32,
    predecessors: [Predecessor; PathId::MAX_PATHS],
    count: u8,
}

impl Assignment {
    /// What the copy of the packet that is sent over `path` tells the receiver: no path twice, and not its own, which is
    /// known to have passed what was sent over it earlier.
    pub fn predecessors(&self, path: PathId) -> impl Iterator<Item = Predecessor> + Clone + use<> {
        let Assignment { predecessors, count, .. } = *self;
        predecessors.into_iter().take(count.into()).filter(move |predecessor| predecessor.path() != path)
    }
}

impl Sequencer {
    /// Begins with number 0 in each bucket.
    pub fn new() -> Self {
        Sequencer {
            buckets: SparseTable::new(BUCKET_COUNT.into(), SequencerBucket::default),
            paths: Default::default(),
        }
    }

    /// The number of the next packet of a bucket, which leaves as these datagrams: one, or several copies on different
    /// paths. The counter is that of the datagram on its path.
    ///
    /// Packets that take part in resequencing only; see [`Sequencer::assign_unordered`].
    ///
    /// # Panics
    /// The bucket is not below [`BUCKET_COUNT`].
    pub fn assign(&mut self, bucket: u16, copies: impl IntoIterator<Item = (PathId, u64)>) -> Assignment {
        let bucket = self.buckets.get_mut(bucket.into());
        let assignment = bucket.next_assignment(&self.paths);
        for (path, counter) in copies {
            let after = counter + 1;
            bucket.next_counters[path.index()] = after;
            let path = &mut self.paths[path.index()];
            path.next_counter = path.next_counter.max(after);
        }
        assignment
    }

    /// The number of the next packet of a bucket that is delivered as it arrives. It tells one packet's copies from
    /// other packets.
    ///
    /// # Panics
    /// The bucket is not below [`BUCKET_COUNT`].
    pub fn assign_unordered(&mut self, bucket: u16) -> u32 {
        let next = &mut self.buckets.get_mut(bucket.into()).next_unordered;
        let number = *next;
        *next = next.wrapping_add(1);
        number
    }

    /// The far end has received the datagram with this counter on this path (a report says so). What it has passed need
    /// not be told again, which spares bytes.
    pub fn counter_reported(&mut self, path: PathId, highest: u64) {
        let path = &mut self.paths[path.index()];
        path.settled_counter = path.settled_counter.max(highest.saturating_add(1).min(path.next_counter));
    }

    /// What this path was given is lost: later packets tell the receiver not to wait for it.
    pub fn path_down(&mut self, path: PathId) {
        let path = &mut self.paths[path.index()];
        path.settled_counter = path.next_counter;
    }
}

impl Default for Sequencer {
    fn default() -> Self {
        Sequencer::new()
    }
}

impl SequencerBucket {
    fn next_assignment(&mut self, paths: &[PathCounters; PathId::MAX_PATHS]) -> Assignment {
        let number = self.next_ordered;
        self.next_ordered = number.wrapping_add(1);
        let mut predecessors = [Predecessor::from_lowest(PathId::from_low_bits(0), 0); PathId::MAX_PATHS];
        let mut count = 0;
        for path in PathId::all() {
            let (after, PathCounters { next_counter: newest, settled_counter: settled }) =
                (self.next_counters[path.index()], paths[path.index()]);
            // What is so far behind has been passed long ago, and its lowest bits would name another datagram.
            if after > settled && newest - after < Predecessor::MAX_COUNTER_DISTANCE / 2 {
                predecessors[count] = Predecessor::new(path, after - 1);
                count += 1;
            }
        }
        Assignment { number, predecessors, count: count as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u8) -> PathId {
        PathId::new(number).unwrap()
    }

    fn predecessor_counters(assignment: &Assignment, over: u8) -> Vec<(u8, u64)> {
        assignment.predecessors(path(over)).map(|one| (one.path().number(), one.counter_near(0))).collect()
    }

    #[test]
    fn each_bucket_counts_by_itself_and_tells_its_last_datagram_on_every_other_path() {
        let mut sequencer = Sequencer::new();
        let first = sequencer.assign(5, [(path(0), 10)]);
        assert_eq!((first.number, predecessor_counters(&first, 0)), (0, vec![]));
        let second = sequencer.assign(5, [(path(1), 3)]);
        assert_eq!((second.number, predecessor_counters(&second, 1)), (1, vec![(0, 10)]));
        let other = sequencer.assign(6, [(path(0), 11)]);
        assert_eq!((other.number, predecessor_counters(&other, 0)), (0, vec![]));
        let third = sequencer.assign(5, [(path(0), 12)]);
        assert_eq!((third.number, predecessor_counters(&third, 0)), (2, vec![(1, 3)]), "not its own path's");
        assert_eq!((sequencer.assign_unordered(5), sequencer.assign_unordered(5)), (0, 1));
    }

    #[test]
    fn copies_do_not_wait_for_each_other() {
        let mut sequencer = Sequencer::new();
        sequencer.assign(0, [(path(0), 0), (path(1), 0)]);
        let second = sequencer.assign(0, [(path(0), 1), (path(1), 1)]);
        assert_eq!((predecessor_counters(&second, 0), predecessor_counters(&second, 1)), (vec![(1, 0)], vec![(0, 0)]));
    }

    #[test]
    fn what_arrived_or_was_lost_with_its_path_is_not_told() {
        let mut sequencer = Sequencer::new();
        sequencer.assign(0, [(path(0), 7), (path(1), 9)]);
        sequencer.counter_reported(path(0), 6);
        assert_eq!(predecessor_counters(&sequencer.assign(0, [(path(2), 0)]), 2), [(0, 7), (1, 9)]);
        sequencer.counter_reported(path(0), 7);
        assert_eq!(predecessor_counters(&sequencer.assign(0, [(path(2), 1)]), 2), [(1, 9)]);
        sequencer.path_down(path(1));
        assert_eq!(predecessor_counters(&sequencer.assign(0, [(path(2), 2)]), 2), [(0, 0); 0]);
        sequencer.assign(0, [(path(1), 10)]);
        assert_eq!(predecessor_counters(&sequencer.assign(0, [(path(2), 3)]), 2), [(1, 10)], "the path is back");
    }

    #[test]
    fn a_datagram_whose_lowest_bits_mean_another_by_now_is_not_told() {
        let mut sequencer = Sequencer::new();
        sequencer.assign(0, [(path(0), 7)]);
        sequencer.assign(1, [(path(0), 7 + (1 << 14))]);
        assert_eq!(predecessor_counters(&sequencer.assign(0, [(path(1), 0)]), 1), [(0, 0); 0]);
    }
}
