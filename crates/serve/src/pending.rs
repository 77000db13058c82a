//! Connections whose purpose, or whose client, is not known yet.

use crate::unidentified_connection::UnidentifiedConnection;
use kumade_daemon::{FairAdmission, Network};
use kumade_net::clock;
use kumade_units::{Span, Time};
use std::net::{IpAddr, TcpStream};

/// Maximum time until a connection has identified itself.
pub(super) const IDENTIFY_TIMEOUT: Span = Span::from_secs(10);
/// What the connections of a network that is spared count: one of so many. Its probe connections arrive all at once.
const SPARED_WEIGHT_DIVISOR: usize = 8;

/// A bounded number of connections that are not identified. When full, the oldest of the network with most of them is
/// dropped: idle connections, and those of strangers, can't lock out real clients.
pub(super) struct PendingConnections {
    slots: Vec<Option<PendingEntry>>,
    /// By network: the number in the order of acceptance, and the place.
    ids_by_network: FairAdmission<(u64, usize)>,
    accepted_count: u64,
}

struct PendingEntry {
    connection: UnidentifiedConnection,
    network: Network,
    sequence: u64,
    accepted_at: Time,
}

impl PendingConnections {
    pub(super) fn new(capacity: usize) -> Self {
        PendingConnections {
            slots: (0..capacity.max(1)).map(|_| None).collect(),
            ids_by_network: FairAdmission::default(),
            accepted_count: 0,
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.ids_by_network.len() == 0
    }

    /// Adds a non-blocking connection of `peer`; returns its place. If the table is full, another is dropped, of the network
    /// `spared` as the last.
    pub(super) fn admit(&mut self, stream: TcpStream, peer: IpAddr, spared: Option<Network>) -> usize {
        if self.ids_by_network.len() >= self.slots.len() {
            self.evict(spared);
        }
        let place = self.slots.iter().position(Option::is_none).unwrap_or(0);
        let (network, number) = (Network::containing(peer), self.accepted_count);
        self.accepted_count += 1;
        self.ids_by_network.insert(network, (number, place));
        let opening = UnidentifiedConnection::new(stream);
        self.slots[place] =
            Some(PendingEntry { connection: opening, network, sequence: number, accepted_at: clock::monotonic() });
        place
    }

    /// The connection at `place`. (It must not be duplicated: dropping it removes it from the poll set.)
    pub(super) fn get(&mut self, place: usize) -> Option<&mut UnidentifiedConnection> {
        Some(&mut self.slots.get_mut(place)?.as_mut()?.connection)
    }

    /// Takes the connection at `place` out of the table.
    pub(super) fn take(&mut self, place: usize) -> Option<TcpStream> {
        let PendingEntry { connection: opening, network, sequence: number, .. } = self.slots.get_mut(place)?.take()?;
        self.ids_by_network.remove(network, &(number, place));
        Some(opening.stream)
    }

    /// Drops a connection, to free its descriptor; false if there is none.
    pub(super) fn evict(&mut self, spared: Option<Network>) -> bool {
        let business = |network, count| if Some(network) == spared { count / SPARED_WEIGHT_DIVISOR } else { count };
        let busiest = self.ids_by_network.busiest_network(business);
        let oldest = busiest.and_then(|network| self.ids_by_network.members(network).next()).map(|&(_, place)| place);
        oldest.and_then(|place| self.take(place)).is_some()
    }

    /// Drops connections that have timed out.
    pub(super) fn expire(&mut self) {
        let limit = clock::monotonic() - IDENTIFY_TIMEOUT;
        let late = |slot: &Option<PendingEntry>| slot.as_ref().is_some_and(|pending| pending.accepted_at < limit);
        for place in 0..self.slots.len() {
            if late(&self.slots[place]) {
                drop(self.take(place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_netns_testbed::eventually;
    use std::io::Read;
    use std::net::TcpListener;

    const QUIET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const BUSY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        theirs.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    /// Whether the far end has closed it.
    fn is_closed(mut stream: &TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_of_the_busiest_network_gives_way_when_full() {
        let mut pending = PendingConnections::new(3);
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..5).map(|_| pair()).unzip();
        let peers = [QUIET, BUSY, BUSY, BUSY, BUSY];
        let places: Vec<_> =
            theirs.into_iter().zip(peers).map(|(stream, peer)| pending.admit(stream, peer, None)).collect();
        assert_eq!(places, [0, 1, 2, 1, 2], "the place of the oldest of the busy network");
        let closed = || ours.iter().map(is_closed).collect::<Vec<_>>();
        assert!(eventually(|| closed() == [false, true, true, false, false]), "{:?}", closed());
        assert!((0..3).all(|_| pending.evict(None)) && !pending.evict(None));
    }

    #[test]
    fn a_network_that_measures_may_open_many_at_once() {
        let mut pending = PendingConnections::new(10);
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..12).map(|_| pair()).unzip();
        let spared = Some(Network::containing(QUIET));
        for (index, stream) in theirs.into_iter().enumerate() {
            pending.admit(stream, if index % 4 == 0 { BUSY } else { QUIET }, spared);
        }
        let closed = || (0..12).filter(|&index| is_closed(&ours[index])).collect::<Vec<_>>();
        assert!(eventually(|| closed() == [0, 4]), "all of the busy one: {:?}", closed());
    }
}
