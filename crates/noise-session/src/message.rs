//! The layout of the messages, the first four as WireGuard has them (Donenfeld: WireGuard, NDSS 2017, §5.4). Integers are
//! little-endian; the three bytes behind the type are zero.
//!
//! | message | bytes |
//! | --- | --- |
//! | initiation | type 1, sender index 4, Noise message 120 (payload 24), mac1 16, mac2 16 |
//! | response | type 2, sender index 4, receiver index 4, Noise message 60 (payload 12), mac1 16, mac2 16 |
//! | cookie reply | type 3, receiver index 4, nonce 24, sealed cookie 32 |
//! | data | type 4, receiver index 4, counter 8, ciphertext, tag 16 |
//! | timestamp reply | type 7, receiver index 4, nonce 24, sealed timestamp and zeros 32 |
//!
//! The types 5 and 6 are those of [`channel`](crate::channel).

use std::ops::Range;

/// Bytes of an authentication tag (RFC 8439 §2.8; SP 800-38D).
pub const TAG_BYTES: usize = 16;
/// Bytes before the ciphertext of a data message.
pub const HEADER_BYTES: usize = 16;
/// What a data message is longer than its plaintext, in bytes.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// Bytes of an ephemeral or static public key.
const PUBLIC_KEY_BYTES: usize = 32;
/// Bytes of `mac1` and of `mac2`.
pub(crate) const MAC_BYTES: usize = 16;

/// What an initiation says: the initiator's instance (8 bytes), a timestamp (12), the ciphers that it offers (1), zeros.
pub(crate) const INITIATION_PAYLOAD_BYTES: usize = 24;
/// What a response says: the responder's instance (8 bytes), the cipher that it chose (1), zeros.
pub(crate) const RESPONSE_PAYLOAD_BYTES: usize = 12;
/// Bytes of an instance.
pub(crate) const INSTANCE_BYTES: usize = 8;

pub(crate) const INITIATION_NOISE_RANGE: Range<usize> =
    8..8 + 2 * PUBLIC_KEY_BYTES + TAG_BYTES + INITIATION_PAYLOAD_BYTES + TAG_BYTES;
pub(crate) const RESPONSE_NOISE_RANGE: Range<usize> = 12..12 + PUBLIC_KEY_BYTES + RESPONSE_PAYLOAD_BYTES + TAG_BYTES;

/// Bytes of an initiation.
pub const INITIATION_BYTES: usize = INITIATION_NOISE_RANGE.end + 2 * MAC_BYTES;
/// Bytes of a response.
pub const RESPONSE_BYTES: usize = RESPONSE_NOISE_RANGE.end + 2 * MAC_BYTES;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY_BYTES: usize = 8 + COOKIE_NONCE_BYTES + MAC_BYTES + TAG_BYTES;

pub(crate) const COOKIE_NONCE_BYTES: usize = 24;

/// The kinds of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramKind {
    /// The first message of a handshake.
    Initiation,
    /// The second message of a handshake.
    Response,
    /// What a loaded host answers instead of going on with a handshake.
    CookieReply,
    /// A packet of a session.
    Data,
    /// What is answered to an initiation of a peer that is older than another one: a peer whose clock is behind goes on from the
    /// timestamp that it says. Of [`COOKIE_REPLY_BYTES`].
    TimestampReply,
}

impl DatagramKind {
    /// What a datagram is by its type and length, or none of these. Handshakes go to the [`Endpoint`](crate::Endpoint),
    /// data to the [`SessionTable`](crate::SessionTable).
    pub fn from_datagram(datagram: &[u8]) -> Option<DatagramKind> {
        match (datagram.first_chunk()?, datagram.len()) {
            ([1, 0, 0, 0], INITIATION_BYTES) => Some(DatagramKind::Initiation),
            ([2, 0, 0, 0], RESPONSE_BYTES) => Some(DatagramKind::Response),
            ([3, 0, 0, 0], COOKIE_REPLY_BYTES) => Some(DatagramKind::CookieReply),
            ([4, 0, 0, 0], OVERHEAD_BYTES..) => Some(DatagramKind::Data),
            ([7, 0, 0, 0], COOKIE_REPLY_BYTES) => Some(DatagramKind::TimestampReply),
            _ => None,
        }
    }

    /// The first four bytes of such a datagram.
    pub(crate) const fn type_prefix(self) -> [u8; 4] {
        match self {
            DatagramKind::Initiation => [1, 0, 0, 0],
            DatagramKind::Response => [2, 0, 0, 0],
            DatagramKind::CookieReply => [3, 0, 0, 0],
            DatagramKind::Data => [4, 0, 0, 0],
            DatagramKind::TimestampReply => [7, 0, 0, 0],
        }
    }
}

/// The index by which the receiver of a data message knows the session: that of [`Session::index`](crate::Session::index).
/// None if it is no data message.
pub fn receiver_index(datagram: &[u8]) -> Option<u32> {
    (DatagramKind::from_datagram(datagram)? == DatagramKind::Data).then(|| read_u32(datagram, 4))
}

/// The header of a data message.
pub(crate) fn data_header(receiver: u32, counter: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&DatagramKind::Data.type_prefix());
    header[4..8].copy_from_slice(&receiver.to_le_bytes());
    header[8..].copy_from_slice(&counter.to_le_bytes());
    header
}

/// Four bytes of a message whose length is known to suffice.
pub(crate) fn read_u32(message: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(to_array(&message[at..at + 4]))
}

/// A slice whose length the caller knows, as an array.
pub(crate) fn to_array<const N: usize>(slice: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(slice);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_type_and_length() {
        let of = |kind: u8, length: usize| DatagramKind::from_datagram(&[&[kind][..], &vec![0; length - 1]].concat());
        assert_eq!(of(1, INITIATION_BYTES), Some(DatagramKind::Initiation));
        assert_eq!(of(2, RESPONSE_BYTES), Some(DatagramKind::Response));
        assert_eq!(of(3, COOKIE_REPLY_BYTES), Some(DatagramKind::CookieReply));
        assert_eq!(of(4, OVERHEAD_BYTES), Some(DatagramKind::Data));
        assert_eq!(of(7, COOKIE_REPLY_BYTES), Some(DatagramKind::TimestampReply));
        assert_eq!(
            (of(4, OVERHEAD_BYTES - 1), of(1, INITIATION_BYTES + 1), of(5, 100), DatagramKind::from_datagram(&[])),
            (None, None, None, None)
        );
        let header = data_header(7, 9);
        assert_eq!(receiver_index(&[&header[..], &[0; TAG_BYTES]].concat()), Some(7));
    }

    /// Two peers of different releases must agree on them.
    #[test]
    fn messages_have_the_lengths_that_they_always_had() {
        assert_eq!((INITIATION_BYTES, RESPONSE_BYTES, COOKIE_REPLY_BYTES, OVERHEAD_BYTES), (160, 104, 64, 32));
    }

    #[test]
    fn a_cookie_reply_is_shorter_than_what_it_answers() {
        const { assert!(COOKIE_REPLY_BYTES < RESPONSE_BYTES && RESPONSE_BYTES < INITIATION_BYTES) };
    }
}
