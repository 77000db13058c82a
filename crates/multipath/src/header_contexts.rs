//! Headers of hosts' packets are sent as what distinguishes them from those of an earlier packet of their flow
//! ([`kumade_packet::header_compression`]), where both ends have agreed on it in their handshake.
//!
//! The sending end marks a packet whose headers are to be kept. The far end keeps them, gives them a number, and says so
//! ([`Kept`](crate::message::Kept)); from then on, packets of the flow can be compressed by them. What has been kept never changes: a packet
//! that is lost, late or repeated on another path is of no consequence for others. After some time another packet takes its place, so
//! that distances stay short; if that or what is said of it is lost, the earlier one goes on.
//!
//! # Format
//!
//! By the first bits of what stands in a [`Data`](crate::message::Data) message in the place of the packet:
//!
//! | first bits | what follows |
//! | --- | --- |
//! | 0100, 0110 | the packet, as it is: this is the version of its header |
//! | 0101, 0111 | the same of a packet whose headers are to be kept; 0001 is to be subtracted from the version |
//! | 0000, 0010, 0001, 0011 | the same as the four above of a packet whose transport checksum is partial; 0100 is to be added |
//! | 10 | 14 bits: the number of the kept headers; the compressed ones and the payload |
//! | 11 | the same of a packet whose headers are to be kept |
//!
//! How many packets later than the kept ones a packet is, the lowest bits of their numbers in the bucket say
//! ([`DataHeader::number`](crate::message::DataHeader::number)).
//!
//! # Partial checksums
//!
//! Segments of what a host has sent as one packet leave without their own transport checksums, where both ends have agreed on that, too:
//! the keys of the session protect them, and the host at the far end gets them merged again, with a checksum that is left to its
//! network card. What is on the way in a sealed datagram need not be summed up twice.
//!
//! # Limits
//!
//! The receiving end keeps [`MAX_KEPT`] headers, the last ones; those before are forgotten. The sending end uses none any more once
//! [half as many](compressor::MAX_LATER_REQUESTS) have been marked since: what would still be underway by then has been overtaken by
//! all of them. It marks [80 a second](compressor::REQUESTS_PER_SECOND) at most, so that a number means other headers at the earliest when
//! a datagram that names it can't be opened any more, since its keys have ended.
//!
//! A receiving end that lacks the headers that a packet names says so ([`ForgetHeaders`](crate::Message::ForgetHeaders)). Where the
//! sending end compresses by these now, the far end has lost them, and all begins anew; where not, a late packet was lost, and nothing
//! changes. What nobody has used for some time is dropped by both ends, by the sending end first.
//!
//! # Lengths
//!
//! The kernel takes many datagrams at once where they are of one length (UDP_SEGMENT). Distances of full segments (time stamps, sequence number,
//! identification) therefore take as many octets as those of any other flow of the peer need, as its references are younger or older, and as it has sent
//! shorter segments since then or not.

pub(crate) mod compressor;
pub(crate) mod decompressor;
#[cfg(test)]
mod tests;

use crate::message::{KEPT_NUMBER_BITS, NUMBER_BITS};
use kumade_units::Span;

/// How headers of hosts' packets are sent in a session: the less of what both ends can, [`HeaderCompression::agreed`] by their handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderCompression {
    /// As they are.
    Off,
    /// Compressed, with all checksums.
    WithChecksums,
    /// Compressed, and packets may have partial transport checksums ([`PARTIAL_CHECKSUM`](kumade_packet::offload::PARTIAL_CHECKSUM)).
    #[default]
    PartialChecksums,
}

impl HeaderCompression {
    /// The bits of a session's capabilities: headers are compressed; checksums may be partial where they are.
    const COMPRESSION: u8 = 1;
    const PARTIAL: u8 = 2;

    /// What an end that can do this says in its handshake.
    pub(crate) fn capabilities(self) -> u8 {
        match self {
            HeaderCompression::Off => 0,
            HeaderCompression::WithChecksums => Self::COMPRESSION,
            HeaderCompression::PartialChecksums => Self::COMPRESSION | Self::PARTIAL,
        }
    }

    /// By the capabilities that both ends have.
    pub(crate) fn agreed(capabilities: u8) -> Self {
        match (capabilities & Self::COMPRESSION != 0, capabilities & Self::PARTIAL != 0) {
            (false, _) => HeaderCompression::Off,
            (true, false) => HeaderCompression::WithChecksums,
            (true, true) => HeaderCompression::PartialChecksums,
        }
    }

    pub(crate) fn is_on(self) -> bool {
        self != HeaderCompression::Off
    }

    pub(crate) fn takes_partial_checksums(self) -> bool {
        self == HeaderCompression::PartialChecksums
    }
}

/// Headers that are kept of a peer's packets: some 150 kB.
pub(crate) const MAX_KEPT: usize = 1024;
/// That something is lacking is said no more often.
const FORGET_INTERVAL: Span = Span::from_millis(100);
const KEPT_NUMBER_MASK: u16 = (1 << KEPT_NUMBER_BITS) - 1;

/// What compressed headers are shorter by, in octets: of 52 of a segment with data (IPv4, and TCP with time stamps; the test of a bulk flow
/// holds it). With twenty flows, or round trips of 150 ms, it is two less, since time stamps take two octets each.
pub const SAVED_SEGMENT_BYTES: u32 = 45;
/// Of those of a segment that acknowledges.
pub const SAVED_ACKNOWLEDGMENT_BYTES: u32 = 40;
/// Of 28 of a datagram (IPv4 and UDP).
pub const SAVED_DATAGRAM_BYTES: u32 = 23;

/// In the first octet: the packet is compressed; its headers are to be kept.
const COMPRESSED: u8 = 0x80;
const COMPRESSED_KEEP: u8 = 0x40;
/// The same of one that is not compressed, beside the version of IP.
const PLAIN_KEEP: u8 = 0x10;
/// Both versions have it; it is left out where the checksum is partial.
const PLAIN_WHOLE: u8 = 0x40;

/// How many packets lie between two of a bucket, by the lowest bits of their numbers.
fn packets_later(number: u32, reference: u32) -> i32 {
    let unused = u32::BITS - NUMBER_BITS;
    (number.wrapping_sub(reference) << unused) as i32 >> unused
}
