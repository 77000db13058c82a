//! The layout of the messages, the first four as WireGuard has them (Donenfeld: WireGuard, NDSS 2017, §5.4). Integers are
//! little-endian; the three bytes behind the type are zero.
//!
//! | message | bytes |
//! | --- | --- |
//! | initiation | type 1, sender index 4, Noise message 120 (payload 24), mac1 16, mac2 16 |
//! | response | type 2, sender index 4, receiver index 4, Noise message 60 (payload 12), mac1 16, mac2 16 |
//! | cookie reply | type 3, receiver index 4, nonce 24, sealed cookie 32 |
//! | data | type 4, receiver index 4, nonce 8, ciphertext, tag 16 |
//! | numbered data | receiver index and path 2 or 4, lowest octets of the counter 2, ciphertext, tag 16 |
//! | timestamp reply | type 7, receiver index 4, nonce 24, sealed timestamp and zeros 32 |
//!
//! The types 5 and 6 are those of [`channel`](crate::channel).
//!
//! A nonce is the number of the path (8 bits), whether its sender has given the counter (1 bit), and the counter (55 bits). Numbered
//! data leaves out what the receiver knows, as a short header of QUIC does (RFC 9000 §17.1 and §17.3): the upper four bits of the path,
//! which are those of the thread that the datagram is for, and the upper octets of the counter, which are those of the counters
//! near it. Its first two octets are `1`, eleven bits of the index, four of the path; where the index has more bits, its first four
//! octets are `01`, 26 bits of the index, four of the path. These fields are in network byte order. An index below 2048 is always short, and
//! the header of data is the associated data of its ciphertext: a datagram has one header.

use std::ops::Range;

/// Bytes of an authentication tag (RFC 8439 §2.8; SP 800-38D).
pub const TAG_BYTES: usize = 16;
/// Bytes before the ciphertext of a data message.
pub const HEADER_BYTES: usize = 16;
/// What a data message is longer than its plaintext, in bytes.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// Bytes before the ciphertext of a numbered data message, at most.
pub const SHORT_HEADER_BYTES: usize = LONG_INDEX_BYTES + SHORT_COUNTER_BYTES;
/// Bytes before the ciphertext of a numbered data message to a host that has given the session one of its first
/// [`SHORT_INDICES`] indices.
pub const SHORTEST_HEADER_BYTES: usize = SHORT_INDEX_BYTES + SHORT_COUNTER_BYTES;
/// What a numbered data message is longer than its plaintext, in bytes, where the index is a short one.
pub const SHORTEST_OVERHEAD_BYTES: usize = SHORTEST_HEADER_BYTES + TAG_BYTES;

const LONGEST_SHORT_OVERHEAD_BYTES: usize = SHORT_HEADER_BYTES + TAG_BYTES;

/// Indices below this take two octets with the number of the path.
pub(crate) const SHORT_INDICES: u32 = 1 << 11;
/// Indices below this take four.
pub(crate) const LONG_INDICES: u32 = 1 << 26;
const SHORT_INDEX_BYTES: usize = 2;
const LONG_INDEX_BYTES: usize = 4;
const SHORT_COUNTER_BYTES: usize = 2;
const SHORT_INDEX_FLAG: u16 = 1 << 15;
const LONG_INDEX_FLAG: u32 = 1 << 30;
/// Bits of the path's number that a numbered data message has.
const SHORT_PATH_BITS: u32 = 4;

/// Bytes of an ephemeral or static public key.
const PUBLIC_KEY_BYTES: usize = 32;
/// Bytes of `mac1` and of `mac2`.
pub(crate) const MAC_BYTES: usize = 16;

/// What an initiation says: the initiator's instance (8 bytes), a timestamp (12), the ciphers that it offers (1), its capabilities (1), zeros.
pub(crate) const INITIATION_PAYLOAD_BYTES: usize = 24;
/// What a response says: the responder's instance (8 bytes), the cipher that it chose (1), the capabilities that both have (1), zeros.
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
        match (datagram.first_chunk::<4>()?, datagram.len()) {
            ([1, 0, 0, 0], INITIATION_BYTES) => Some(DatagramKind::Initiation),
            ([2, 0, 0, 0], RESPONSE_BYTES) => Some(DatagramKind::Response),
            ([3, 0, 0, 0], COOKIE_REPLY_BYTES) => Some(DatagramKind::CookieReply),
            ([4, 0, 0, 0], OVERHEAD_BYTES..) => Some(DatagramKind::Data),
            ([0x80..=0xff, ..], SHORTEST_OVERHEAD_BYTES..) => Some(DatagramKind::Data),
            ([0x40..=0x7f, ..], LONGEST_SHORT_OVERHEAD_BYTES..) => Some(DatagramKind::Data),
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
    DataHeader::read(datagram).map(|header| header.receiver)
}

/// What stands before the ciphertext of a data message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataHeader {
    pub(crate) receiver: u32,
    pub(crate) nonce: WireNonce,
    /// Its length.
    pub(crate) bytes: usize,
}

/// What a data message says of its nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireNonce {
    Whole(u64),
    /// The lowest four bits of the path, and the lowest octets of the counter.
    Short {
        path: u8,
        counter: u16,
    },
}

impl DataHeader {
    /// None if it is no data message.
    pub(crate) fn read(datagram: &[u8]) -> Option<DataHeader> {
        if DatagramKind::from_datagram(datagram)? != DatagramKind::Data {
            return None;
        }
        let first = datagram[0];
        if first < 0x40 {
            let nonce = u64::from_le_bytes(to_array(&datagram[8..HEADER_BYTES]));
            let receiver = read_u32(datagram, 4);
            return Some(DataHeader { receiver, nonce: WireNonce::Whole(nonce), bytes: HEADER_BYTES });
        }
        let (field, index_bytes) = if first < 0x80 {
            (u32::from_be_bytes(to_array(&datagram[..LONG_INDEX_BYTES])) & !LONG_INDEX_FLAG, LONG_INDEX_BYTES)
        } else {
            let field = u16::from_be_bytes(to_array(&datagram[..SHORT_INDEX_BYTES])) & !SHORT_INDEX_FLAG;
            (field.into(), SHORT_INDEX_BYTES)
        };
        let bytes = index_bytes + SHORT_COUNTER_BYTES;
        let counter = u16::from_be_bytes(to_array(&datagram[index_bytes..bytes]));
        let path = (field & ((1 << SHORT_PATH_BITS) - 1)) as u8;
        let receiver = field >> SHORT_PATH_BITS;
        if bytes != short_header_bytes(receiver) {
            return None;
        }
        Some(DataHeader { receiver, nonce: WireNonce::Short { path, counter }, bytes })
    }
}

/// The header of a data message.
pub(crate) fn data_header(receiver: u32, nonce: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&DatagramKind::Data.type_prefix());
    header[4..8].copy_from_slice(&receiver.to_le_bytes());
    header[8..].copy_from_slice(&nonce.to_le_bytes());
    header
}

/// Bytes of the header of a numbered data message to this receiver.
pub(crate) fn short_header_bytes(receiver: u32) -> usize {
    if receiver < SHORT_INDICES { SHORTEST_HEADER_BYTES } else { SHORT_HEADER_BYTES }
}

/// The header of a numbered data message, to stand at the end of these bytes.
pub(crate) fn write_short_header(receiver: u32, path: u8, counter: u64, room: &mut [u8; SHORT_HEADER_BYTES]) {
    let path = u32::from(path) & ((1 << SHORT_PATH_BITS) - 1);
    let field = receiver << SHORT_PATH_BITS | path;
    let (index, low) = room.split_at_mut(LONG_INDEX_BYTES);
    if receiver < SHORT_INDICES {
        index[LONG_INDEX_BYTES - SHORT_INDEX_BYTES..].copy_from_slice(&(field as u16 | SHORT_INDEX_FLAG).to_be_bytes());
    } else {
        index.copy_from_slice(&(field | LONG_INDEX_FLAG).to_be_bytes());
    }
    low.copy_from_slice(&(counter as u16).to_be_bytes());
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
        assert_eq!(
            (of(0x80, SHORTEST_OVERHEAD_BYTES), of(0x40, 22)),
            (Some(DatagramKind::Data), Some(DatagramKind::Data))
        );
        assert_eq!((of(0xff, SHORTEST_OVERHEAD_BYTES - 1), of(0x7f, 21), of(0x3f, 100)), (None, None, None));
        let header = data_header(7, 9);
        assert_eq!(receiver_index(&[&header[..], &[0; TAG_BYTES]].concat()), Some(7));
    }

    #[test]
    fn a_short_header_says_the_index_and_what_cannot_be_known() {
        for (receiver, bytes) in [(0, 4), (SHORT_INDICES - 1, 4), (SHORT_INDICES, 6), (LONG_INDICES - 1, 6)] {
            let mut room = [0; SHORT_HEADER_BYTES];
            write_short_header(receiver, 0x7b, 0x1234_5678, &mut room);
            assert_eq!(short_header_bytes(receiver), bytes);
            let datagram = [&room[SHORT_HEADER_BYTES - bytes..], &[0; TAG_BYTES]].concat();
            let nonce = WireNonce::Short { path: 0xb, counter: 0x5678 };
            assert_eq!(DataHeader::read(&datagram), Some(DataHeader { receiver, nonce, bytes }));
        }
    }

    /// Two peers of different releases must agree on them.
    #[test]
    fn messages_have_the_lengths_that_they_always_had() {
        assert_eq!((INITIATION_BYTES, RESPONSE_BYTES, COOKIE_REPLY_BYTES, OVERHEAD_BYTES), (160, 104, 64, 32));
        assert_eq!((SHORTEST_HEADER_BYTES, SHORT_HEADER_BYTES, SHORTEST_OVERHEAD_BYTES), (4, 6, 20));
    }

    #[test]
    fn a_cookie_reply_is_shorter_than_what_it_answers() {
        const { assert!(COOKIE_REPLY_BYTES < RESPONSE_BYTES && RESPONSE_BYTES < INITIATION_BYTES) };
    }
}
