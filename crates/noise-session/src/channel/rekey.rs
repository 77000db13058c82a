use crate::cipher::{Cipher, DataKey};
use crate::noise::{self, EphemeralKey, NoiseError, SessionKeys};
use rand_core::CryptoRng;
use std::fmt;
use zeroize::Zeroizing;

/// The part of a channel that makes new keys.
pub(super) struct Rekeying {
    /// Whether the host has begun the stream, which begins each exchange of keys as well.
    is_initiator: bool,
    /// What all keys of the stream so far have gone into.
    chain: Zeroizing<[u8; 32]>,
    /// The exchange that waits for its answer.
    pending: Option<EphemeralKey>,
    /// The new keys of the two directions, until they are used.
    pub(super) next_send: Option<DataKey>,
    pub(super) next_receive: Option<DataKey>,
}

impl fmt::Debug for Rekeying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rekeying").field("is_initiator", &self.is_initiator).finish_non_exhaustive()
    }
}

impl Rekeying {
    pub(super) fn new(keys: &SessionKeys, is_initiator: bool) -> Result<Self, NoiseError> {
        let (forward, back) = if is_initiator { (&keys.send, &keys.receive) } else { (&keys.receive, &keys.send) };
        let [chain, ..] = noise::derive_keys(forward, back)?;
        Ok(Rekeying { is_initiator, chain, pending: None, next_send: None, next_receive: None })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none() && self.next_send.is_none() && self.next_receive.is_none()
    }

    pub(super) fn begin(&mut self, random: &mut dyn CryptoRng) -> Result<[u8; 32], NoiseError> {
        if !self.is_initiator || !self.is_idle() {
            return Err(NoiseError);
        }
        let key = EphemeralKey::generate(random)?;
        let public_key = key.public_key()?;
        self.pending = Some(key);
        Ok(public_key)
    }

    pub(super) fn answer(
        &mut self,
        offer: &[u8; 32],
        cipher: Cipher,
        random: &mut dyn CryptoRng,
    ) -> Result<[u8; 32], NoiseError> {
        if self.is_initiator || !self.is_idle() {
            return Err(NoiseError);
        }
        let key = EphemeralKey::generate(random)?;
        self.derive(&key, offer, cipher)?;
        key.public_key()
    }

    pub(super) fn finish(&mut self, answer: &[u8; 32], cipher: Cipher) -> Result<(), NoiseError> {
        let key = self.pending.take().ok_or(NoiseError)?;
        self.derive(&key, answer, cipher)
    }

    fn derive(&mut self, key: &EphemeralKey, public_key: &[u8; 32], cipher: Cipher) -> Result<(), NoiseError> {
        let secret = key.shared_secret(public_key)?;
        let [chain, forward, back] = noise::derive_keys(&self.chain, &secret)?;
        self.chain = chain;
        let (send, receive) = if self.is_initiator { (forward, back) } else { (back, forward) };
        self.next_send = Some(DataKey::new(cipher, &send));
        self.next_receive = Some(DataKey::new(cipher, &receive));
        Ok(())
    }
}
