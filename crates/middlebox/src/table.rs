use hashbrown::HashTable;
use kumade_units::{Span, Time};
use siphasher::sip::SipHasher13;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// The position of an entry, valid until the entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EntryId(u32);

/// A map of bounded size whose entries expire when idle.
///
/// Each entry is in one of `QUEUES` queues, each with its own idle time. As all entries of a queue wait equally long, it
/// is ordered by deadline: refreshing moves an entry to the end, and expiry takes from the front, both in O(1). Keys are
/// hashed with SipHash-1-3 under a secret seed, so that nobody can choose keys that collide. Memory grows to the largest
/// number of entries so far, up to `max_entries`, and is used again.
#[derive(Debug)]
pub(crate) struct IdleTable<K, V, const QUEUES: usize> {
    seed: u128,
    max_entries: usize,
    index: HashTable<u32>,
    entries: Vec<TableEntry<K, V>>,
    /// The first of the unused entries, which are chained by `newer`.
    first_free: u32,
    queues: [IdleQueue; QUEUES],
}

#[derive(Debug)]
struct TableEntry<K, V> {
    key: K,
    value: V,
    queue: usize,
    deadline: Time,
    older: u32,
    newer: u32,
}

#[derive(Debug)]
struct IdleQueue {
    idle_time: Span,
    oldest: u32,
    newest: u32,
}

const NO_ENTRY: u32 = u32::MAX;

/// The keyed hash of the tables, also a pseudorandom function for those who know the seed.
pub(crate) fn keyed_hash(seed: u128, key: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new_with_keys((seed >> 64) as u64, seed as u64);
    key.hash(&mut hasher);
    hasher.finish()
}

impl<K: Hash + Eq + Copy, V: Copy, const QUEUES: usize> IdleTable<K, V, QUEUES> {
    pub(crate) fn new(seed: u128, max_entries: usize, idle: [Span; QUEUES]) -> Self {
        IdleTable {
            seed,
            max_entries: max_entries.min(NO_ENTRY as usize),
            index: HashTable::new(),
            entries: Vec::new(),
            first_free: NO_ENTRY,
            queues: idle.map(|idle| IdleQueue { idle_time: idle, oldest: NO_ENTRY, newest: NO_ENTRY }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.max_entries
    }

    pub(crate) fn find(&self, key: &K) -> Option<EntryId> {
        let found = self.index.find(keyed_hash(self.seed, key), |at| self.entries[*at as usize].key == *key);
        found.map(|at| EntryId(*at))
    }

    pub(crate) fn key(&self, id: EntryId) -> &K {
        &self.entry(id).key
    }

    pub(crate) fn value(&self, id: EntryId) -> &V {
        &self.entry(id).value
    }

    pub(crate) fn value_mut(&mut self, id: EntryId) -> &mut V {
        &mut self.entries[id.0 as usize].value
    }

    pub(crate) fn queue(&self, id: EntryId) -> usize {
        self.entry(id).queue
    }

    pub(crate) fn deadline(&self, id: EntryId) -> Time {
        self.entry(id).deadline
    }

    /// Adds an entry; `None` where the table is full. The key must not be there.
    pub(crate) fn insert(&mut self, key: K, value: V, queue: usize, now: Time) -> Option<EntryId> {
        if self.is_full() {
            return None;
        }
        let entry = TableEntry { key, value, queue, deadline: now, older: NO_ENTRY, newer: NO_ENTRY };
        let at = self.first_free;
        let at = match self.entries.get_mut(at as usize) {
            Some(unused) => {
                self.first_free = std::mem::replace(unused, entry).newer;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        let (seed, entries) = (self.seed, &self.entries);
        self.index.insert_unique(keyed_hash(seed, &key), at, |other| keyed_hash(seed, &entries[*other as usize].key));
        self.append(at, queue, now);
        Some(EntryId(at))
    }

    /// Starts the idle time of an entry anew, in this queue.
    pub(crate) fn refresh(&mut self, id: EntryId, queue: usize, now: Time) {
        self.unlink(id.0);
        self.append(id.0, queue, now);
    }

    pub(crate) fn remove(&mut self, id: EntryId) -> (K, V) {
        self.unlink(id.0);
        let (key, value) = (self.entry(id).key, self.entry(id).value);
        if let Ok(occupied) = self.index.find_entry(keyed_hash(self.seed, &key), |at| *at == id.0) {
            occupied.remove();
        }
        self.entries[id.0 as usize].newer = std::mem::replace(&mut self.first_free, id.0);
        (key, value)
    }

    /// The entry of a queue that has been idle for longest.
    pub(crate) fn oldest_in_queue(&self, queue: usize) -> Option<EntryId> {
        let at = self.queues[queue].oldest;
        (at != NO_ENTRY).then_some(EntryId(at))
    }

    /// When the entry was added or last refreshed.
    pub(crate) fn last_refresh(&self, id: EntryId) -> Time {
        self.entry(id).deadline - self.queues[self.queue(id)].idle_time
    }

    /// An entry whose idle time is over.
    pub(crate) fn expired_entry(&self, now: Time) -> Option<EntryId> {
        (0..QUEUES).filter_map(|queue| self.oldest_in_queue(queue)).find(|id| self.deadline(*id) <= now)
    }

    /// All entries of one queue after the other, each from the oldest on.
    pub(crate) fn ids(&self) -> impl Iterator<Item = EntryId> + '_ {
        (0..QUEUES).flat_map(|queue| {
            std::iter::successors(self.oldest_in_queue(queue), |id| {
                let newer = self.entry(*id).newer;
                (newer != NO_ENTRY).then_some(EntryId(newer))
            })
        })
    }

    fn entry(&self, id: EntryId) -> &TableEntry<K, V> {
        &self.entries[id.0 as usize]
    }

    fn append(&mut self, at: u32, queue: usize, now: Time) {
        let IdleQueue { idle_time: idle, oldest, newest } = &mut self.queues[queue];
        let entry = &mut self.entries[at as usize];
        (entry.queue, entry.deadline, entry.older, entry.newer) = (queue, now + *idle, *newest, NO_ENTRY);
        let older = std::mem::replace(newest, at);
        match older {
            NO_ENTRY => *oldest = at,
            older => self.entries[older as usize].newer = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let TableEntry { queue, older, newer, .. } = self.entries[at as usize];
        match older {
            NO_ENTRY => self.queues[queue].oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NO_ENTRY => self.queues[queue].newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests;
