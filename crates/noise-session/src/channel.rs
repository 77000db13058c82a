//! A handshake and keys for one byte stream alone, such as a TCP connection that carries another one: for streams that last
//! longer than a session does, begin by the hundred at once, and need no number of a path.
//!
//! The same keys of the hosts and the same handshake as in the rest of this crate, with another prologue (Noise §6), so that
//! no message of the one means anything to the other. Each message is a record of the stream
//! ([`RecordReader`](crate::stream::RecordReader)):
//!
//! | record | bytes |
//! | --- | --- |
//! | initiation | type 5, zeros 3, Noise message 120, mac1 16 |
//! | response | type 6, zeros 3, Noise message 60 |
//! | timestamp reply | type 7, zeros 7, nonce 24, sealed timestamp and zeros 32 |
//! | any further one | ciphertext, tag 16 |
//!
//! Each direction has its own key, and records are numbered by their order: one that is altered, left out, repeated or put
//! elsewhere does not open, and the stream is over. After every 2²⁰ records the key is replaced (Noise §4.2, REKEY). That a
//! stream was cut short shows only above: by a last record that says so.
//!
//! # New keys
//!
//! Streams last for days, and who gets hold of their keys at one time is not to read what comes later, nor what has been
//! before. So keys can be exchanged again ([`Channel::begin_rekey`]): each host sends a new ephemeral public key in a record
//! (as in TLS's Extended Key Update, draft-ietf-tls-extended-key-update), and the new keys are made of the secret that both
//! have in common and of all that has gone into the keys before. Each direction changes at a record that says so:
//!
//! | who | sends, as the last record of the old key | and then |
//! | --- | --- | --- |
//! | who has begun the stream | its public key, with the old key as before and after | |
//! | who has accepted it | its public key | [sends](Channel::switch_send) with the new key |
//! | who has begun it | that it has changed | [sends](Channel::switch_send) with the new key |
//!
//! What these records look like is the caller's. Both hosts have to be able to: they say so in bit 0 of byte 13 of the
//! initiation's text and of byte 1 of the response's, which older ones leave zero and do not read.
//!
//! The hosts' own keys are not proven anew: whoever takes part as a peer is the one that was proven at the beginning.
//!
//! # Strangers
//!
//! Whoever accepts a stream sends nothing to who does not know its public key or is no peer. To an initiation that is older than
//! the last 4096 of the peer it answers with a record that only the peer can read: where its clock is behind, it begins the
//! stream anew. It must
//! not act for the peer before a record has been opened: the initiation may be an old one that never arrived.

mod handshake;
mod initiation_log;
mod rekey;

use crate::cipher::{Cipher, DataKey};
use crate::limits;
use crate::message::TAG_BYTES;
use crate::noise::{NoiseError, SessionKeys};
use crate::session::{OpenError, SealError};
use crate::stream::{self, PREFIX_BYTES};
use kumade_units::Span;
use rand_core::CryptoRng;
use rekey::Rekeying;
use thiserror::Error;
use zeroize::Zeroizing;

pub use handshake::{AcceptedStream, PendingStream, StreamAcceptor, StreamAnswer, StreamInitiator, is_initiation};

/// What a record is longer than its text, in bytes: its length before it, its tag behind.
pub const OVERHEAD_BYTES: usize = PREFIX_BYTES + TAG_BYTES;

/// The age of keys at which the host that has begun the stream exchanges new ones, as sessions do (WireGuard §6.1); it is for
/// the caller to keep.
pub const REKEY_AFTER: Span = limits::REKEY_AFTER;

/// Records after which a key is replaced: 16 GiB at most of records of 16 kB, far below what AES-GCM stands
/// (RFC 9001 §B.1.1).
const RECORDS_PER_KEY: u64 = 1 << 20;
/// The nonce that no record has, for the next key (Noise §4.2).
const REKEY_NONCE: u64 = u64::MAX;

/// What seals and opens the records of one stream.
#[derive(Debug)]
pub struct Channel {
    cipher: Cipher,
    send: DirectionKey,
    receive: DirectionKey,
    /// None where one of the hosts cannot.
    rekeying: Option<Rekeying>,
    rekey_count: u64,
}

/// An exchange of new keys that is not possible now, or not with this public key: the stream is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("new keys are exchanged out of turn, or with a key that is none")]
pub struct RekeyError;

impl From<NoiseError> for RekeyError {
    fn from(_: NoiseError) -> Self {
        RekeyError
    }
}

#[derive(Debug)]
struct DirectionKey {
    cipher: Cipher,
    key: DataKey,
    /// Records so far.
    record_count: u64,
}

impl Channel {
    fn new(cipher: Cipher, keys: &SessionKeys, rekeying: Option<Rekeying>) -> Self {
        let direction = |key| DirectionKey { cipher, key: DataKey::new(cipher, key), record_count: 0 };
        Channel { cipher, send: direction(&keys.send), receive: direction(&keys.receive), rekeying, rekey_count: 0 }
    }

    /// Whether this host may [begin](Self::begin_rekey) to exchange keys now: both hosts can, and no exchange is under way.
    pub fn can_rekey(&self) -> bool {
        self.rekeying.as_ref().is_some_and(Rekeying::is_idle)
    }

    /// How often the keys were exchanged.
    pub fn rekey_count(&self) -> u64 {
        self.rekey_count
    }

    /// Begins to exchange keys, at the host that has begun the stream. Returns its public key, which the peer has to
    /// [answer](Self::answer_rekey).
    ///
    /// # Errors
    /// This host has accepted the stream, or an exchange is under way, or the peer cannot.
    pub fn begin_rekey(&mut self, random: &mut dyn CryptoRng) -> Result<[u8; 32], RekeyError> {
        Ok(self.rekeying.as_mut().ok_or(RekeyError)?.begin(random)?)
    }

    /// Takes the public key of the peer that has begun an exchange. Returns this host's, which is to be sent next; then
    /// [`switch_send`](Self::switch_send). What the peer sends stays under the old key until [`switch_receive`](Self::switch_receive).
    ///
    /// # Errors
    /// This host has begun the stream, or an exchange is under way, or the key is none.
    pub fn answer_rekey(&mut self, offer: &[u8; 32], random: &mut dyn CryptoRng) -> Result<[u8; 32], RekeyError> {
        Ok(self.rekeying.as_mut().ok_or(RekeyError)?.answer(offer, self.cipher, random)?)
    }

    /// Takes the answer. What the peer sends from now on is under the new key. To be told next, and then
    /// [`switch_send`](Self::switch_send).
    ///
    /// # Errors
    /// No exchange was begun, or the key is none.
    pub fn finish_rekey(&mut self, answer: &[u8; 32]) -> Result<(), RekeyError> {
        self.rekeying.as_mut().ok_or(RekeyError)?.finish(answer, self.cipher)?;
        self.switch_receive()
    }

    /// Seals the records that follow with the new key.
    ///
    /// # Errors
    /// There is none.
    pub fn switch_send(&mut self) -> Result<(), RekeyError> {
        let next = self.rekeying.as_mut().and_then(|rekeying| rekeying.next_send.take()).ok_or(RekeyError)?;
        self.send.replace(next);
        self.rekey_count += 1;
        Ok(())
    }

    /// Opens the records that follow with the new key: the peer has said that it seals with it.
    ///
    /// # Errors
    /// There is none.
    pub fn switch_receive(&mut self) -> Result<(), RekeyError> {
        let next = self.rekeying.as_mut().and_then(|rekeying| rekeying.next_receive.take()).ok_or(RekeyError)?;
        self.receive.replace(next);
        Ok(())
    }

    /// Seals a record in place, as the next one of the stream. The text stands in `record` with [`PREFIX_BYTES`] bytes before it
    /// and [`TAG_BYTES`] bytes behind it; these are overwritten, and the whole of `record` is to be sent.
    ///
    /// # Errors
    /// `record` has no room for these, or is longer than a record may be; it is unchanged then.
    pub fn seal(&mut self, record: &mut [u8]) -> Result<(), SealError> {
        let length = record.len().checked_sub(PREFIX_BYTES).ok_or(SealError::TooShort)?;
        let length = stream::record_prefix(length).map_err(|_| SealError::TooShort)?;
        let (prefix, rest) = record.split_first_chunk_mut().ok_or(SealError::TooShort)?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or(SealError::TooShort)?;
        *tag = self.send.key.seal(self.send.record_count, &[], text).map_err(|_| SealError::Exhausted)?;
        *prefix = length;
        self.send.advance_key()
    }

    /// Opens the next record of the stream in place, and returns its text.
    ///
    /// # Errors
    /// It is not what the peer has sealed next: the stream is over.
    pub fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<&'r mut [u8], OpenError> {
        let (text, tag) = record.split_last_chunk_mut().ok_or(OpenError::Malformed)?;
        self.receive.key.open(self.receive.record_count, &[], text, *tag).map_err(|_| OpenError::Forged)?;
        self.receive.advance_key().map_err(|_| OpenError::Forged)?;
        Ok(text)
    }
}

impl DirectionKey {
    fn replace(&mut self, key: DataKey) {
        (self.key, self.record_count) = (key, 0);
    }

    fn advance_key(&mut self) -> Result<(), SealError> {
        self.record_count += 1;
        if self.record_count.is_multiple_of(RECORDS_PER_KEY) {
            let mut key = Zeroizing::new([0; 32]);
            self.key.seal(REKEY_NONCE, &[], &mut *key).map_err(|_| SealError::Exhausted)?;
            self.key = DataKey::new(self.cipher, &key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::RecordReader;
    use crate::{HandshakeNotice, HandshakePolicy, PresharedKey, PrivateKey, RefusedDatagram};
    use kumade_units::{Span, Time};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use std::net::IpAddr;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn psk() -> PresharedKey {
        PresharedKey::from_bytes([4; 32])
    }

    fn identity(number: u8) -> PrivateKey {
        PrivateKey::from_bytes([number; 32])
    }

    fn initiator() -> StreamInitiator {
        StreamInitiator::new(identity(1), identity(2).public_key(), psk())
    }

    fn acceptor() -> StreamAcceptor {
        let peers = [(identity(1).public_key(), psk())];
        StreamAcceptor::new(identity(2), &HandshakePolicy::default(), peers, &mut StdRng::seed_from_u64(9))
    }

    /// The bytes of a record, without its prefix.
    fn contents(record: &[u8]) -> &[u8] {
        &record[PREFIX_BYTES..]
    }

    #[test]
    fn what_has_come_from_a_peer_that_stays_counts_once() {
        let (mut acceptor, mut random) = (acceptor(), StdRng::seed_from_u64(1));
        let (_, initiation) = initiator().begin(Time::ZERO, &mut random).unwrap();
        accept(&mut acceptor, &initiation, &mut random);
        let mut again = |acceptor: &mut StreamAcceptor| {
            acceptor.accept(contents(&initiation), SOURCE, Time::ZERO, &mut random).map(|_| ())
        };
        let peers = [1, 3].map(|number| (identity(number).public_key(), psk()));
        acceptor.set_peers(peers.clone());
        assert_eq!(again(&mut acceptor), Err(RefusedDatagram::Replayed));
        acceptor.set_peers(peers[1..].to_vec());
        assert_eq!(again(&mut acceptor), Err(RefusedDatagram::UnknownPeer));
    }

    fn accept(acceptor: &mut StreamAcceptor, initiation: &[u8], random: &mut StdRng) -> AcceptedStream {
        match acceptor.accept(contents(initiation), SOURCE, Time::ZERO, random) {
            Ok(StreamAnswer::Accepted(accepted)) => *accepted,
            other => panic!("{other:?}"),
        }
    }

    fn pair() -> (Channel, Channel) {
        let random = &mut StdRng::seed_from_u64(1);
        let (offer, initiation) = initiator().begin(Time::ZERO, random).unwrap();
        let accepted = accept(&mut acceptor(), &initiation, random);
        assert_eq!(accepted.peer, identity(1).public_key());
        (offer.finish(contents(&accepted.response)).unwrap(), accepted.channel)
    }

    fn sealed(channel: &mut Channel, text: &[u8]) -> Vec<u8> {
        let mut record = [&[0; PREFIX_BYTES], text, &[0; TAG_BYTES]].concat();
        channel.seal(&mut record).unwrap();
        record
    }

    #[test]
    fn only_peers_are_answered_and_each_initiation_once() {
        let random = &mut StdRng::seed_from_u64(1);
        let (mut initiator, mut acceptor) = (initiator(), acceptor());
        let mut stranger = StreamInitiator::new(identity(3), identity(2).public_key(), psk());
        let mut lost = StreamInitiator::new(identity(1), identity(9).public_key(), psk());
        let mut refusal = |initiation: &[u8]| {
            acceptor.accept(contents(initiation), SOURCE, Time::ZERO, &mut StdRng::seed_from_u64(2)).err()
        };
        assert_eq!(refusal(&stranger.begin(Time::ZERO, random).unwrap().1), Some(RefusedDatagram::UnknownPeer));
        assert_eq!(refusal(&lost.begin(Time::ZERO, random).unwrap().1), Some(RefusedDatagram::InvalidMac));
        let initiation = initiator.begin(Time::ZERO, random).unwrap().1;
        for at in 0..contents(&initiation).len() {
            let mut altered = initiation.clone();
            altered[PREFIX_BYTES + at] ^= 1;
            assert!(refusal(&altered).is_some(), "byte {at}");
        }
        assert_eq!(refusal(&initiation), None);
        assert_eq!(refusal(&initiation), Some(RefusedDatagram::Replayed));
        // The administrator is told of the first two, once.
        let told = acceptor.take_notices();
        let is_told = |told: &[HandshakeNotice]| {
            matches!(told, [HandshakeNotice::UnknownPeer { .. }, HandshakeNotice::OtherReceiver { .. }])
        };
        assert!(is_told(&told), "{told:?}");
    }

    #[test]
    fn an_initiation_is_told_by_its_length_and_its_type() {
        let initiation = initiator().begin(Time::ZERO, &mut StdRng::seed_from_u64(1)).unwrap().1;
        let initiation = contents(&initiation);
        assert!(is_initiation(initiation));
        assert!(!is_initiation(&initiation[1..]) && !is_initiation(&initiation[..initiation.len() - 1]));
        let mut other = initiation.to_vec();
        other[0] = 1;
        assert!(!is_initiation(&other));
    }

    #[test]
    fn a_response_is_told_by_its_length_and_its_type() {
        let random = &mut StdRng::seed_from_u64(1);
        let (_, initiation) = initiator().begin(Time::ZERO, random).unwrap();
        let response = accept(&mut acceptor(), &initiation, random).response;
        let finish = |response: &[u8]| {
            let (offer, _) = initiator().begin(Time::ZERO, &mut StdRng::seed_from_u64(1)).unwrap();
            offer.finish(response).err()
        };
        assert_eq!(finish(contents(&response)), None);
        assert_eq!(finish(&[contents(&response), &[0]].concat()), Some(RefusedDatagram::Malformed));
        let mut other = contents(&response).to_vec();
        other[0] = 5;
        assert_eq!(finish(&other), Some(RefusedDatagram::Malformed));
    }

    #[test]
    fn initiations_may_overtake_each_other() {
        let random = &mut StdRng::seed_from_u64(1);
        let (mut initiator, mut acceptor) = (initiator(), acceptor());
        let initiations: Vec<_> = (0..20).map(|_| initiator.begin(Time::ZERO, random).unwrap().1).collect();
        let mut accept = |initiation: &[u8]| acceptor.accept(contents(initiation), SOURCE, Time::ZERO, random).is_ok();
        assert!(initiations.iter().rev().all(|initiation| accept(initiation)));
        assert!(!initiations.iter().any(|initiation| accept(initiation)));
    }

    #[test]
    fn strangers_streams_cost_no_more_than_the_policy_says_and_a_peer_is_accepted_beside_them() {
        let random = &mut StdRng::seed_from_u64(1);
        let (mut acceptor, mut initiator) = (acceptor(), initiator());
        let mut stranger = StreamInitiator::new(identity(3), identity(2).public_key(), psk());
        let (_, attack) = stranger.begin(Time::ZERO, random).unwrap();
        let (mut computed, mut refused) = (0, 0);
        for millis in 0..2000 {
            let now = Time::ZERO + Span::from_millis(millis);
            for last in [1, 2] {
                let from = IpAddr::from([203, 0, 113, last]);
                match acceptor.accept(contents(&attack), from, now, random).err() {
                    Some(RefusedDatagram::UnknownPeer) => computed += 1,
                    Some(RefusedDatagram::RateLimited) => refused += 1,
                    other => panic!("{other:?}"),
                }
            }
            if millis % 100 == 50 {
                let (_, initiation) = initiator.begin(now, random).unwrap();
                assert!(acceptor.accept(contents(&initiation), SOURCE, now, random).is_ok());
            }
        }
        assert!((450..540).contains(&computed), "{computed} in 2 s, {refused} refused");
    }

    #[test]
    fn another_preshared_key_or_an_altered_response_makes_no_channel() {
        let random = &mut StdRng::seed_from_u64(1);
        let (offer, initiation) = StreamInitiator::new(identity(1), identity(2).public_key(), PresharedKey::default())
            .begin(Time::ZERO + Span::from_secs(1), random)
            .unwrap();
        let accepted = accept(&mut acceptor(), &initiation, random);
        assert_eq!(offer.finish(contents(&accepted.response)).err(), Some(RefusedDatagram::Forged));
        let (offer, _) = initiator().begin(Time::ZERO, random).unwrap();
        assert_eq!(offer.finish(b"HTTP/1.1 400 Bad Request").err(), Some(RefusedDatagram::Malformed));
    }

    #[test]
    fn keys_are_replaced_at_both_ends_at_the_same_record() {
        let (mut near, mut far) = pair();
        (near.send.record_count, far.receive.record_count) = (RECORDS_PER_KEY - 2, RECORDS_PER_KEY - 2);
        for text in [b"a", b"b", b"c", b"d"] {
            let mut record = sealed(&mut near, text);
            assert_eq!(far.open(&mut record[PREFIX_BYTES..]).unwrap(), text);
        }
        let mut old = pair().0;
        old.send.record_count = near.send.record_count;
        assert_eq!(far.open(&mut sealed(&mut old, b"x")[PREFIX_BYTES..]), Err(OpenError::Forged));
    }

    /// The three records of an exchange, each as the last of its key. Returns the keys that went over.
    fn exchange(near: &mut Channel, far: &mut Channel, seed: u64) -> [[u8; 32]; 2] {
        let random = &mut StdRng::seed_from_u64(seed);
        let pass = |from: &mut Channel, to: &mut Channel, text: &[u8]| {
            let mut record = sealed(from, text);
            assert_eq!(to.open(&mut record[PREFIX_BYTES..]).unwrap(), text);
        };
        let offer = near.begin_rekey(random).unwrap();
        assert!(!near.can_rekey());
        pass(near, far, &offer);
        // What is on its way meanwhile is under the old keys.
        pass(far, near, b"data");
        let answer = far.answer_rekey(&offer, random).unwrap();
        pass(far, near, &answer);
        far.switch_send().unwrap();
        pass(near, far, b"data");
        near.finish_rekey(&answer).unwrap();
        pass(far, near, b"data under the new key");
        pass(near, far, b"changed");
        near.switch_send().unwrap();
        far.switch_receive().unwrap();
        pass(near, far, b"data under the new key");
        assert!(near.can_rekey() && far.can_rekey());
        [offer, answer]
    }

    #[test]
    fn keys_are_exchanged_again_and_again() {
        let (mut near, mut far) = pair();
        for round in 0..5 {
            let mut old = pair().0;
            let public = exchange(&mut near, &mut far, round);
            assert_ne!(public[0], public[1]);
            // The first keys open nothing any more.
            assert_eq!(far.open(&mut sealed(&mut old, b"x")[PREFIX_BYTES..]), Err(OpenError::Forged));
        }
        assert_eq!((near.rekey_count(), far.rekey_count()), (5, 5));
    }

    /// Who has all that one end had before, and reads all that passes, has not the new keys.
    #[test]
    fn who_knows_the_old_keys_does_not_know_the_new_ones() {
        let ((mut near, mut far), (mut copy, _)) = (pair(), pair());
        let [_, answer] = exchange(&mut near, &mut far, 7);
        copy.begin_rekey(&mut StdRng::seed_from_u64(8)).unwrap();
        copy.finish_rekey(&answer).unwrap();
        copy.switch_send().unwrap();
        copy.send.record_count = near.send.record_count;
        assert_eq!(far.open(&mut sealed(&mut copy, b"x")[PREFIX_BYTES..]), Err(OpenError::Forged));
    }

    #[test]
    fn keys_are_exchanged_in_turn_or_not_at_all() {
        let random = &mut StdRng::seed_from_u64(1);
        let (mut near, mut far) = pair();
        assert_eq!(far.begin_rekey(random), Err(RekeyError));
        assert_eq!(near.answer_rekey(&[9; 32], random), Err(RekeyError));
        assert_eq!(near.finish_rekey(&[9; 32]), Err(RekeyError));
        assert_eq!((near.switch_send(), far.switch_receive()), (Err(RekeyError), Err(RekeyError)));
        assert_eq!(far.answer_rekey(&[0; 32], random), Err(RekeyError), "a key of small order");
        let offer = near.begin_rekey(random).unwrap();
        assert_eq!(near.begin_rekey(random), Err(RekeyError));
        far.answer_rekey(&offer, random).unwrap();
        assert_eq!(far.answer_rekey(&offer, random), Err(RekeyError), "the last one is not done");
        assert_eq!(near.finish_rekey(&[0; 32]), Err(RekeyError));
    }

    /// Neither says that it can, as hosts of before this could.
    #[test]
    fn an_older_peer_keeps_its_keys() {
        let random = &mut StdRng::seed_from_u64(1);
        let (mut older, mut acceptor) = (initiator().without_rekeying(), acceptor());
        let (offer, initiation) = older.begin(Time::ZERO, random).unwrap();
        let accepted = accept(&mut acceptor, &initiation, random);
        assert!(!accepted.channel.can_rekey());
        // The response is the one that it knows: a cipher and zeros.
        assert!(!offer.finish(contents(&accepted.response)).unwrap().can_rekey());
        let (offer, initiation) = initiator().begin(Time::ZERO + Span::from_secs(1), random).unwrap();
        let accepted = accept(&mut acceptor.without_rekeying(), &initiation, random);
        let mut near = offer.finish(contents(&accepted.response)).unwrap();
        assert!(!near.can_rekey() && near.begin_rekey(random).is_err());
    }

    #[test]
    fn no_record_is_taken_out_of_its_place() {
        let (mut near, mut far) = pair();
        let [first, second] = [b"1", b"2"].map(|text| sealed(&mut near, text));
        assert_eq!(far.open(&mut second.clone()[PREFIX_BYTES..]), Err(OpenError::Forged));
        assert!(far.open(&mut first.clone()[PREFIX_BYTES..]).is_ok());
        assert_eq!(far.open(&mut first.clone()[PREFIX_BYTES..]), Err(OpenError::Forged));
        assert_eq!(far.open(&mut []), Err(OpenError::Malformed));
        assert_eq!(near.seal(&mut [0; OVERHEAD_BYTES - 1]), Err(SealError::TooShort));
    }

    proptest! {
        #[test]
        fn nothing_that_is_made_up_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..200), looks_right: bool) {
            let mut bytes = bytes;
            if looks_right {
                bytes.resize(140, 0);
                bytes[..4].copy_from_slice(&[5, 0, 0, 0]);
                prop_assert!(is_initiation(&bytes));
            }
            prop_assert!(acceptor().accept(&bytes, SOURCE, Time::ZERO, &mut StdRng::seed_from_u64(1)).is_err());
        }

        #[test]
        fn texts_pass_both_ways(texts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20)) {
            let (mut near, mut far) = pair();
            for (is_back, text) in texts {
                let (from, to) = if is_back { (&mut far, &mut near) } else { (&mut near, &mut far) };
                let record = sealed(from, &text);
                let mut reader = RecordReader::new();
                reader.raise_record_limit(1000);
                reader.free_space()[..record.len()].copy_from_slice(&record);
                reader.add_filled(record.len());
                let opened = to.open(reader.next_record().unwrap().unwrap());
                prop_assert_eq!(&opened.unwrap()[..], &text[..]);
            }
        }
    }
}
