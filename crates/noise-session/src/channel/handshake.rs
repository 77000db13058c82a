use super::Channel;
use super::initiation_log::InitiationLog;
use crate::admission::{Admission, HostPrefix};
use crate::cipher::Cipher;
use crate::event::RefusedDatagram;
use crate::mac::MacKeys;
use crate::message::{
    INITIATION_NOISE_RANGE, INITIATION_PAYLOAD_BYTES, MAC_BYTES, RESPONSE_NOISE_RANGE, RESPONSE_PAYLOAD_BYTES, to_array,
};
use crate::noise::{self, NoiseResponder, Prologue};
use crate::stream::{self, PREFIX_BYTES};
use crate::timestamp::{self, Timestamp, TimestampSource};
use crate::token_bucket::{TokenBucket, TokenRate};
use crate::{HandshakePolicy, PresharedKey, PrivateKey, PublicKey};
use kumade_units::Time;
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

/// Whether a record is an initiation of this handshake, and none of [`DatagramKind`](crate::DatagramKind).
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
    cipher: Cipher,
}

/// An initiation that waits for its response.
pub struct PendingStream {
    noise: noise::NoiseInitiator,
    cipher: Cipher,
}

impl StreamInitiator {
    /// `psk` is a second key that both hosts have, or the default one.
    pub fn new(identity: PrivateKey, peer: PublicKey, psk: PresharedKey) -> Self {
        let (macs, stamper) = (MacKeys::for_receiver(&peer), TimestampSource::new());
        StreamInitiator { identity, peer, psk, macs, timestamps: stamper, cipher: Cipher::fastest() }
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
        payload[..timestamp::TIMESTAMP_BYTES].copy_from_slice(&self.timestamps.next_timestamp(wall).0);
        payload[timestamp::TIMESTAMP_BYTES] = self.cipher.to_byte();
        let begun =
            noise::NoiseInitiator::begin(Prologue::Stream, &self.identity, &self.peer, &self.psk, &payload, random);
        let (noise, message) = begun.map_err(|_| RefusedDatagram::Forged)?;
        let mut record = stream::record_prefix(INITIATION_BYTES).map_err(|_| RefusedDatagram::Malformed)?.to_vec();
        record.extend(INITIATION_TYPE);
        record.extend(message);
        record.extend(self.macs.mac1(&record[PREFIX_BYTES..]));
        Ok((PendingStream { noise, cipher: self.cipher }, record))
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
        Ok(Channel::new(cipher.ok_or(RefusedDatagram::Forged)?, &keys))
    }
}

/// A host that accepts streams of its peers.
#[derive(Debug)]
pub struct StreamAcceptor {
    identity: PrivateKey,
    macs: MacKeys,
    cipher: Cipher,
    peers: BTreeMap<PublicKey, AcceptedPeer>,
    admission: Admission,
    /// Where peers were when they last began a stream.
    known_hosts: BTreeSet<HostPrefix>,
}

#[derive(Debug)]
struct AcceptedPeer {
    psk: PresharedKey,
    seen: InitiationLog,
    host: Option<HostPrefix>,
    /// What its streams may cost, beyond which they are as a stranger's.
    stream_bucket: TokenBucket,
}

/// Streams of one peer per second, and at once, whose handshakes are computed on whatever strangers do: a fifth of one
/// processor's time. Programs open some hundred at once.
const PEER_STREAMS_PER_SECOND: u32 = 1000;

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
        let macs = MacKeys::for_receiver(&identity.public_key());
        let peer =
            |psk| AcceptedPeer { psk, seen: InitiationLog::default(), host: None, stream_bucket: TokenBucket::FULL };
        StreamAcceptor {
            identity,
            macs,
            cipher: policy.cipher,
            peers: peers.into_iter().map(|(key, psk)| (key, peer(psk))).collect(),
            admission: Admission::new(policy, random),
            known_hosts: BTreeSet::new(),
        }
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
    ) -> Result<AcceptedStream, RefusedDatagram> {
        if !is_initiation(initiation) {
            return Err(RefusedDatagram::Malformed);
        }
        let (message, mac) = initiation.split_at(MAC_OFFSET);
        if !self.macs.is_valid_mac1(message, mac) {
            return Err(RefusedDatagram::InvalidMac);
        }
        let host = HostPrefix::containing(from);
        let admitted = self.admission.admit_proven(from, self.known_hosts.contains(&host), now);
        let admitted = admitted.ok_or(RefusedDatagram::RateLimited)?;
        let accepted = self.answer(message, random);
        let peer = accepted.as_ref().ok().and_then(|stream| self.peers.get_mut(&stream.peer));
        let rate = TokenRate::with_burst(PEER_STREAMS_PER_SECOND, PEER_STREAMS_PER_SECOND);
        let has_moved = peer.map(|peer| {
            if !peer.stream_bucket.take(rate, now) {
                self.admission.charge(admitted, now);
            }
            peer.host.replace(host) != Some(host)
        });
        match has_moved {
            Some(true) => self.known_hosts = self.peers.values().filter_map(|peer| peer.host).collect(),
            Some(false) => {}
            None => self.admission.charge(admitted, now),
        }
        accepted
    }

    /// The answer to what stands before `mac1`.
    fn answer(&mut self, message: &[u8], random: &mut dyn CryptoRng) -> Result<AcceptedStream, RefusedDatagram> {
        let responder =
            NoiseResponder::read(Prologue::Stream, &self.identity, &to_array(&message[TYPE_BYTES..]), random);
        let responder = responder.map_err(|_| RefusedDatagram::Forged)?;
        let key = responder.initiator;
        let peer = self.peers.get_mut(&key).ok_or(RefusedDatagram::UnknownPeer)?;
        let (stamp, offered) = responder.payload.split_at(timestamp::TIMESTAMP_BYTES);
        let cipher = self.cipher.agree_with(Cipher::from_byte(offered[0]).ok_or(RefusedDatagram::Forged)?);
        if !peer.seen.record(Timestamp(to_array(stamp))) {
            return Err(RefusedDatagram::Replayed);
        }
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        payload[0] = cipher.to_byte();
        let (message, keys) = responder.respond(&peer.psk, &payload).map_err(|_| RefusedDatagram::Forged)?;
        let prefix = stream::record_prefix(RESPONSE_BYTES).map_err(|_| RefusedDatagram::Malformed)?;
        let response = [&prefix[..], &RESPONSE_TYPE, &message].concat();
        Ok(AcceptedStream { peer: key, response, channel: Channel::new(cipher, &keys) })
    }
}
