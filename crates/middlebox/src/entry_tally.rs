use crate::table::IdleTable;
use kumade_units::{Span, Time};
use std::hash::Hash;

/// How many entries of another table belong to each key: bounded, as each key has at least one of them.
#[derive(Debug)]
pub(crate) struct EntryTally<K> {
    counts: IdleTable<K, u32, 1>,
}

impl<K: Hash + Eq + Copy> EntryTally<K> {
    pub(crate) fn new(seed: u128, max_entries: usize) -> Self {
        EntryTally { counts: IdleTable::new(seed, max_entries, [Span::MAX]) }
    }

    pub(crate) fn count(&self, key: &K) -> u32 {
        self.counts.find(key).map_or(0, |id| *self.counts.value(id))
    }

    /// The number of keys.
    pub(crate) fn key_count(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn add_entry(&mut self, key: K) {
        match self.counts.find(&key) {
            Some(id) => *self.counts.value_mut(id) += 1,
            None => {
                self.counts.insert(key, 1, 0, Time::ZERO);
            }
        }
    }

    pub(crate) fn remove_entry(&mut self, key: &K) {
        let Some(id) = self.counts.find(key) else { return };
        let count = self.counts.value_mut(id);
        *count -= 1;
        if *count == 0 {
            self.counts.remove(id);
        }
    }
}
