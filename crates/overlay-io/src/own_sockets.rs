use crate::overload_limit::OverloadWatch;
use kumade_net::udp::BatchSocket;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Sockets that receive of one peer alone, at the port that all peers send to: what one sends more than is taken of it fills no
/// buffer but its own, and costs this host no more than the kernel's drop. Peers that have none share the path's socket.
#[derive(Debug, Default)]
pub(crate) struct OwnSockets {
    sockets: Vec<OwnSocket>,
    /// Who may get one: what has come of a peer through the path's socket lately.
    candidates: BTreeMap<usize, Candidate>,
}

#[derive(Debug)]
pub(crate) struct OwnSocket {
    /// Among all sockets of the shard.
    pub(crate) number: u32,
    pub(crate) socket: BatchSocket,
    pub(crate) remote: usize,
    address: SocketAddr,
    opened_at: Time,
    last_used: Time,
    pub(crate) watch: OverloadWatch,
}

#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    datagrams: u32,
}

/// The kernel goes through those of one port for each datagram.
const MAX_SOCKETS: usize = 64;
/// Authentic datagrams of a peer, all from one address, in half a second: more than probes, reports and calls, some 24 Mbit/s. Thousands
/// of peers with less have none, which each turn would have to look at.
const MIN_DATAGRAMS: u32 = 1000;
/// A peer gets another one, for another address, no more often.
const MIN_LIFETIME: Span = Span::from_secs(1);
/// Its peer may be gone, or be quiet.
const MAX_IDLE_TIME: Span = Span::from_secs(10);

impl OwnSockets {
    /// So many authentic datagrams of a peer have come from this address through the path's socket. Returns whether it has a socket of
    /// its own from now on, with the number after `last_number`.
    pub(crate) fn record(
        &mut self,
        (remote, address, datagrams): (usize, SocketAddr, u32),
        path_socket: &BatchSocket,
        last_number: &mut u32,
        now: Time,
    ) -> bool {
        let candidate = self.candidates.entry(remote).or_insert(Candidate { address, datagrams: 0 });
        if candidate.address != address {
            *candidate = Candidate { address, datagrams: 0 };
        }
        candidate.datagrams += datagrams;
        if candidate.datagrams < MIN_DATAGRAMS || !self.has_room_for(remote, address, now) {
            return false;
        }
        self.candidates.remove(&remote);
        self.sockets.retain(|own| own.remote != remote);
        match path_socket.connected_to(address, self.sockets.iter().map(|own| &own.socket)) {
            Ok(socket) => {
                *last_number = last_number.wrapping_add(1);
                self.sockets.push(OwnSocket {
                    number: *last_number,
                    socket,
                    remote,
                    address,
                    opened_at: now,
                    last_used: now,
                    watch: OverloadWatch::default(),
                });
                true
            }
            Err(error) => {
                tracing::debug!("{address} shares a socket with others: {error}");
                false
            }
        }
    }

    fn has_room_for(&self, remote: usize, address: SocketAddr, now: Time) -> bool {
        match self.sockets.iter().find(|own| own.remote == remote) {
            Some(own) => own.address != address && now - own.opened_at >= MIN_LIFETIME,
            None => self.sockets.len() < MAX_SOCKETS,
        }
    }

    /// Something has come through the socket with this number.
    pub(crate) fn record_use(&mut self, number: u32, now: Time) {
        self.sockets.iter_mut().filter(|own| own.number == number).for_each(|own| own.last_used = now);
    }

    /// Closes what is not used. Returns whether there was any. To be called twice a second.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        self.candidates.clear();
        let before = self.sockets.len();
        self.sockets.retain(|own| now - own.last_used < MAX_IDLE_TIME);
        self.sockets.len() < before
    }

    /// As [`OverloadWatch::update`], for each. Returns whether there are other sources to wait for now.
    pub(crate) fn update_watches(&mut self) -> bool {
        let sockets = self.sockets.iter_mut();
        sockets.fold(false, |changed, own| changed | own.watch.update(|| own.socket.dropped_messages()))
    }

    /// The path's socket is another one, or peers have other places.
    pub(crate) fn clear(&mut self) {
        *self = OwnSockets::default();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OwnSocket> {
        self.sockets.iter()
    }

    /// The socket with this number, as long as there is one: others come and go within a turn.
    pub(crate) fn get(&self, number: u32) -> Option<&BatchSocket> {
        self.sockets.iter().find(|own| own.number == number).map(|own| &own.socket)
    }

    /// Of the socket with this number.
    pub(crate) fn watch_mut(&mut self, number: u32) -> Option<&mut OverloadWatch> {
        self.sockets.iter_mut().find(|own| own.number == number).map(|own| &mut own.watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::interface::Family;
    use kumade_net::udp::BatchReceiver;
    use kumade_net::{SocketBinding, clock};
    use kumade_packet::DsField;

    fn open() -> BatchSocket {
        BatchSocket::bind(&SocketBinding::default(), Family::V4, 0).unwrap()
    }

    fn address(socket: &BatchSocket) -> SocketAddr {
        ([127, 0, 0, 1], socket.local_addr().unwrap().port()).into()
    }

    fn send(from: &BatchSocket, to: &BatchSocket, datagrams: usize) {
        // Of different lengths, so that each takes memory of its own.
        let batch: Vec<_> = (0..datagrams).map(|number| vec![7; 1000 + number % 2]).collect();
        from.send(address(to), DsField::default(), &batch, |_, _| {});
    }

    #[test]
    fn what_a_peer_sends_beyond_all_measure_is_lost_in_its_own_socket() {
        let (path, flooding, quiet) = (open(), open(), open());
        let (mut own, mut number, now) = (OwnSockets::default(), 0, clock::monotonic());
        assert!(own.record((3, address(&flooding), MIN_DATAGRAMS), &path, &mut number, now));
        // 48 MB are more than any buffer has.
        (0..480).for_each(|_| send(&flooding, &path, 100));
        send(&quiet, &path, 1);
        let mut senders = Vec::new();
        BatchReceiver::new(&path).receive(|received| senders.push(received.source)).unwrap();
        assert_eq!(senders, [address(&quiet)]);
    }

    #[test]
    fn who_sends_much_from_one_address_has_a_socket_until_it_is_quiet_and_never_two() {
        let (path, one, other) = (open(), address(&open()), address(&open()));
        let (mut own, mut number, start) = (OwnSockets::default(), 0, clock::monotonic());
        let half = MIN_DATAGRAMS / 2;
        assert!(!own.record((3, one, half), &path, &mut number, start), "probes");
        assert!(!own.record((3, other, half), &path, &mut number, start), "another address");
        assert!(own.record((3, other, half), &path, &mut number, start));
        // Whoever changes its address with each datagram has no new socket for each.
        for address in [one, other, one] {
            assert!(!own.record((3, address, MIN_DATAGRAMS), &path, &mut number, start + MIN_LIFETIME / 2));
        }
        assert!(own.record((3, one, MIN_DATAGRAMS), &path, &mut number, start + MIN_LIFETIME));
        assert_eq!(own.iter().map(|own| (own.number, own.address)).collect::<Vec<_>>(), [(number, one)]);
        let much_later = start + MIN_LIFETIME + MAX_IDLE_TIME;
        assert!(!own.expire(much_later - Span::from_millis(1)) && own.expire(much_later));
        assert_eq!(own.iter().count(), 0);
    }

    #[test]
    fn their_number_is_bounded() {
        let path = open();
        let (mut own, mut number, now) = (OwnSockets::default(), 0, clock::monotonic());
        let given = (0..100).filter(|remote| {
            let address = SocketAddr::from(([127, 0, 0, 1], 20_000 + *remote as u16));
            own.record((*remote, address, MIN_DATAGRAMS), &path, &mut number, now)
        });
        assert_eq!(given.count(), MAX_SOCKETS);
    }
}
