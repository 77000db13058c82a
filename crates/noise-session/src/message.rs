//! The layout of the four messages, as WireGuard has them (Donenfeld: WireGuard, NDSS 2017, §5.4). Integers are
//! little-endian; the three bytes behind the type are zero.
//!
//! | message | bytes |
//! | --- | --- |
//! | initiation | type 1, sender index 4, Noise message 120 (payload 24), mac1 16, mac2 16 |
//! | response | type 2, sender index 4, receiver index 4, Noise message 60 (payload 12), mac1 16, mac2 16 |
//! | cookie reply | type 3, receiver index 4, nonce 24, sealed cookie 32 |
//! | data | type 4, receiver index 4, counter 8, ciphertext, tag 16 |

use std::ops::Range;

/// Bytes of an authentication tag (RFC 8439 §2.8; SP 800-38D).
pub const TAG: usize = 16;
/// Bytes before the ciphertext of a data message.
pub const HEADER: usize = 16;
/// What a data message is longer than its plaintext, in bytes.
pub const OVERHEAD: usize = HEADER + TAG;

/// Bytes of an ephemeral or static public key.
const PUBLIC_KEY: usize = 32;
/// Bytes of `mac1` and of `mac2`.
pub(crate) const MAC: usize = 16;

/// What an initiation says: the initiator's instance (8 bytes), a timestamp (12), the ciphers that it offers (1), zeros.
pub(crate) const INITIATION_PAYLOAD: usize = 24;
/// What a response says: the responder's instance (8 bytes), the cipher that it chose (1), zeros.
pub(crate) const RESPONSE_PAYLOAD: usize = 12;
/// Bytes of an instance.
pub(crate) const INSTANCE: usize = 8;

pub(crate) const INITIATION_NOISE: Range<usize> = 8..8 + 2 * PUBLIC_KEY + TAG + INITIATION_PAYLOAD + TAG;
pub(crate) const RESPONSE_NOISE: Range<usize> = 12..12 + PUBLIC_KEY + RESPONSE_PAYLOAD + TAG;

/// Bytes of an initiation.
pub const INITIATION: usize = INITIATION_NOISE.end + 2 * MAC;
/// Bytes of a response.
pub const RESPONSE: usize = RESPONSE_NOISE.end + 2 * MAC;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY: usize = 8 + COOKIE_NONCE + MAC + TAG;

pub(crate) const COOKIE_NONCE: usize = 24;

/// The kinds of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The first message of a handshake.
    Initiation,
    /// The second message of a handshake.
    Response,
    /// What a loaded host answers instead of going on with a handshake.
    CookieReply,
    /// A packet of a session.
    Data,
}

impl Kind {
    /// What a datagram is by its type and length, or none of these. Handshakes go to the [`Endpoint`](crate::Endpoint),
    /// data to the [`SessionTable`](crate::SessionTable).
    pub fn of(datagram: &[u8]) -> Option<Kind> {
        match (datagram.first_chunk()?, datagram.len()) {
            ([1, 0, 0, 0], INITIATION) => Some(Kind::Initiation),
            ([2, 0, 0, 0], RESPONSE) => Some(Kind::Response),
            ([3, 0, 0, 0], COOKIE_REPLY) => Some(Kind::CookieReply),
            ([4, 0, 0, 0], OVERHEAD..) => Some(Kind::Data),
            _ => None,
        }
    }

    /// The first four bytes of such a datagram.
    pub(crate) const fn prefix(self) -> [u8; 4] {
        match self {
            Kind::Initiation => [1, 0, 0, 0],
            Kind::Response => [2, 0, 0, 0],
            Kind::CookieReply => [3, 0, 0, 0],
            Kind::Data => [4, 0, 0, 0],
        }
    }
}

/// The index by which the receiver of a data message knows the session: that of [`Session::index`](crate::Session::index).
/// None if it is no data message.
pub fn receiver_index(datagram: &[u8]) -> Option<u32> {
    (Kind::of(datagram)? == Kind::Data).then(|| read_u32(datagram, 4))
}

/// The header of a data message.
pub(crate) fn data_header(receiver: u32, counter: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&Kind::Data.prefix());
    header[4..8].copy_from_slice(&receiver.to_le_bytes());
    header[8..].copy_from_slice(&counter.to_le_bytes());
    header
}

/// Four bytes of a message whose length is known to suffice.
pub(crate) fn read_u32(message: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(&message[at..at + 4]))
}

/// A slice whose length the caller knows, as an array.
pub(crate) fn array<const N: usize>(slice: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(slice);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_type_and_length() {
        let of = |kind: u8, length: usize| Kind::of(&[&[kind][..], &vec![0; length - 1]].concat());
        assert_eq!(of(1, INITIATION), Some(Kind::Initiation));
        assert_eq!(of(2, RESPONSE), Some(Kind::Response));
        assert_eq!(of(3, COOKIE_REPLY), Some(Kind::CookieReply));
        assert_eq!(of(4, OVERHEAD), Some(Kind::Data));
        assert_eq!((of(4, OVERHEAD - 1), of(1, INITIATION + 1), of(5, 100), Kind::of(&[])), (None, None, None, None));
        let header = data_header(7, 9);
        assert_eq!(receiver_index(&[&header[..], &[0; TAG]].concat()), Some(7));
    }

    /// Two peers of different releases must agree on them.
    #[test]
    fn messages_have_the_lengths_that_they_always_had() {
        assert_eq!((INITIATION, RESPONSE, COOKIE_REPLY, OVERHEAD), (160, 104, 64, 32));
    }

    #[test]
    fn a_cookie_reply_is_shorter_than_what_it_answers() {
        const { assert!(COOKIE_REPLY < RESPONSE && RESPONSE < INITIATION) };
    }
}
