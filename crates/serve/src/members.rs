use crate::network::Network;
use std::collections::{BTreeMap, BTreeSet};

/// What is connected, by network; identifiers increase with time. Where there is no more room, the busiest network gives
/// way.
#[derive(Debug)]
pub(super) struct Members<I> {
    networks: BTreeMap<Network, BTreeSet<I>>,
    len: usize,
}

impl<I> Default for Members<I> {
    fn default() -> Self {
        Members { networks: BTreeMap::new(), len: 0 }
    }
}

impl<I: Ord> Members<I> {
    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of members of one network.
    pub(super) fn count(&self, network: Network) -> usize {
        self.networks.get(&network).map_or(0, BTreeSet::len)
    }

    pub(super) fn insert(&mut self, network: Network, id: I) {
        self.len += usize::from(self.networks.entry(network).or_default().insert(id));
    }

    pub(super) fn remove(&mut self, network: Network, id: &I) {
        let Some(members) = self.networks.get_mut(&network) else { return };
        self.len -= usize::from(members.remove(id));
        if members.is_empty() {
            self.networks.remove(&network);
        }
    }

    /// The network for which `business`, of it and its number of members, is highest.
    pub(super) fn busiest<B: Ord>(&self, business: impl Fn(Network, usize) -> B) -> Option<Network> {
        let business = |(network, members): &(&Network, &BTreeSet<I>)| business(**network, members.len());
        self.networks.iter().max_by_key(business).map(|(network, _)| *network)
    }

    /// The members of one network, oldest first.
    pub(super) fn members(&self, network: Network) -> impl DoubleEndedIterator<Item = &I> {
        self.networks.get(&network).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_network_is_known_by_its_members_and_then_by_its_load() {
        let [one, two] = ["192.0.2.1", "198.51.100.1"].map(|address| Network::of(address.parse().unwrap()));
        let mut members = Members::default();
        assert_eq!(members.busiest(|_, count| count), None);
        for (network, id) in [(one, 1), (two, 2), (two, 3), (two, 3)] {
            members.insert(network, id);
        }
        assert_eq!((members.len(), members.count(one), members.count(two)), (3, 1, 2));
        assert_eq!(members.busiest(|network, count| (count, network == one)), Some(two));
        assert_eq!(members.members(two).collect::<Vec<_>>(), [&2, &3]);
        members.remove(two, &2);
        assert_eq!(members.busiest(|network, count| (count, network == one)), Some(one));
        members.remove(two, &3);
        members.remove(two, &3);
        assert_eq!((members.len(), members.count(two)), (1, 0));
    }
}
