use super::Channel;
use super::seen::Seen;
use crate::cipher::Cipher;
use crate::event::Refused;
use crate::mac::MacKeys;
use crate::message::{INITIATION_NOISE, INITIATION_PAYLOAD, MAC, RESPONSE_NOISE, RESPONSE_PAYLOAD, array};
use crate::noise::{self, Prologue, Responder};
use crate::stream::{self, PREFIX};
use crate::timestamp::{self, Stamper, Timestamp};
use crate::{PresharedKey, PrivateKey, PublicKey};
use kumade_units::Time;
use rand_core::CryptoRng;
use std::collections::BTreeMap;

/// The types of the two messages.
const INITIATION_TYPE: [u8; 4] = [5, 0, 0, 0];
const RESPONSE_TYPE: [u8; 4] = [6, 0, 0, 0];
const TYPE: usize = INITIATION_TYPE.len();
/// Where `mac1` begins.
const MAC_AT: usize = TYPE + INITIATION_NOISE.end - INITIATION_NOISE.start;
/// Bytes of an initiation and of a response.
const INITIATION: usize = MAC_AT + MAC;
const RESPONSE: usize = TYPE + RESPONSE_NOISE.end - RESPONSE_NOISE.start;

/// Whether a record is an initiation of this handshake, and none of [`Kind`](crate::Kind).
pub fn is_initiation(record: &[u8]) -> bool {
    record.len() == INITIATION && record.starts_with(&INITIATION_TYPE)
}

/// A host that begins streams to a peer.
#[derive(Debug)]
pub struct Initiator {
    identity: PrivateKey,
    peer: PublicKey,
    psk: PresharedKey,
    macs: MacKeys,
    stamper: Stamper,
    cipher: Cipher,
}

/// An initiation that waits for its response.
pub struct Offer {
    noise: noise::Initiator,
    cipher: Cipher,
}

impl Initiator {
    /// `psk` is a second key that both hosts have, or the default one.
    pub fn new(identity: PrivateKey, peer: PublicKey, psk: PresharedKey) -> Self {
        let (macs, stamper) = (MacKeys::of(&peer), Stamper::new());
        Initiator { identity, peer, psk, macs, stamper, cipher: Cipher::fastest() }
    }

    /// The first record of a stream, with its prefix. `wall` is the time since the Unix epoch; it may step.
    ///
    /// # Errors
    /// The peer's public key is none.
    pub fn begin(&mut self, wall: Time, random: &mut dyn CryptoRng) -> Result<(Offer, Vec<u8>), Refused> {
        let mut payload = [0; INITIATION_PAYLOAD];
        payload[..timestamp::SIZE].copy_from_slice(&self.stamper.stamp(wall).0);
        payload[timestamp::SIZE] = self.cipher.to_byte();
        let begun = noise::Initiator::begin(Prologue::Stream, &self.identity, &self.peer, &self.psk, &payload, random);
        let (noise, message) = begun.map_err(|_| Refused::Forged)?;
        let mut record = stream::prefix(INITIATION).map_err(|_| Refused::Malformed)?.to_vec();
        record.extend(INITIATION_TYPE);
        record.extend(message);
        record.extend(self.macs.mac1(&record[PREFIX..]));
        Ok((Offer { noise, cipher: self.cipher }, record))
    }
}

impl Offer {
    /// Takes in the first record that came back.
    ///
    /// # Errors
    /// It is not the response of the peer.
    pub fn finish(mut self, response: &[u8]) -> Result<Channel, Refused> {
        if response.len() != RESPONSE || !response.starts_with(&RESPONSE_TYPE) {
            return Err(Refused::Malformed);
        }
        let (payload, keys) = self.noise.finish(&array(&response[TYPE..])).map_err(|_| Refused::Forged)?;
        let cipher = Cipher::from_byte(payload[0]).filter(|chosen| *chosen == self.cipher.with(*chosen));
        Ok(Channel::new(cipher.ok_or(Refused::Forged)?, &keys))
    }
}

/// A host that accepts streams of its peers.
#[derive(Debug)]
pub struct Acceptor {
    identity: PrivateKey,
    macs: MacKeys,
    cipher: Cipher,
    peers: BTreeMap<PublicKey, (PresharedKey, Seen)>,
}

/// A stream that a peer has begun.
#[derive(Debug)]
pub struct Accepted {
    /// Whose key the initiation has.
    pub peer: PublicKey,
    /// The record to send, with its prefix.
    pub response: Vec<u8>,
    /// For the records that follow.
    pub channel: Channel,
}

impl Acceptor {
    /// Each peer with a second key that both hosts have, or the default one.
    pub fn new(identity: PrivateKey, peers: impl IntoIterator<Item = (PublicKey, PresharedKey)>) -> Self {
        let macs = MacKeys::of(&identity.public());
        let peers = peers.into_iter().map(|(key, psk)| (key, (psk, Seen::default()))).collect();
        Acceptor { identity, macs, cipher: Cipher::fastest(), peers }
    }

    /// Takes in the first record of a stream. It costs some 200 µs if its sender knows this host's public key.
    ///
    /// # Errors
    /// Why it is dropped: nothing is to be answered.
    pub fn accept(&mut self, initiation: &[u8], random: &mut dyn CryptoRng) -> Result<Accepted, Refused> {
        if !is_initiation(initiation) {
            return Err(Refused::Malformed);
        }
        let (message, mac) = initiation.split_at(MAC_AT);
        if !self.macs.is_mac1(message, mac) {
            return Err(Refused::Stranger);
        }
        let responder = Responder::read(Prologue::Stream, &self.identity, &array(&message[TYPE..]), random);
        let responder = responder.map_err(|_| Refused::Forged)?;
        let peer = responder.initiator;
        let (psk, seen) = self.peers.get_mut(&peer).ok_or(Refused::UnknownPeer)?;
        let (stamp, offered) = responder.payload.split_at(timestamp::SIZE);
        let cipher = self.cipher.with(Cipher::from_byte(offered[0]).ok_or(Refused::Forged)?);
        if !seen.note(Timestamp(array(stamp))) {
            return Err(Refused::Replayed);
        }
        let mut payload = [0; RESPONSE_PAYLOAD];
        payload[0] = cipher.to_byte();
        let (message, keys) = responder.respond(psk, &payload).map_err(|_| Refused::Forged)?;
        let prefix = stream::prefix(RESPONSE).map_err(|_| Refused::Malformed)?;
        let response = [&prefix[..], &RESPONSE_TYPE, &message].concat();
        Ok(Accepted { peer, response, channel: Channel::new(cipher, &keys) })
    }
}
