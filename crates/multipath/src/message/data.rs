use super::bytes::Reader;
use super::error::MessageError;
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use std::num::NonZeroU16;

/// How many buckets there are that flows are hashed to: their numbers are below this.
pub const BUCKET_COUNT: u16 = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 10;

/// Bits of a packet's number that its message has: those of [`DataHeader::number`].
pub const NUMBER_BITS: u32 = 18;
const NUMBER_MASK: u32 = (1 << NUMBER_BITS) - 1;

/// Where the form of a data message stands in its first 32 bits.
const FORM_SHIFT: u32 = 29;
const REPORT_FLAG: u32 = 1 << (NUMBER_BITS + BUCKET_BITS);
/// The form in the first octet of messages that are no data.
pub(super) const OTHER_FORM: u8 = 7 << 5;

/// An ordered packet without predecessors.
const ORDERED_FORM: u8 = 0;
/// One with a predecessor on path 0, or, if it is one more, on path 1.
const PREDECESSOR_FORM: u8 = 1;
/// The same of one that is redundant. Where there are two paths, it is as long as one that is not: what the longest packets pass by,
/// their copies do, too.
const REDUNDANT_PREDECESSOR_FORM: u8 = 3;
const UNORDERED_FORM: u8 = 5;
/// An octet follows, which has flags and the number of predecessors in a list.
const EXTENDED_FORM: u8 = 6;
/// In that octet.
const REDUNDANT_FLAG: u8 = 0x10;
const SEGMENTS_FLAG: u8 = 0x20;
const UNORDERED_FLAG: u8 = 0x40;
const COUNT_MASK: u8 = 0x0f;

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
    /// The lowest [`NUMBER_BITS`] bits of the packet's number in the bucket; packets that need no order have numbers of their own.
    pub number: u32,
    /// Whether it is to be delivered as it arrives. It has no predecessors then.
    pub is_unordered: bool,
    /// Whether copies of it are sent, too, or it is repeated: another one with its number may have come.
    pub is_redundant: bool,
    /// Whether the far end is to report its arrival at once.
    pub requests_report: bool,
    /// Where the packet stands for segments of a TCP connection or a UDP flow: the payload of each but the last, in bytes.
    /// Its transport checksum means nothing then.
    pub segment_bytes: Option<NonZeroU16>,
}

/// The predecessors of a packet as they stand in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Predecessors<'a> {
    only: Option<Predecessor>,
    list: &'a [[u8; LISTED_SIZE]],
}

/// Octets of a predecessor in a list: its path, and the lowest of its counter.
const LISTED_SIZE: usize = 3;
/// Octets of a predecessor whose path the form says.
const ONLY_SIZE: usize = 2;

impl Iterator for Predecessors<'_> {
    type Item = Predecessor;

    fn next(&mut self) -> Option<Predecessor> {
        if let Some(only) = self.only.take() {
            return Some(only);
        }
        let ([path, lowest @ ..], rest) = self.list.split_first()?;
        self.list = rest;
        Some(Predecessor::from_lowest(PathId::from_low_bits(*path), u16::from_be_bytes(*lowest)))
    }
}

impl DataHeader {
    /// Octets without predecessors.
    const SIZE: usize = 4;

    /// Octets before a packet of a bucket that has used all of so many paths, where it stands for itself: the most that a packet has, also
    /// one that is repeated, or, where there are two paths or more, of which copies are sent.
    pub const fn size_for_paths(paths: usize) -> u32 {
        let predecessors = match paths {
            0 | 1 => 0,
            2 => ONLY_SIZE,
            more => 1 + LISTED_SIZE * (more - 1),
        };
        (Self::SIZE + predecessors) as u32
    }

    /// What a buffer has to have free before a packet at most, for a packet that has predecessors on all other paths.
    pub const HEADROOM_BYTES: usize = Self::SIZE + 1 + LISTED_SIZE * (PathId::MAX_PATHS - 1) + Self::SEGMENT_SIZE;
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
        let mut predecessors = predecessors.into_iter();
        let count = if self.is_unordered { 0 } else { predecessors.clone().count() };
        assert!(count < PathId::MAX_PATHS, "{count} predecessors on other paths");
        let only = predecessors.clone().next().filter(|only| count == 1 && only.path().number() < 2);
        let (form, only) = match (self.is_unordered, only.filter(|_| self.segment_bytes.is_none())) {
            (true, _) if !self.is_extended() => (UNORDERED_FORM, None),
            (false, None) if count == 0 && !self.is_extended() => (ORDERED_FORM, None),
            (false, Some(only)) => {
                let first = if self.is_redundant { REDUNDANT_PREDECESSOR_FORM } else { PREDECESSOR_FORM };
                (first + only.path().number(), Some(only))
            }
            _ => (EXTENDED_FORM, None),
        };
        let extension_size = if form == EXTENDED_FORM { 1 + LISTED_SIZE * count } else { 0 };
        let segment_size = self.segment_bytes.map_or(0, |_| Self::SEGMENT_SIZE);
        let start = room.len() - Self::SIZE - extension_size - only.map_or(0, |_| ONLY_SIZE) - segment_size;
        let (fixed, rest) = room[start..].split_at_mut(Self::SIZE);
        fixed.copy_from_slice(&self.first_bits(form).to_be_bytes());
        if let Some(only) = only {
            rest.copy_from_slice(&only.lowest().to_be_bytes());
            return start;
        }
        let (extension, segment) = rest.split_at_mut(extension_size);
        if let Some(bytes) = self.segment_bytes {
            segment.copy_from_slice(&bytes.get().to_be_bytes());
        }
        let Some((first, list)) = extension.split_first_mut() else { return start };
        *first = self.flags() | count as u8;
        for (place, predecessor) in list.chunks_exact_mut(LISTED_SIZE).zip(&mut predecessors) {
            place[0] = predecessor.path().number();
            place[1..].copy_from_slice(&predecessor.lowest().to_be_bytes());
        }
        start
    }

    fn first_bits(&self, form: u8) -> u32 {
        let report = if self.requests_report { REPORT_FLAG } else { 0 };
        u32::from(form) << FORM_SHIFT | report | u32::from(self.bucket) << NUMBER_BITS | self.number & NUMBER_MASK
    }

    /// Whether there is more to say than its order.
    fn is_extended(&self) -> bool {
        self.is_redundant || self.segment_bytes.is_some()
    }

    /// Those of an extended form.
    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        flag(self.is_redundant, REDUNDANT_FLAG)
            | flag(self.segment_bytes.is_some(), SEGMENTS_FLAG)
            | flag(self.is_unordered, UNORDERED_FLAG)
    }
}

impl<'a> Data<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, MessageError> {
        let first = reader.u32()?;
        let (flags, predecessors) = match (first >> FORM_SHIFT) as u8 {
            ORDERED_FORM => (0, Predecessors::default()),
            UNORDERED_FORM => (UNORDERED_FLAG, Predecessors::default()),
            form @ PREDECESSOR_FORM..REDUNDANT_PREDECESSOR_FORM => {
                (0, Predecessors::parse_only(form - PREDECESSOR_FORM, &mut reader)?)
            }
            form @ REDUNDANT_PREDECESSOR_FORM..UNORDERED_FORM => {
                (REDUNDANT_FLAG, Predecessors::parse_only(form - REDUNDANT_PREDECESSOR_FORM, &mut reader)?)
            }
            EXTENDED_FORM => {
                let octet = reader.u8()?;
                (octet & !COUNT_MASK, Predecessors::parse_list(octet, &mut reader)?)
            }
            form => return Err(MessageError::Invalid { field: "form", value: form.into() }),
        };
        let segment_bytes = if flags & SEGMENTS_FLAG != 0 {
            let invalid = MessageError::Invalid { field: "length of segments", value: 0 };
            Some(NonZeroU16::new(reader.u16()?).ok_or(invalid)?)
        } else {
            None
        };
        let header = DataHeader {
            bucket: (first >> NUMBER_BITS) as u16 % BUCKET_COUNT,
            number: first & NUMBER_MASK,
            is_unordered: flags & UNORDERED_FLAG != 0,
            is_redundant: flags & REDUNDANT_FLAG != 0,
            requests_report: first & REPORT_FLAG != 0,
            segment_bytes,
        };
        Ok(Data { header, predecessors, packet: reader.0 })
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let mut room = [0; DataHeader::HEADROOM_BYTES];
        let start = self.header.write_into_headroom(self.predecessors, &mut room);
        to.extend_from_slice(&room[start..]);
        to.extend_from_slice(self.packet);
    }
}

impl<'a> Predecessors<'a> {
    fn parse_only(path: u8, reader: &mut Reader<'a>) -> Result<Self, MessageError> {
        let path = PathId::from_low_bits(path);
        Ok(Predecessors { only: Some(Predecessor::from_lowest(path, reader.u16()?)), list: &[] })
    }

    /// Those behind this octet. What has a form of its own is not said by it.
    fn parse_list(octet: u8, reader: &mut Reader<'a>) -> Result<Self, MessageError> {
        let (flags, count) = (octet & !COUNT_MASK, octet & COUNT_MASK);
        let is_known = flags & !(REDUNDANT_FLAG | SEGMENTS_FLAG | UNORDERED_FLAG) == 0;
        let is_needed = count > 0 || flags & (REDUNDANT_FLAG | SEGMENTS_FLAG) != 0;
        if !is_known || !is_needed || (flags & UNORDERED_FLAG != 0 && count > 0) {
            return Err(MessageError::Invalid { field: "extension", value: octet.into() });
        }
        let (list, _) = reader.slice(usize::from(count) * LISTED_SIZE)?.as_chunks::<LISTED_SIZE>();
        let path = list.iter().map(|[path, ..]| *path).max().unwrap_or(0);
        // A single one on these paths has a form of its own.
        if usize::from(path) >= PathId::MAX_PATHS || (count == 1 && path < 2 && flags & SEGMENTS_FLAG == 0) {
            return Err(MessageError::Invalid { field: "list of predecessors", value: path.into() });
        }
        Ok(Predecessors { only: None, list })
    }
}
