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
/// One with any predecessors.
const LIST_FORM: u8 = 3;
const UNORDERED_FORM: u8 = 4;
/// An octet follows, which has the form and what is rare.
const EXTENDED_FORM: u8 = 5;
/// In that octet.
const REDUNDANT_FLAG: u8 = 0x10;
const SEGMENTS_FLAG: u8 = 0x20;
const EXTENDED_FORM_MASK: u8 = 0x0f;

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
    /// Whether copies of it are sent, too.
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

    /// Octets before a packet of a bucket that has used all of so many paths, where no copies are sent and it stands for itself.
    pub const fn size_for_paths(paths: usize) -> u32 {
        let predecessors = match paths {
            0 | 1 => 0,
            2 => ONLY_SIZE,
            more => 1 + LISTED_SIZE * (more - 1),
        };
        (Self::SIZE + predecessors) as u32
    }

    /// What a buffer has to have free before a packet at most, for a packet that has predecessors on all other paths.
    pub const HEADROOM_BYTES: usize = Self::SIZE + 1 + 1 + LISTED_SIZE * (PathId::MAX_PATHS - 1) + Self::SEGMENT_SIZE;
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
        let (form, list_size) = match (self.is_unordered, count, only) {
            (true, ..) => (UNORDERED_FORM, 0),
            (_, 0, _) => (ORDERED_FORM, 0),
            (.., Some(only)) => (PREDECESSOR_FORM + only.path().number(), ONLY_SIZE),
            (.., None) => (LIST_FORM, 1 + LISTED_SIZE * count),
        };
        let extension = self.extension(form);
        let segment_size = self.segment_bytes.map_or(0, |_| Self::SEGMENT_SIZE);
        let start = room.len() - Self::SIZE - usize::from(extension.is_some()) - list_size - segment_size;
        let (fixed, rest) = room[start..].split_at_mut(Self::SIZE);
        fixed.copy_from_slice(&self.first_bits(if extension.is_some() { EXTENDED_FORM } else { form }).to_be_bytes());
        let (extended, rest) = rest.split_at_mut(usize::from(extension.is_some()));
        extended.iter_mut().zip(extension).for_each(|(place, octet)| *place = octet);
        let (list, segment) = rest.split_at_mut(list_size);
        if let Some(bytes) = self.segment_bytes {
            segment.copy_from_slice(&bytes.get().to_be_bytes());
        }
        match only {
            Some(only) => list.copy_from_slice(&only.lowest().to_be_bytes()),
            None => {
                let Some((first, list)) = list.split_first_mut() else { return start };
                *first = count as u8;
                for (place, predecessor) in list.chunks_exact_mut(LISTED_SIZE).zip(&mut predecessors) {
                    place[0] = predecessor.path().number();
                    place[1..].copy_from_slice(&predecessor.lowest().to_be_bytes());
                }
            }
        }
        start
    }

    fn first_bits(&self, form: u8) -> u32 {
        let report = if self.requests_report { REPORT_FLAG } else { 0 };
        u32::from(form) << FORM_SHIFT | report | u32::from(self.bucket) << NUMBER_BITS | self.number & NUMBER_MASK
    }

    /// The octet that follows where there is more to say.
    fn extension(&self, form: u8) -> Option<u8> {
        let redundant = if self.is_redundant { REDUNDANT_FLAG } else { 0 };
        let segments = if self.segment_bytes.is_some() { SEGMENTS_FLAG } else { 0 };
        (redundant | segments != 0).then_some(redundant | segments | form)
    }
}

impl<'a> Data<'a> {
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, MessageError> {
        let first = reader.u32()?;
        let mut form = (first >> FORM_SHIFT) as u8;
        let mut flags = 0;
        if form == EXTENDED_FORM {
            let octet = reader.u8()?;
            (flags, form) = (octet & !EXTENDED_FORM_MASK, octet & EXTENDED_FORM_MASK);
            if flags == 0 || flags & !(REDUNDANT_FLAG | SEGMENTS_FLAG) != 0 {
                return Err(MessageError::Invalid { field: "extension", value: octet.into() });
            }
        }
        let predecessors = Predecessors::parse(form, &mut reader)?;
        let segment_bytes = if flags & SEGMENTS_FLAG != 0 {
            let invalid = MessageError::Invalid { field: "length of segments", value: 0 };
            Some(NonZeroU16::new(reader.u16()?).ok_or(invalid)?)
        } else {
            None
        };
        let header = DataHeader {
            bucket: (first >> NUMBER_BITS) as u16 % BUCKET_COUNT,
            number: first & NUMBER_MASK,
            is_unordered: form == UNORDERED_FORM,
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
    fn parse(form: u8, reader: &mut Reader<'a>) -> Result<Self, MessageError> {
        match form {
            ORDERED_FORM | UNORDERED_FORM => Ok(Predecessors::default()),
            PREDECESSOR_FORM..LIST_FORM => {
                let path = PathId::from_low_bits(form - PREDECESSOR_FORM);
                Ok(Predecessors { only: Some(Predecessor::from_lowest(path, reader.u16()?)), list: &[] })
            }
            LIST_FORM => {
                let count = reader.u8()?;
                let invalid = |value: u8| MessageError::Invalid { field: "list of predecessors", value: value.into() };
                if count == 0 || usize::from(count) >= PathId::MAX_PATHS {
                    return Err(invalid(count));
                }
                let (list, _) = reader.slice(usize::from(count) * LISTED_SIZE)?.as_chunks::<LISTED_SIZE>();
                let path = list.iter().map(|[path, ..]| *path).max().unwrap_or(0);
                // A single one on these paths has a form of its own.
                if usize::from(path) >= PathId::MAX_PATHS || (count == 1 && path < 2) {
                    return Err(invalid(path));
                }
                Ok(Predecessors { only: None, list })
            }
            _ => Err(MessageError::Invalid { field: "form", value: form.into() }),
        }
    }
}
