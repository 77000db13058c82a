use crate::PeerId;
use crate::counter_reference::{CounterReference, HeaderForm};
use crate::keyring::Keyring;
use crate::message::receiver_index;
use crate::session::{OpenError, OpenedDatagram, SealError, SealedDatagram, Session};
use kumade_units::Time;
use std::collections::BTreeMap;

/// The sessions with all peers, as one thread that sends and receives data has them.
///
/// It keeps the last few sessions of a peer, so that nothing in flight is lost when one takes the place of another; it
/// sends under the latest one that the peer has confirmed, and under none that is older than 180 s.
#[derive(Debug, Default)]
pub struct SessionTable {
    peers: BTreeMap<PeerId, Keyring>,
    by_index: BTreeMap<u32, PeerId>,
}

impl SessionTable {
    /// No sessions yet.
    pub const fn new() -> Self {
        SessionTable { peers: BTreeMap::new(), by_index: BTreeMap::new() }
    }

    /// Adds a session, or this thread's part of it ([`Session::take_paths`]).
    pub fn install(&mut self, peer: PeerId, session: Session, now: Time) {
        let index = session.index();
        let dropped = self.peers.entry(peer).or_default().install(session, now);
        dropped.into_iter().for_each(|dropped| self.forget_index(dropped, peer));
        self.by_index.insert(index, peer);
    }

    /// Forgets a peer's sessions.
    pub fn remove(&mut self, peer: PeerId) {
        for index in self.peers.remove(&peer).iter().flat_map(Keyring::indices) {
            self.forget_index(index, peer);
        }
    }

    /// The index may be another peer's by now: the endpoint gives one away again as soon as its session has ended.
    fn forget_index(&mut self, index: u32, peer: PeerId) {
        if self.by_index.get(&index) == Some(&peer) {
            self.by_index.remove(&index);
        }
    }

    /// Forgets the keys of all sessions that have ended. None of them is used any more in any case; calling this once
    /// a minute keeps their keys from lying in memory.
    pub fn expire(&mut self, now: Time) {
        let expired =
            self.peers.iter_mut().flat_map(|(peer, ring)| ring.expire(now).into_iter().map(|index| (index, *peer)));
        for (index, peer) in expired.collect::<Vec<_>>() {
            self.forget_index(index, peer);
        }
    }

    /// Whether [`seal`](Self::seal) would find a session.
    pub fn has_session(&self, peer: PeerId, now: Time) -> bool {
        self.peers.get(&peer).is_some_and(|ring| ring.current_session(now).is_some())
    }

    /// Seals a datagram for a peer in place, as the next one on `path`: see [`Sealer::seal`](crate::Sealer::seal).
    ///
    /// # Errors
    /// See [`SealError`]; `datagram` is unchanged then.
    #[inline]
    pub fn seal(
        &mut self,
        peer: PeerId,
        path: u8,
        datagram: &mut [u8],
        now: Time,
    ) -> Result<SealedDatagram, SealError> {
        self.peers.get_mut(&peer).ok_or(SealError::NoSession)?.seal(path, datagram, now)
    }

    /// Seals a datagram for a peer in place, with this counter of the path: see
    /// [`Sealer::seal_numbered`](crate::Sealer::seal_numbered).
    ///
    /// # Errors
    /// See [`SealError`]; `datagram` is unchanged then.
    #[inline]
    pub fn seal_numbered(
        &mut self,
        peer: PeerId,
        counter: (u8, u64),
        form: HeaderForm,
        datagram: &mut [u8],
        now: Time,
    ) -> Result<SealedDatagram, SealError> {
        self.peers.get_mut(&peer).ok_or(SealError::NoSession)?.seal_numbered(counter, form, datagram, now)
    }

    /// Opens a datagram in place, if it is authentic and has not been opened before; none of those that say only the lowest bits of
    /// their counters.
    ///
    /// # Errors
    /// See [`OpenError`]. The contents of `datagram` are undefined then.
    pub fn open(&self, datagram: &mut [u8], now: Time) -> Result<(PeerId, OpenedDatagram), OpenError> {
        self.open_numbered(datagram, |_, _| None, now)
    }

    /// The same of datagrams of either form. `reference` is what is known of the peer's path whose number ends in these four bits.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[inline]
    pub fn open_numbered(
        &self,
        datagram: &mut [u8],
        reference: impl FnOnce(PeerId, u8) -> Option<CounterReference>,
        now: Time,
    ) -> Result<(PeerId, OpenedDatagram), OpenError> {
        let index = receiver_index(datagram).ok_or(OpenError::Malformed)?;
        let peer = *self.by_index.get(&index).ok_or(OpenError::UnknownSession)?;
        let ring = self.peers.get(&peer).ok_or(OpenError::UnknownSession)?;
        Ok((peer, ring.open(index, datagram, |path| reference(peer, path), now)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::Cipher;
    use crate::message::OVERHEAD_BYTES;
    use crate::session::tests::{pair, pair_at, pair_of, sealed};
    use kumade_units::Span;

    const PEER: PeerId = PeerId(3);

    #[test]
    fn data_goes_out_under_a_session_only_while_it_is_confirmed_and_young() {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        let mut table = SessionTable::new();
        let mut room = [0; OVERHEAD_BYTES];
        table.install(PEER, b, Time::ZERO);
        assert_eq!(table.seal(PEER, 0, &mut room, Time::ZERO), Err(SealError::NoSession));
        let (peer, opened) = table.open(&mut sealed(&mut a, 5, b""), Time::ZERO).unwrap();
        assert_eq!((peer, opened.path), (PEER, 5));
        table.seal(PEER, 0, &mut room, Time::ZERO).unwrap();
        let end = Time::ZERO + Span::from_secs(180);
        assert_eq!(table.seal(PEER, 0, &mut room, end), Err(SealError::NoSession));
        assert_eq!(table.open(&mut sealed(&mut a, 5, b""), end), Err(OpenError::UnknownSession));
        table.remove(PEER);
        assert_eq!(table.open(&mut sealed(&mut a, 5, b""), Time::ZERO), Err(OpenError::UnknownSession));
        assert!(table.peers.is_empty() && table.by_index.is_empty());
    }

    #[test]
    fn the_keys_of_ended_sessions_are_forgotten() {
        let end = Time::ZERO + Span::from_secs(180);
        let (a, b) = pair(Cipher::Aes256Gcm);
        let mut table = SessionTable::new();
        table.install(PEER, a, Time::ZERO);
        table.install(PeerId(4), b, Time::ZERO);
        table.expire(end - Span::from_nanos(1));
        assert_eq!((table.by_index.len(), table.has_session(PEER, Time::ZERO)), (2, true));
        table.expire(end);
        assert!(table.by_index.is_empty() && !table.has_session(PEER, Time::ZERO));
        assert!(table.peers.values().all(|ring| ring.indices().next().is_none()));
    }

    #[test]
    fn an_index_that_another_peer_has_now_stays_that_peers() {
        let end = Time::ZERO + Span::from_secs(180);
        let forget: [fn(&mut SessionTable, Time); 3] = [
            |table, end| table.install(PEER, pair_of(Cipher::Aes256Gcm, (9, 10)).0, end),
            |table, _| table.remove(PEER),
            |table, end| table.expire(end),
        ];
        for forget in forget {
            let mut table = SessionTable::new();
            table.install(PEER, pair_of(Cipher::Aes256Gcm, (1, 2)).0, Time::ZERO);
            // The first peer's session has ended, and its index is given away again.
            let (later, mut far) = pair_at(Cipher::Aes256Gcm, (1, 3), end);
            table.install(PeerId(4), later, end);
            forget(&mut table, end);
            let opened = table.open(&mut sealed(&mut far, 0, b"x"), end);
            assert_eq!(opened.map(|(peer, _)| peer), Ok(PeerId(4)));
        }
    }

    #[test]
    fn of_several_sessions_each_opens_what_is_its_own() {
        let mut table = SessionTable::new();
        let ends = [(1, 2), (3, 4)].map(|indices| pair_of(Cipher::Aes256Gcm, indices));
        let [(mut first, first_end), (mut second, second_end)] = ends;
        table.install(PEER, first_end, Time::ZERO);
        table.install(PEER, second_end, Time::ZERO);
        for session in [&mut second, &mut first] {
            assert!(table.open(&mut sealed(session, 0, b"x"), Time::ZERO).is_ok());
        }
    }

    #[test]
    fn unconfirmed_sessions_do_not_displace_the_one_in_use() {
        let mut table = SessionTable::new();
        let (in_use, _) = pair(Cipher::Aes256Gcm);
        table.install(PEER, in_use, Time::ZERO);
        for _ in 0..20 {
            let (_, unconfirmed) = pair(Cipher::Aes256Gcm);
            table.install(PEER, unconfirmed, Time::ZERO);
            assert!(table.has_session(PEER, Time::ZERO));
        }
    }
}
