use super::bytes::Reader;
use super::error::{MessageError, VERSION};
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use std::num::NonZeroU16;

/// How many buckets there are that flows are hashed to: their numbers are below this.
pub const BUCKET_COUNT: u16 = 1024;

/// The first octet of a message of this kind.
pub(super) const fn first_octet(kind: u8) -> u8 {
    VERSION << 4 | kind
}

const DATA_KIND: u8 = 0;
const UNORDERED_FLAG: u8 = 0x10;
const REDUNDANT_FLAG: u8 = 0x20;
const ANSWER_FLAG: u8 = 0x40;
const SEGMENTS_FLAG: u8 = 0x80;
const PREDECESSOR_COUNT_MASK: u8 = 0x0f;

/// An IP packet and its place among those of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// What stands before the packet.
    pub header: DataHeader,
    /// What was sent before it over other paths.
    pub predecessors: Predecessors<'a>,
    /// From its IP header on.
    pub packet: &'a [u8],
}

/// What stands before the packet of a [`Data`] message, without the predecessors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataHeader {
    /// The bucket, below [`BUCKET_COUNT`].
    pub bucket: u16,
    /// The packet's number in the bucket; packets that need no order have numbers of their own.
    pub number: u32,
    /// The lowest 32 bits of the datagram's counter on its path.
    pub counter: u32,
    /// Whether it is to be delivered as it arrives.
    pub is_unordered: bool,
    /// Whether copies of it are sent, too.
    pub is_redundant: bool,
    /// Whether the far end is to report its arrival at once.
    pub requests_report: bool,
    /// Where the packet stands for segments of a TCP connection or a UDP flow: the payload of each but the last, in bytes.
    /// Its transport checksum means nothing then.
    pub segment_bytes: Option<NonZeroU16>,
}

/// The predecessors of a packet as they stand in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessors<'a>(&'a [[u8; Predecessors::SIZE]]);

impl Predecessors<'_> {
    const SIZE: usize = 4;
}

impl Iterator for Predecessors<'_> {
    type Item = Predecessor;

    fn next(&mut self) -> Option<Predecessor> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(Predecessor::from_bits(u32::from_be_bytes(*first)))
    }
}

impl DataHeader {
    /// Octets without predecessors.
    const SIZE: usize = 12;

    /// Octets before a packet of a bucket that has used all of so many paths.
    pub const fn size_for_paths(paths: usize) -> u32 {
        (Self::SIZE + Predecessors::SIZE * paths.saturating_sub(1)) as u32
    }

    /// What a buffer has to have free before a packet at most, for a packet that has predecessors on all other paths.
    pub const HEADROOM_BYTES: usize = Self::SIZE + Predecessors::SIZE * (PathId::MAX_PATHS - 1) + Self::SEGMENT_SIZE;
    /// Octets of the length of segments.
    const SEGMENT_SIZE: usize = 2;

    /// Writes all that stands before a packet to the end of `room`, the free part of a buffer before the packet, and
    /// returns where it begins.
    ///
    /// # Panics
    /// There are more predecessors than other paths, or `room` is shorter than the header; [`DataHeader::HEADROOM_BYTES`] is
    /// always enough.
    pub fn write_into_headroom<P>(&self, predecessors: P, room: &mut [u8]) -> usize
    where
        P: IntoIterator<Item = Predecessor, IntoIter: Clone>,
    {
        let predecessors = predecessors.into_iter();
        let count = predecessors.clone().count();
        assert!(count < PathId::MAX_PATHS, "{count} predecessors on other paths");
        let segment_size = self.segment_bytes.map_or(0, |_| Self::SEGMENT_SIZE);
        let start = room.len() - Self::SIZE - Predecessors::SIZE * count - segment_size;
        let (fixed, rest) = room[start..].split_at_mut(Self::SIZE);
        let (list, segment) = rest.split_at_mut(Predecessors::SIZE * count);
        fixed.copy_from_slice(&self.fixed_octets(count as u8));
        if let Some(bytes) = self.segment_bytes {
            segment.copy_from_slice(&bytes.get().to_be_bytes());
        }
        for (place, predecessor) in list.chunks_exact_mut(Predecessors::SIZE).zip(predecessors) {
            place.copy_from_slice(&predecessor.bits().to_be_bytes());
        }
        start
    }

    fn fixed_octets(&self, predecessors: u8) -> [u8; Self::SIZE] {
        let unordered = if self.is_unordered { UNORDERED_FLAG } else { 0 };
        let redundant = if self.is_redundant { REDUNDANT_FLAG } else { 0 };
        let answer = if self.requests_report { ANSWER_FLAG } else { 0 };
        let segments = if self.segment_bytes.is_some() { SEGMENTS_FLAG } else { 0 };
        let flags = unordered | redundant | answer | segments | predecessors;
        let [b0, b1] = self.bucket.to_be_bytes();
        let [n0, n1, n2, n3] = self.number.to_be_bytes();
        let [c0, c1, c2, c3] = self.counter.to_be_bytes();
        [first_octet(DATA_KIND), flags, b0, b1, n0, n1, n2, n3, c0, c1, c2, c3]
    }
}

impl<'a> Data<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, MessageError> {
        let flags = reader.u8()?;
        let bucket = reader.u16()?;
        if bucket >= BUCKET_COUNT {
            return Err(MessageError::Invalid { field: "bucket", value: bucket.into() });
        }
        let header = DataHeader {
            bucket,
            number: reader.u32()?,
            counter: reader.u32()?,
            is_unordered: flags & UNORDERED_FLAG != 0,
            is_redundant: flags & REDUNDANT_FLAG != 0,
            requests_report: flags & ANSWER_FLAG != 0,
            segment_bytes: None,
        };
        let list = reader.slice(usize::from(flags & PREDECESSOR_COUNT_MASK) * Predecessors::SIZE)?;
        let (predecessors, _) = list.as_chunks();
        let segment_bytes = if flags & SEGMENTS_FLAG != 0 {
            let invalid = MessageError::Invalid { field: "length of segments", value: 0 };
            Some(NonZeroU16::new(reader.u16()?).ok_or(invalid)?)
        } else {
            None
        };
        let header = DataHeader { segment_bytes, ..header };
        Ok(Data { header, predecessors: Predecessors(predecessors), packet: reader.0 })
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let mut room = [0; DataHeader::HEADROOM_BYTES];
        let start = self.header.write_into_headroom(self.predecessors, &mut room);
        to.extend_from_slice(&room[start..]);
        to.extend_from_slice(self.packet);
    }
}
