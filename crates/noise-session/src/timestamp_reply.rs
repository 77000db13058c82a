//! The answer to an initiation whose timestamp is not the greatest of its sender: it says which one is, so that a peer whose
//! clock is behind goes on from there.
//!
//! It is sealed under a key of the two hosts alone, and bound to the initiation that it answers, as a cookie reply is
//! (WireGuard §5.4.7). So who repeats a copied initiation learns nothing from the answer and can do nothing with it, and the
//! peer takes only what answers its own last initiation.

use crate::mac::{self, SealedReply};
use crate::message::{COOKIE_NONCE_BYTES, DatagramKind, MAC_BYTES, to_array};
use crate::noise::shared_secret;
use crate::timestamp::{TIMESTAMP_BYTES, Timestamp};
use crate::{PresharedKey, PrivateKey, PublicKey};
use blake2::Blake2s256;
use blake2::digest::Digest;
use zeroize::Zeroizing;

/// What seals the answers to one host of another one. To make it takes a multiplication on the curve.
pub(crate) struct TimestampReplyKey(Zeroizing<[u8; 32]>);

impl TimestampReplyKey {
    /// For answers to the host with the public key `receiver`, which is either the peer or this host itself. None for a public key
    /// of small order.
    pub(crate) fn derive(
        identity: &PrivateKey,
        peer: &PublicKey,
        psk: &PresharedKey,
        receiver: &PublicKey,
    ) -> Option<Self> {
        let secret = shared_secret(identity, peer).ok()?;
        let hash = Blake2s256::new().chain_update(b"kumade timestamp").chain_update(receiver.as_bytes());
        let key = hash.chain_update(secret.as_slice()).chain_update(psk.as_bytes()).finalize();
        Some(TimestampReplyKey(Zeroizing::new(key.into())))
    }

    /// The answer to the initiation with this index and this `mac1`.
    pub(crate) fn seal(
        &self,
        receiver_index: u32,
        nonce: [u8; COOKIE_NONCE_BYTES],
        greatest: Timestamp,
        mac1: &[u8; MAC_BYTES],
    ) -> SealedReply {
        let mut text = [0; MAC_BYTES];
        text[..TIMESTAMP_BYTES].copy_from_slice(&greatest.0);
        mac::seal_reply(DatagramKind::TimestampReply, &self.0, receiver_index, nonce, text, mac1)
    }

    /// What the answer to the initiation with this `mac1` says.
    pub(crate) fn open(&self, reply: &[u8], mac1: &[u8; MAC_BYTES]) -> Option<Timestamp> {
        let text = mac::open_reply(&self.0, reply, mac1)?;
        Some(Timestamp(to_array(&text[..TIMESTAMP_BYTES])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREATEST: Timestamp = Timestamp([7; TIMESTAMP_BYTES]);

    fn key(own: u8, peer: u8, psk: u8, receiver: u8) -> TimestampReplyKey {
        let public = |byte| PrivateKey::from_bytes([byte; 32]).public_key();
        let (own, psk) = (PrivateKey::from_bytes([own; 32]), PresharedKey::from_bytes([psk; 32]));
        TimestampReplyKey::derive(&own, &public(peer), &psk, &public(receiver)).unwrap()
    }

    #[test]
    fn an_answer_is_read_by_the_peer_whose_initiation_it_answers_and_by_nobody_else() {
        let mac1 = [4; MAC_BYTES];
        let reply = key(1, 2, 3, 2).seal(77, [1; COOKIE_NONCE_BYTES], GREATEST, &mac1);
        assert_eq!(DatagramKind::from_datagram(&reply), Some(DatagramKind::TimestampReply));
        assert_eq!(key(2, 1, 3, 2).open(&reply, &mac1), Some(GREATEST));
        assert_eq!(key(2, 1, 3, 2).open(&reply, &[5; MAC_BYTES]), None, "to another initiation");
        assert_eq!(key(2, 1, 3, 1).open(&reply, &mac1), None, "in the other direction");
        assert_eq!(key(2, 1, 9, 2).open(&reply, &mac1), None, "with another preshared key");
        assert_eq!(key(9, 1, 3, 2).open(&reply, &mac1), None, "by another host");
        for at in 8..reply.len() {
            let mut altered = reply;
            altered[at] ^= 1;
            assert_eq!(key(2, 1, 3, 2).open(&altered, &mac1), None, "byte {at}");
        }
    }
}
