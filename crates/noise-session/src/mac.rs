//! `mac1`, which only who knows the receiver's public key can make; `mac2`, which only who receives at its own address
//! can; and the cookie reply that makes it possible (WireGuard §5.3, §5.4.4, §5.4.7).

use crate::PublicKey;
use crate::message::{COOKIE_NONCE_BYTES, COOKIE_REPLY_BYTES, DatagramKind, MAC_BYTES, TAG_BYTES, to_array};
use blake2::digest::consts::U16;
use blake2::digest::{Digest, Mac};
use blake2::{Blake2s256, Blake2sMac};
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use subtle::ConstantTimeEq;

/// What a loaded host gives to who shows that it receives at its address.
pub(crate) type Cookie = [u8; MAC_BYTES];

/// What everyone can derive from a host's public key.
#[derive(Debug)]
pub(crate) struct MacKeys {
    mac1: [u8; 32],
    cookie: [u8; 32],
}

impl MacKeys {
    /// For messages to the host with this key, and its cookie replies.
    pub(crate) fn for_receiver(receiver: &PublicKey) -> Self {
        let derive = |label: &[u8]| Blake2s256::new().chain_update(label).chain_update(receiver.as_bytes()).finalize();
        MacKeys { mac1: derive(b"kumade mac1").into(), cookie: derive(b"kumade cookie").into() }
    }

    /// Fills in the last two fields of a handshake message, and returns the first of them.
    pub(crate) fn write_macs(&self, message: &mut [u8], cookie: Option<&Cookie>) -> [u8; MAC_BYTES] {
        let (mac1_at, mac2_at) = mac_positions(message);
        let mac1 = self.mac1(&message[..mac1_at]);
        message[mac1_at..mac2_at].copy_from_slice(&mac1);
        let mac2 = cookie.map_or([0; MAC_BYTES], |cookie| keyed_hash(cookie, &message[..mac2_at]));
        message[mac2_at..].copy_from_slice(&mac2);
        mac1
    }

    /// Whether the sender of a handshake message knew the public key.
    pub(crate) fn has_valid_mac1(&self, message: &[u8]) -> bool {
        let (mac1_at, mac2_at) = mac_positions(message);
        self.is_valid_mac1(&message[..mac1_at], &message[mac1_at..mac2_at])
    }

    /// The `mac1` of what stands before it.
    pub(crate) fn mac1(&self, before: &[u8]) -> [u8; MAC_BYTES] {
        keyed_hash(&self.mac1, before)
    }

    /// Whether it is that, in constant time.
    pub(crate) fn is_valid_mac1(&self, before: &[u8], mac1: &[u8]) -> bool {
        self.mac1(before).ct_eq(mac1).into()
    }

    /// The answer of the host with this key to a message of the sender with the index `receiver`.
    pub(crate) fn cookie_reply(
        &self,
        receiver: u32,
        nonce: [u8; COOKIE_NONCE_BYTES],
        cookie: Cookie,
        mac1: &[u8; MAC_BYTES],
    ) -> SealedReply {
        seal_reply(DatagramKind::CookieReply, &self.cookie, receiver, nonce, cookie, mac1)
    }

    /// The cookie in a reply of the host with this key to the message with this `mac1`.
    pub(crate) fn open_cookie(&self, reply: &[u8], mac1: &[u8; MAC_BYTES]) -> Option<Cookie> {
        open_reply(&self.cookie, reply, mac1)
    }
}

/// A reply to a handshake message that is no handshake message itself.
pub(crate) type SealedReply = [u8; COOKIE_REPLY_BYTES];

/// A reply to the message with this `mac1` of the sender with the index `receiver`.
pub(crate) fn seal_reply(
    kind: DatagramKind,
    key: &[u8; 32],
    receiver: u32,
    nonce: [u8; COOKIE_NONCE_BYTES],
    content: [u8; MAC_BYTES],
    mac1: &[u8; MAC_BYTES],
) -> SealedReply {
    let mut reply = [0; COOKIE_REPLY_BYTES];
    reply[..4].copy_from_slice(&kind.type_prefix());
    reply[4..8].copy_from_slice(&receiver.to_le_bytes());
    reply[8..8 + COOKIE_NONCE_BYTES].copy_from_slice(&nonce);
    let (text, tag) = reply[8 + COOKIE_NONCE_BYTES..].split_at_mut(MAC_BYTES);
    text.copy_from_slice(&content);
    let cipher = XChaCha20Poly1305::new(key.into());
    let made = cipher.encrypt_in_place_detached(&nonce.into(), mac1, text).expect("a short text");
    tag.copy_from_slice(&made);
    reply
}

/// What a reply to the message with this `mac1` says.
pub(crate) fn open_reply(key: &[u8; 32], reply: &[u8], mac1: &[u8; MAC_BYTES]) -> Option<[u8; MAC_BYTES]> {
    let nonce: [u8; COOKIE_NONCE_BYTES] = to_array(&reply[8..8 + COOKIE_NONCE_BYTES]);
    let mut content: [u8; MAC_BYTES] = to_array(&reply[8 + COOKIE_NONCE_BYTES..][..MAC_BYTES]);
    let tag: [u8; TAG_BYTES] = to_array(&reply[8 + COOKIE_NONCE_BYTES + MAC_BYTES..]);
    let cipher = XChaCha20Poly1305::new(key.into());
    cipher.decrypt_in_place_detached(&nonce.into(), mac1, &mut content, &tag.into()).ok()?;
    Some(content)
}

/// Whether the sender of a handshake message has this cookie.
pub(crate) fn has_valid_mac2(message: &[u8], cookie: &Cookie) -> bool {
    let (_, mac2_at) = mac_positions(message);
    keyed_hash(cookie, &message[..mac2_at]).ct_eq(&message[mac2_at..]).into()
}

/// The `mac1` of a handshake message.
pub(crate) fn mac1(message: &[u8]) -> [u8; MAC_BYTES] {
    let (mac1_at, mac2_at) = mac_positions(message);
    to_array(&message[mac1_at..mac2_at])
}

/// Keyed BLAKE2s of 16 bytes (RFC 7693 §2.9): a message authentication code.
pub fn keyed_hash<const KEY: usize>(key: &[u8; KEY], bytes: &[u8]) -> [u8; MAC_BYTES] {
    const { assert!(KEY <= 32, "the longest key of BLAKE2s") }
    let mac = <Blake2sMac<U16> as Mac>::new_from_slice(key).expect("a key of at most 32 bytes");
    mac.chain_update(bytes).finalize().into_bytes().into()
}

/// Whether two codes are the same, in constant time.
pub fn is_equal(one: &[u8; MAC_BYTES], other: &[u8; MAC_BYTES]) -> bool {
    one.ct_eq(other).into()
}

/// Where `mac1` and `mac2` begin.
fn mac_positions(message: &[u8]) -> (usize, usize) {
    (message.len() - 2 * MAC_BYTES, message.len() - MAC_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::INITIATION_BYTES;

    const HOST: PublicKey = PublicKey::from_bytes([5; 32]);

    #[test]
    fn macs_cover_all_that_stands_before_them() {
        let keys = MacKeys::for_receiver(&HOST);
        let (mut message, cookie) = ([3; INITIATION_BYTES], [9; MAC_BYTES]);
        assert_eq!(keys.write_macs(&mut message, Some(&cookie)), mac1(&message));
        assert!(keys.has_valid_mac1(&message) && has_valid_mac2(&message, &cookie));
        assert!(!has_valid_mac2(&message, &[8; MAC_BYTES]));
        assert!(!MacKeys::for_receiver(&PublicKey::from_bytes([6; 32])).has_valid_mac1(&message));
        for at in 0..INITIATION_BYTES {
            let mut altered = message;
            altered[at] ^= 1;
            assert_eq!(keys.has_valid_mac1(&altered), at >= INITIATION_BYTES - MAC_BYTES, "byte {at}");
            assert!(!has_valid_mac2(&altered, &cookie), "byte {at}");
        }
    }

    #[test]
    fn a_cookie_is_read_by_who_sent_the_message_that_it_answers() {
        let (keys, cookie, mac1) = (MacKeys::for_receiver(&HOST), [9; MAC_BYTES], [4; MAC_BYTES]);
        let reply = keys.cookie_reply(77, [1; COOKIE_NONCE_BYTES], cookie, &mac1);
        assert_eq!(keys.open_cookie(&reply, &mac1), Some(cookie));
        assert_eq!(keys.open_cookie(&reply, &[5; MAC_BYTES]), None, "of another message");
        for at in 8..COOKIE_REPLY_BYTES {
            let mut altered = reply;
            altered[at] ^= 1;
            assert_eq!(keys.open_cookie(&altered, &mac1), None, "byte {at}");
        }
    }

    #[test]
    fn codes_are_equal_where_all_their_bits_are() {
        let code = [7; MAC_BYTES];
        assert!(is_equal(&code, &[7; MAC_BYTES]));
        for bit in 0..8 * MAC_BYTES {
            let mut other = code;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_equal(&code, &other), "bit {bit}");
        }
    }

    /// By the example of RFC 7693, appendix B.
    #[test]
    fn the_hash_is_blake2s() {
        let digest: [u8; 32] = Blake2s256::digest(b"abc").into();
        assert_eq!(digest[..8], [0x50, 0x8c, 0x5e, 0x8c, 0x32, 0x7c, 0x14, 0xe2]);
    }
}
