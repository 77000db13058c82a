//! Which connections of visitors there is room for.

use kumade_daemon::{FairAdmission, Network};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Connections at a time. Each may hold a descriptor and some 40 kB.
pub(super) const MAX_CONNECTIONS: usize = 512;
/// A browser has six at most: so many make no network busier than another.
const BROWSER_CONNECTIONS: usize = 6;

/// Connections, with what ends each: where there is no more room, the oldest of the network that has most gives way.
///
/// **Contract.** Pure. [`admit`](Self::admit) each connection, and [`remove`](Self::remove) it once it has ended.
#[derive(Debug)]
pub(super) struct Admission<H> {
    capacity: usize,
    members: FairAdmission<u64>,
    handles: BTreeMap<u64, (Network, H)>,
    next: u64,
}

impl<H> Admission<H> {
    pub(super) fn new(capacity: usize) -> Self {
        Admission { capacity, members: FairAdmission::default(), handles: BTreeMap::new(), next: 0 }
    }

    /// A number for a connection; and what ends the one that gives way for it.
    pub(super) fn admit(&mut self, from: IpAddr, handle: impl FnOnce(u64) -> H) -> Option<H> {
        let (network, id) = (Network::containing(from), self.next);
        self.next += 1;
        let leaving = if self.members.len() < self.capacity { None } else { self.next_to_leave() };
        self.members.insert(network, id);
        self.handles.insert(id, (network, handle(id)));
        leaving
    }

    /// It has ended, unless it gave way before.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some((network, _)) = self.handles.remove(&id) {
            self.members.remove(network, &id);
        }
    }

    fn next_to_leave(&mut self) -> Option<H> {
        let id = *self.members.next_to_give_way(BROWSER_CONNECTIONS)?.1;
        let (network, handle) = self.handles.remove(&id)?;
        self.members.remove(network, &id);
        Some(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_of_one_network_push_out_no_visitor_of_another() {
        let (hostile, honest) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([198, 51, 100, 1]));
        let mut admission = Admission::new(20);
        for _ in 0..20 {
            assert_eq!(admission.admit(hostile, |id| id), None);
        }
        for id in 0..6 {
            assert_eq!(admission.admit(honest, |id| id), Some(id), "the oldest of the network that has most");
        }
        for id in 6..100 {
            let leaving = admission.admit(hostile, |id| id).unwrap();
            assert!(!(20..26).contains(&leaving), "{id}: {leaving}");
        }
        admission.remove(20);
        admission.remove(20);
        assert_eq!(admission.admit(honest, |id| id), None, "there is room");
        assert_eq!(admission.members.len(), 20);
        assert_eq!(admission.handles.len(), 20);
    }
}
