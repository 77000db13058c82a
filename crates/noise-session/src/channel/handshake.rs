use super::Channel;
use super::initiation_log::InitiationLog;
use super::rekey::Rekeying;
use crate::admission::{Admission, HostPrefix};
use crate::cipher::Cipher;
use crate::event::RefusedDatagram;
use crate::mac::MacKeys;
use crate::message::{
    COOKIE_NONCE_BYTES, DatagramKind, INITIATION_NOISE_RANGE, INITIATION_PAYLOAD_BYTES, MAC_BYTES,
    RESPONSE_NOISE_RANGE, RESPONSE_PAYLOAD_BYTES, to_array,
};
use crate::noise::{self, NoiseResponder, Prologue, SessionKeys};
use crate::notice::{HandshakeNotice, KeyRefusals};
use crate::stream::{self, PREFIX_BYTES};
use crate::timestamp::{self, Timestamp, TimestampFloor, TimestampSource};
use crate::timestamp_reply::TimestampReplyKey;
use crate::{HandshakePolicy, PresharedKey, PrivateKey, PublicKey};
use kumade_units::{Span, Time, TokenBucket, TokenRate};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The types of the two messages.
const INITIATION_TYPE: [u8; 4] = [5, 0, 0, 0];
const RESPONSE_TYPE: [u8; 4] = [6, 0, 0, 0];
const TYPE_BYTES: usize = INITIATION_TYPE.len();
/// Where `mac1` begins.
const MAC_OFFSET: usize = TYPE_BYTES + INITIATION_NOISE_RANGE.end - INITIATION_NOISE_RANGE.start;
/// Bytes of an initiation and of a response.
const INITIATION_BYTES: usize = MAC_OFFSET + MAC_BYTES;
const RESPONSE_BYTES: usize = TYPE_BYTES + RESPONSE_NOISE_RANGE.end - RESPONSE_NOISE_RANGE.start;

/// Where the text of an initiation says what its sender can, behind the time stamp and the cipher; and that of a response,
/// behind the cipher, what both can.
const INITIATION_FEATURES_OFFSET: usize = timestamp::TIMESTAMP_BYTES + 1;
const RESPONSE_FEATURES_OFFSET: usize = 1;
/// New keys can be exchanged.
const REKEY_FEATURE: u8 = 1;

/// Whether a record is an initiation of this handshake, and none of [`DatagramKind`].
pub fn is_initiation(record: &[u8]) -> bool {
    record.len() == INITIATION_BYTES && record.starts_with(&INITIATION_TYPE)
}

/// A host that begins streams to a peer.
#[derive(Debug)]
pub struct StreamInitiator {
    identity: PrivateKey,
    peer: PublicKey,
    psk: PresharedKey,
    macs: MacKeys,
    timestamps: TimestampSource,
    timestamp_floor: TimestampFloor,
    cipher: Cipher,
    features: u8,
}

/// An initiation that waits for its response.
pub struct PendingStream {
    noise: noise::NoiseInitiator,
    cipher: Cipher,
    mac1: [u8; MAC_BYTES],
    /// What this host's clock showed.
    clock: Timestamp,
}

impl StreamInitiator {
    /// `psk` is a second key that both hosts have, or the default one.
    pub fn new(identity: PrivateKey, peer: PublicKey, psk: PresharedKey) -> Self {
        let (macs, stamper) = (MacKeys::for_receiver(&peer), TimestampSource::new());
        let timestamp_floor = TimestampFloor::default();
        let (cipher, features) = (Cipher::fastest(), REKEY_FEATURE);
        StreamInitiator { identity, peer, psk, macs, timestamps: stamper, timestamp_floor, cipher, features }
    }

    #[cfg(test)]
    pub(super) fn without_rekeying(self) -> Self {
        StreamInitiator { features: 0, ..self }
    }

    /// The first record of a stream, with its prefix. `wall` is the time since the Unix epoch; it may step.
    ///
    /// # Errors
    /// The peer's public key is none.
    pub fn begin(
        &mut self,
        wall: Time,
        random: &mut dyn CryptoRng,
    ) -> Result<(PendingStream, Vec<u8>), RefusedDatagram> {
        let mut payload = [0; INITIATION_PAYLOAD_BYTES];
        let clock = self.timestamps.next_timestamp(wall);
        let stamp = self.timestamp_floor.next_timestamp(clock);
        payload[..timestamp::TIMESTAMP_BYTES].copy_from_slice(&stamp.0);
        payload[timestamp::TIMESTAMP_BYTES] = self.cipher.to_byte();
        payload[INITIATION_FEATURES_OFFSET] = self.features;
        let begun =
            noise::NoiseInitiator::begin(Prologue::Stream, &self.identity, &self.peer, &self.psk, &payload, random);
        let (noise, message) = begun.map_err(|_| RefusedDatagram::Forged)?;
        let mut record = stream::record_prefix(INITIATION_BYTES).map_err(|_| RefusedDatagram::Malformed)?.to_vec();
        record.extend(INITIATION_TYPE);
        record.extend(message);
        let mac1 = self.macs.mac1(&record[PREFIX_BYTES..]);
        record.extend(mac1);
        Ok((PendingStream { noise, cipher: self.cipher, mac1, clock }, record))
    }

    /// Whether the first record that came back says that this host's clock is behind, and by how much at least. The stream is to be
    /// begun anew then, on the same connection: its initiation goes on from the time that the peer knows.
    pub fn learn_timestamp(&mut self, pending: &PendingStream, answer: &[u8]) -> Option<Span> {
        if DatagramKind::from_datagram(answer) != Some(DatagramKind::TimestampReply) {
            return None;
        }
        let own = self.identity.public_key();
        let key = TimestampReplyKey::derive(&self.identity, &self.peer, &self.psk, &own)?;
        let greatest = key.open(answer, &pending.mac1)?;
        self.timestamp_floor.raise(greatest);
        Some(greatest.since(pending.clock))
    }
}

impl PendingStream {
    /// Takes in the first record that came back.
    ///
    /// # Errors
    /// It is not the response of the peer.
    pub fn finish(mut self, response: &[u8]) -> Result<Channel, RefusedDatagram> {
        if response.len() != RESPONSE_BYTES || !response.starts_with(&RESPONSE_TYPE) {
            return Err(RefusedDatagram::Malformed);
        }
        let (payload, keys) =
            self.noise.finish(&to_array(&response[TYPE_BYTES..])).map_err(|_| RefusedDatagram::Forged)?;
        let cipher = Cipher::from_byte(payload[0]).filter(|chosen| *chosen == self.cipher.agree_with(*chosen));
        let rekeying = new_rekeying(payload[RESPONSE_FEATURES_OFFSET], &keys, true)?;
        Ok(Channel::new(cipher.ok_or(RefusedDatagram::Forged)?, &keys, rekeying))
    }
}

/// A host that accepts streams of its peers.
#[derive(Debug)]
pub struct StreamAcceptor {
    identity: PrivateKey,
    macs: MacKeys,
    cipher: Cipher,
    features: u8,
    peers: BTreeMap<PublicKey, AcceptedPeer>,
    admission: Admission,
    /// Where peers were when they last began a stream.
    known_hosts: BTreeSet<HostPrefix>,
    /// This host's public key.
    own: PublicKey,
    key_refusals: KeyRefusals,
    notices: Vec<HandshakeNotice>,
}

#[derive(Debug)]
struct AcceptedPeer {
    psk: PresharedKey,
    seen: InitiationLog,
    host: Option<HostPrefix>,
    /// What its streams may cost, beyond which they are as a stranger's.
    stream_bucket: TokenBucket,
}

impl AcceptedPeer {
    fn new(psk: PresharedKey) -> Self {
        AcceptedPeer { psk, seen: InitiationLog::default(), host: None, stream_bucket: TokenBucket::FULL }
    }
}

/// Streams of one peer per second, and at once, whose handshakes are computed on whatever strangers do: a fifth of one
/// processor's time. Programs open some hundred at once.
const PEER_STREAMS_PER_SECOND: f64 = 1000.0;

/// Notices that are kept where nobody asks for them.
const MAX_WAITING_NOTICES: usize = 32;

/// What is answered to an initiation.
#[derive(Debug)]
pub enum StreamAnswer {
    /// A peer has begun a stream.
    Accepted(Box<AcceptedStream>),
    /// The initiation is older than others of the peer, which can read from this record, with its prefix, how to begin it anew. Who
    /// sent it may not be the peer.
    Outdated(Vec<u8>),
}

/// A stream that a peer has begun.
#[derive(Debug)]
pub struct AcceptedStream {
    /// Whose key the initiation has.
    pub peer: PublicKey,
    /// The record to send, with its prefix.
    pub response: Vec<u8>,
    /// For the records that follow.
    pub channel: Channel,
}

impl StreamAcceptor {
    /// Each peer with a second key that both hosts have, or the default one. Strangers' initiations are computed on at the rate of
    /// `policy`.
    pub fn new(
        identity: PrivateKey,
        policy: &HandshakePolicy,
        peers: impl IntoIterator<Item = (PublicKey, PresharedKey)>,
        random: &mut dyn CryptoRng,
    ) -> Self {
        let own = identity.public_key();
        let macs = MacKeys::for_receiver(&own);
        StreamAcceptor {
            identity,
            macs,
            cipher: policy.cipher,
            features: REKEY_FEATURE,
            peers: peers.into_iter().map(|(key, psk)| (key, AcceptedPeer::new(psk))).collect(),
            admission: Admission::new(policy, random),
            known_hosts: BTreeSet::new(),
            own,
            key_refusals: KeyRefusals::new(),
            notices: Vec::new(),
        }
    }

    /// These are the peers from now on. What is known of those that stay, with their second keys, is kept: their initiations count
    /// once.
    pub fn set_peers(&mut self, peers: impl IntoIterator<Item = (PublicKey, PresharedKey)>) {
        let mut before = std::mem::take(&mut self.peers);
        let known = |(key, psk)| {
            let kept = before.remove(&key).filter(|peer| peer.psk == psk);
            (key, kept.unwrap_or_else(|| AcceptedPeer::new(psk)))
        };
        self.peers = peers.into_iter().map(known).collect();
        self.known_hosts = self.peers.values().filter_map(|peer| peer.host).collect();
    }

    #[cfg(test)]
    pub(super) fn without_rekeying(self) -> Self {
        StreamAcceptor { features: 0, ..self }
    }

    /// Takes in the first record of a stream, which came over a connection from this address. It costs some 200 µs if its
    /// sender knows this host's public key.
    ///
    /// # Errors
    /// Why it is dropped: nothing is to be answered. What is [`RefusedDatagram::RateLimited`] may be taken in later.
    pub fn accept(
        &mut self,
        initiation: &[u8],
        from: IpAddr,
        now: Time,
        random: &mut dyn CryptoRng,
    ) -> Result<StreamAnswer, RefusedDatagram> {
        if !is_initiation(initiation) {
            return Err(RefusedDatagram::Malformed);
        }
        let (message, mac) = initiation.split_at(MAC_OFFSET);
        if !self.macs.is_valid_mac1(message, mac) {
            let notice = self.key_refusals.other_receiver(from, self.own, now);
            self.keep_notice(notice);
            return Err(RefusedDatagram::InvalidMac);
        }
        let host = HostPrefix::containing(from);
        let admitted = self.admission.admit_proven(from, self.known_hosts.contains(&host), now);
        let admitted = admitted.ok_or(RefusedDatagram::RateLimited)?;
        let answer = self.answer(message, mac, (from, now), random);
        let peer = match &answer {
            Ok(StreamAnswer::Accepted(stream)) => self.peers.get_mut(&stream.peer),
            Ok(StreamAnswer::Outdated(_)) | Err(_) => None,
        };
        let rate = TokenRate::new(PEER_STREAMS_PER_SECOND, PEER_STREAMS_PER_SECOND + 1.0);
        let has_moved = peer.map(|peer| {
            if !peer.stream_bucket.take(1.0, rate, now) {
                self.admission.charge(admitted, now);
            }
            peer.host.replace(host) != Some(host)
        });
        match has_moved {
            Some(true) => self.known_hosts = self.peers.values().filter_map(|peer| peer.host).collect(),
            Some(false) => {}
            None => self.admission.charge(admitted, now),
        }
        answer
    }

    /// What an administrator has to know, since this was last asked. Of strangers, little is told.
    pub fn take_notices(&mut self) -> Vec<HandshakeNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether there are [notices](Self::take_notices).
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    fn keep_notice(&mut self, notice: Option<HandshakeNotice>) {
        self.notices.extend(notice.filter(|_| self.notices.len() < MAX_WAITING_NOTICES));
    }

    /// The answer to what stands before `mac1`.
    fn answer(
        &mut self,
        message: &[u8],
        mac1: &[u8],
        (from, now): (IpAddr, Time),
        random: &mut dyn CryptoRng,
    ) -> Result<StreamAnswer, RefusedDatagram> {
        let responder =
            NoiseResponder::read(Prologue::Stream, &self.identity, &to_array(&message[TYPE_BYTES..]), random);
        let responder = responder.map_err(|_| RefusedDatagram::Forged)?;
        let key = responder.initiator;
        if !self.peers.contains_key(&key) {
            let notice = self.key_refusals.unknown_peer(key, from, self.peers.keys(), now);
            self.keep_notice(notice);
        }
        let peer = self.peers.get_mut(&key).ok_or(RefusedDatagram::UnknownPeer)?;
        let (stamp, offered) = responder.payload.split_at(timestamp::TIMESTAMP_BYTES);
        let cipher = self.cipher.agree_with(Cipher::from_byte(offered[0]).ok_or(RefusedDatagram::Forged)?);
        let stamp = Timestamp(to_array(stamp));
        if let Some(greatest) = peer.seen.greatest_if_outdated(stamp) {
            let reply_key = TimestampReplyKey::derive(&self.identity, &key, &peer.psk, &key);
            let reply_key = reply_key.ok_or(RefusedDatagram::Forged)?;
            let mut nonce = [0; COOKIE_NONCE_BYTES];
            random.fill_bytes(&mut nonce);
            let reply = reply_key.seal(0, nonce, greatest, &to_array(mac1));
            let prefix = stream::record_prefix(reply.len()).map_err(|_| RefusedDatagram::Malformed)?;
            return Ok(StreamAnswer::Outdated([&prefix[..], &reply].concat()));
        }
        if !peer.seen.record(stamp) {
            return Err(RefusedDatagram::Replayed);
        }
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        payload[0] = cipher.to_byte();
        let features = self.features & offered[INITIATION_FEATURES_OFFSET - timestamp::TIMESTAMP_BYTES];
        payload[RESPONSE_FEATURES_OFFSET] = features;
        let (message, keys) = responder.respond(&peer.psk, &payload).map_err(|_| RefusedDatagram::Forged)?;
        let prefix = stream::record_prefix(RESPONSE_BYTES).map_err(|_| RefusedDatagram::Malformed)?;
        let response = [&prefix[..], &RESPONSE_TYPE, &message].concat();
        let rekeying = new_rekeying(features, &keys, false)?;
        let channel = Channel::new(cipher, &keys, rekeying);
        Ok(StreamAnswer::Accepted(Box::new(AcceptedStream { peer: key, response, channel })))
    }
}

fn new_rekeying(features: u8, keys: &SessionKeys, is_initiator: bool) -> Result<Option<Rekeying>, RefusedDatagram> {
    let is_agreed = features & REKEY_FEATURE != 0;
    is_agreed.then(|| Rekeying::new(keys, is_initiator)).transpose().map_err(|_| RefusedDatagram::Forged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn a_peer_whose_clock_is_behind_is_told_to_go_on_from_its_last_stream() {
        let random = &mut StdRng::seed_from_u64(1);
        let [near, far, stranger] = [1, 2, 3].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let initiator = |own: &PrivateKey| StreamInitiator::new(own.clone(), far.public_key(), PresharedKey::default());
        let peers = [(near.public_key(), PresharedKey::default())];
        let mut acceptor = StreamAcceptor::new(far.clone(), &HandshakePolicy::default(), peers, random);
        let noon = Time::ZERO + Span::from_secs(1_800_000_000);
        // More streams than are remembered.
        let mut before = TimestampSource::new();
        let seen = &mut acceptor.peers.get_mut(&near.public_key()).unwrap().seen;
        (0..5000).for_each(|_| assert!(seen.record(before.next_timestamp(noon))));
        let mut restarted = initiator(&near);
        let (pending, outdated) = restarted.begin(noon - Span::from_secs(1800), random).unwrap();
        let mut accept = |record: &[u8]| acceptor.accept(&record[PREFIX_BYTES..], SOURCE, noon, random).unwrap();
        let StreamAnswer::Outdated(answer) = accept(&outdated) else { panic!("its clock is behind") };
        // Who has only copied an initiation can't use the answer, nor can the peer for another one.
        let (other, _) = restarted.begin(noon, &mut StdRng::seed_from_u64(2)).unwrap();
        let answer = &answer[PREFIX_BYTES..];
        assert_eq!(initiator(&stranger).learn_timestamp(&pending, answer), None);
        assert_eq!(initiator(&near).learn_timestamp(&other, answer), None);
        assert_eq!(restarted.learn_timestamp(&pending, &outdated[PREFIX_BYTES..]), None);
        let mut restarted = initiator(&near);
        let behind = restarted.learn_timestamp(&pending, answer).unwrap();
        assert!((behind - Span::from_secs(1800)).as_nanos().abs() < 20_000_000, "{behind}");
        let begun = restarted.begin(noon - Span::from_secs(1800), &mut StdRng::seed_from_u64(3));
        let (pending, initiation) = begun.unwrap();
        let StreamAnswer::Accepted(accepted) = accept(&initiation) else { panic!("its initiation is new") };
        assert!(pending.finish(&accepted.response[PREFIX_BYTES..]).is_ok());
    }
}
