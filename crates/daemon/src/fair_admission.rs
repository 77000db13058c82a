use crate::network::Network;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is connected, by network; identifiers increase with time. Where there is no more room, the busiest network gives
/// way, so that no network can push out the others.
#[derive(Debug)]
pub struct FairAdmission<I> {
    networks: BTreeMap<Network, BTreeSet<I>>,
    len: usize,
}

impl<I> Default for FairAdmission<I> {
    fn default() -> Self {
        FairAdmission { networks: BTreeMap::new(), len: 0 }
    }
}

impl<I: Ord> FairAdmission<I> {
    /// Number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is a member.
    pub fn contains(&self, network: Network, id: &I) -> bool {
        self.networks.get(&network).is_some_and(|members| members.contains(id))
    }

    /// Number of members of one network.
    pub fn member_count(&self, network: Network) -> usize {
        self.networks.get(&network).map_or(0, BTreeSet::len)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a member, unless it is there already.
    pub fn insert(&mut self, network: Network, id: I) {
        self.len += usize::from(self.networks.entry(network).or_default().insert(id));
    }

    /// Removes a member, if it is there.
    pub fn remove(&mut self, network: Network, id: &I) {
        let Some(members) = self.networks.get_mut(&network) else { return };
        self.len -= usize::from(members.remove(id));
        if members.is_empty() {
            self.networks.remove(&network);
        }
    }

    /// The network for which `business`, of it and its number of members, is highest.
    pub fn busiest_network<B: Ord>(&self, business: impl Fn(Network, usize) -> B) -> Option<Network> {
        let business = |(network, members): &(&Network, &BTreeSet<I>)| business(**network, members.len());
        self.networks.iter().max_by_key(business).map(|(network, _)| *network)
    }

    /// Who gives way where there is no more room, and its network: the oldest of the busiest network. Up to `together` members,
    /// such as one peer opens at once, make no network busier than another; among equally busy ones it is the oldest of all.
    pub fn next_to_give_way(&self, together: usize) -> Option<(Network, &I)> {
        let networks =
            self.networks.iter().filter_map(|(network, members)| Some((*network, members.len(), members.first()?)));
        let busiest = networks.max_by_key(|(_, count, oldest)| ((*count).max(together), Reverse(*oldest)))?;
        Some((busiest.0, busiest.2))
    }

    /// The oldest of all, and its network.
    pub fn oldest(&self) -> Option<(Network, &I)> {
        self.next_to_give_way(usize::MAX)
    }

    /// The members of one network, oldest first.
    pub fn members(&self, network: Network) -> impl DoubleEndedIterator<Item = &I> {
        self.networks.get(&network).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_network_is_known_by_its_members_and_then_by_its_load() {
        let [one, two] = ["192.0.2.1", "198.51.100.1"].map(|address| Network::containing(address.parse().unwrap()));
        let mut members = FairAdmission::default();
        assert_eq!(members.busiest_network(|_, count| count), None);
        for (network, id) in [(one, 1), (two, 2), (two, 3), (two, 3)] {
            members.insert(network, id);
        }
        assert_eq!((members.len(), members.member_count(one), members.member_count(two)), (3, 1, 2));
        assert_eq!(members.busiest_network(|network, count| (count, network == one)), Some(two));
        assert_eq!(members.members(two).collect::<Vec<_>>(), [&2, &3]);
        assert!(!members.is_empty() && members.contains(two, &2) && !members.contains(one, &2));
        members.remove(two, &2);
        assert_eq!(members.busiest_network(|network, count| (count, network == one)), Some(one));
        members.remove(two, &3);
        members.remove(two, &3);
        assert_eq!((members.len(), members.member_count(two)), (1, 0));
        members.remove(one, &1);
        assert!(members.is_empty());
    }

    #[test]
    fn the_oldest_of_the_busiest_network_gives_way() {
        let [one, two, three] =
            ["192.0.2.1", "198.51.100.1", "203.0.113.1"].map(|address| Network::containing(address.parse().unwrap()));
        let mut members = FairAdmission::default();
        assert_eq!(members.next_to_give_way(1), None);
        // A peer with two connections, and a network with three.
        for (network, id) in [(one, 1), (two, 2), (three, 3), (three, 4), (two, 5), (two, 6), (one, 7)] {
            members.insert(network, id);
        }
        assert_eq!(members.next_to_give_way(1), Some((two, &2)));
        assert_eq!(members.next_to_give_way(2), Some((two, &2)), "more than a peer has");
        assert_eq!(members.next_to_give_way(3), Some((one, &1)), "a peer's worth each: the oldest of all");
        assert_eq!(members.oldest(), Some((one, &1)));
        members.remove(two, &2);
        // Two each: the one whose oldest is the oldest.
        assert_eq!(members.next_to_give_way(1), Some((one, &1)));
        members.remove(one, &1);
        assert_eq!((members.next_to_give_way(1), members.oldest()), (Some((three, &3)), Some((three, &3))));
    }
}
