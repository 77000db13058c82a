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
//! Whoever accepts a stream sends nothing to who does not know its public key or is no peer. To an initiation that is older than
//! the last 4096 of the peer it answers with a record that only the peer can read: where its clock is behind, it begins the
//! stream anew. It must
//! not act for the peer before a record has been opened: the initiation may be an old one that never arrived.

mod handshake;
mod initiation_log;

use crate::cipher::{Cipher, DataKey};
use crate::message::TAG_BYTES;
use crate::noise::SessionKeys;
use crate::session::{OpenError, SealError};
use crate::stream::{self, PREFIX_BYTES};
use zeroize::Zeroizing;

pub use handshake::{AcceptedStream, PendingStream, StreamAcceptor, StreamAnswer, StreamInitiator, is_initiation};

/// What a record is longer than its text, in bytes: its length before it, its tag behind.
pub const OVERHEAD_BYTES: usize = PREFIX_BYTES + TAG_BYTES;

/// Records after which a key is replaced: 16 GiB at most of records of 16 kB, far below what AES-GCM stands
/// (RFC 9001 §B.1.1).
const RECORDS_PER_KEY: u64 = 1 << 20;
/// The nonce that no record has, for the next key (Noise §4.2).
const REKEY_NONCE: u64 = u64::MAX;

/// What seals and opens the records of one stream.
#[derive(Debug)]
pub struct Channel {
    send: DirectionKey,
    receive: DirectionKey,
}

#[derive(Debug)]
struct DirectionKey {
    cipher: Cipher,
    key: DataKey,
    /// Records so far.
    record_count: u64,
}

impl Channel {
    fn new(cipher: Cipher, keys: &SessionKeys) -> Self {
        let direction = |key| DirectionKey { cipher, key: DataKey::new(cipher, key), record_count: 0 };
        Channel { send: direction(&keys.send), receive: direction(&keys.receive) }
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
        *tag = self.send.key.seal(self.send.record_count, text).map_err(|_| SealError::Exhausted)?;
        *prefix = length;
        self.send.advance_key()
    }

    /// Opens the next record of the stream in place, and returns its text.
    ///
    /// # Errors
    /// It is not what the peer has sealed next: the stream is over.
    pub fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<&'r mut [u8], OpenError> {
        let (text, tag) = record.split_last_chunk_mut().ok_or(OpenError::Malformed)?;
        self.receive.key.open(self.receive.record_count, text, *tag).map_err(|_| OpenError::Forged)?;
        self.receive.advance_key().map_err(|_| OpenError::Forged)?;
        Ok(text)
    }
}

impl DirectionKey {
    fn advance_key(&mut self) -> Result<(), SealError> {
        self.record_count += 1;
        if self.record_count.is_multiple_of(RECORDS_PER_KEY) {
            let mut key = Zeroizing::new([0; 32]);
            self.key.seal(REKEY_NONCE, &mut *key).map_err(|_| SealError::Exhausted)?;
            self.key = DataKey::new(self.cipher, &key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::RecordReader;
    use crate::{HandshakePolicy, PresharedKey, PrivateKey, RefusedDatagram};
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
