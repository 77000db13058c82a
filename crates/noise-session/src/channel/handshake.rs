use super::Channel;
use super::initiation_log::InitiationLog;
use super::rekey::Rekeying;
use crate::cipher::Cipher;
use crate::event::RefusedDatagram;
use crate::mac::MacKeys;
use crate::message::{
    INITIATION_NOISE_RANGE, INITIATION_PAYLOAD_BYTES, MAC_BYTES, RESPONSE_NOISE_RANGE, RESPONSE_PAYLOAD_BYTES, to_array,
};
use crate::noise::{self, NoiseResponder, Prologue, SessionKeys};
use crate::stream::{self, PREFIX_BYTES};
use crate::timestamp::{self, Timestamp, TimestampSource};
use crate::{PresharedKey, PrivateKey, PublicKey};
use kumade_units::Time;
use rand_core::CryptoRng;
use std::collections::BTreeMap;

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
    features: u8,
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
        let (cipher, features) = (Cipher::fastest(), REKEY_FEATURE);
        StreamInitiator { identity, peer, psk, macs, timestamps: stamper, cipher, features }
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
        payload[..timestamp::TIMESTAMP_BYTES].copy_from_slice(&self.timestamps.next_timestamp(wall).0);
        payload[timestamp::TIMESTAMP_BYTES] = self.cipher.to_byte();
        payload[INITIATION_FEATURES_OFFSET] = self.features;
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
    peers: BTreeMap<PublicKey, (PresharedKey, InitiationLog)>,
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
    /// Each peer with a second key that both hosts have, or the default one.
    pub fn new(identity: PrivateKey, peers: impl IntoIterator<Item = (PublicKey, PresharedKey)>) -> Self {
        let macs = MacKeys::for_receiver(&identity.public_key());
        let peers = peers.into_iter().map(|(key, psk)| (key, (psk, InitiationLog::default()))).collect();
        StreamAcceptor { identity, macs, cipher: Cipher::fastest(), features: REKEY_FEATURE, peers }
    }

    #[cfg(test)]
    pub(super) fn without_rekeying(self) -> Self {
        StreamAcceptor { features: 0, ..self }
    }

    /// Takes in the first record of a stream. It costs some 200 µs if its sender knows this host's public key.
    ///
    /// # Errors
    /// Why it is dropped: nothing is to be answered.
    pub fn accept(&mut self, initiation: &[u8], random: &mut dyn CryptoRng) -> Result<AcceptedStream, RefusedDatagram> {
        if !is_initiation(initiation) {
            return Err(RefusedDatagram::Malformed);
        }
        let (message, mac) = initiation.split_at(MAC_OFFSET);
        if !self.macs.is_valid_mac1(message, mac) {
            return Err(RefusedDatagram::InvalidMac);
        }
        let responder =
            NoiseResponder::read(Prologue::Stream, &self.identity, &to_array(&message[TYPE_BYTES..]), random);
        let responder = responder.map_err(|_| RefusedDatagram::Forged)?;
        let peer = responder.initiator;
        let (psk, seen) = self.peers.get_mut(&peer).ok_or(RefusedDatagram::UnknownPeer)?;
        let (stamp, offered) = responder.payload.split_at(timestamp::TIMESTAMP_BYTES);
        let cipher = self.cipher.agree_with(Cipher::from_byte(offered[0]).ok_or(RefusedDatagram::Forged)?);
        if !seen.record(Timestamp(to_array(stamp))) {
            return Err(RefusedDatagram::Replayed);
        }
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        payload[0] = cipher.to_byte();
        let features = self.features & offered[INITIATION_FEATURES_OFFSET - timestamp::TIMESTAMP_BYTES];
        payload[RESPONSE_FEATURES_OFFSET] = features;
        let (message, keys) = responder.respond(psk, &payload).map_err(|_| RefusedDatagram::Forged)?;
        let prefix = stream::record_prefix(RESPONSE_BYTES).map_err(|_| RefusedDatagram::Malformed)?;
        let response = [&prefix[..], &RESPONSE_TYPE, &message].concat();
        let rekeying = new_rekeying(features, &keys, false)?;
        Ok(AcceptedStream { peer, response, channel: Channel::new(cipher, &keys, rekeying) })
    }
}

fn new_rekeying(features: u8, keys: &SessionKeys, is_initiator: bool) -> Result<Option<Rekeying>, RefusedDatagram> {
    let is_agreed = features & REKEY_FEATURE != 0;
    is_agreed.then(|| Rekeying::new(keys, is_initiator)).transpose().map_err(|_| RefusedDatagram::Forged)
}
