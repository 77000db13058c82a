/// A key for each of a fixed number of places, and which is lowest: a tournament of two neighbours at a time. A change
/// costs no more than the matches that it can turn.
///
/// Nothing is allocated before the first place has a key.
#[derive(Debug)]
pub(super) struct TournamentTree<K> {
    keys: Vec<K>,
    /// The winner of each match; the matches below `n` are `2n` and `2n + 1`, and those from `keys.len()` on are the
    /// places themselves.
    winners: Vec<u16>,
    no_key: K,
    places: u16,
}

impl<K: Ord + Copy> TournamentTree<K> {
    /// So many places, a power of two, none with a key. No key can be `never`.
    pub(super) fn new(places: u16, never: K) -> Self {
        assert!(places.is_power_of_two(), "{places} places are no power of two");
        TournamentTree { keys: Vec::new(), winners: Vec::new(), no_key: never, places }
    }

    fn allocate(&mut self) {
        let count = usize::from(self.places);
        let mut winners: Vec<u16> = (0..2 * count).map(|node| node.saturating_sub(count) as u16).collect();
        for node in (1..count).rev() {
            winners[node] = winners[2 * node];
        }
        (self.keys, self.winners) = (vec![self.no_key; count], winners);
    }

    /// Sets a place's key.
    pub(super) fn set(&mut self, place: u16, key: Option<K>) {
        let key = key.unwrap_or(self.no_key);
        if self.keys.is_empty() {
            if key == self.no_key {
                return;
            }
            self.allocate();
        }
        if std::mem::replace(&mut self.keys[usize::from(place)], key) == key {
            return;
        }
        let mut node = (self.keys.len() + usize::from(place)) / 2;
        while node > 0 {
            let winner = self.winner(node);
            let before = std::mem::replace(&mut self.winners[node], winner);
            if before == winner && winner != place {
                return;
            }
            node /= 2;
        }
    }

    /// A place's key.
    pub(super) fn get(&self, place: u16) -> Option<K> {
        self.keys.get(usize::from(place)).copied().filter(|key| *key < self.no_key)
    }

    /// The lowest key and its place; of equal keys the lower place.
    pub(super) fn lowest(&self) -> Option<(K, u16)> {
        let place = *self.winners.get(1)?;
        let key = self.keys[usize::from(place)];
        (key < self.no_key).then_some((key, place))
    }

    fn winner(&self, node: usize) -> u16 {
        let (one, other) = (self.winners[2 * node], self.winners[2 * node + 1]);
        if self.keys[usize::from(one)] <= self.keys[usize::from(other)] { one } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_lowest_whatever_was_set_before(
            changes in prop::collection::vec((0u16..32, prop::option::of(0u64..50)), 1..200)
        ) {
            let mut tournament = TournamentTree::new(32, u64::MAX);
            prop_assert_eq!(tournament.lowest(), None);
            let mut model = [None; 32];
            for (place, key) in changes {
                tournament.set(place, key);
                model[usize::from(place)] = key;
                let lowest = (0u16..).zip(model).filter_map(|(place, key)| Some((key?, place))).min();
                prop_assert_eq!(tournament.lowest(), lowest);
            }
        }
    }
}
