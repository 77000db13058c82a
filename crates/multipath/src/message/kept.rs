use super::bytes::Reader;
use super::error::MessageError;
use super::health::first_octet;
use crate::path::id::PathId;

/// The first octet's kind of a [`Kept`].
pub(super) const KEPT_KIND: u8 = 6;
/// The first octet's kind of a [`Message::ForgetHeaders`](super::Message::ForgetHeaders).
pub(super) const FORGET_KIND: u8 = 7;

/// Bits of a number of kept headers.
pub const KEPT_NUMBER_BITS: u32 = 14;

/// Packets whose headers have been kept, so that others can be compressed by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept<'a> {
    entries: &'a [[u8; KeptEntry::SIZE]],
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptEntry {
    /// The path over which it came.
    pub path: PathId,
    /// The lowest bits of its datagram's counter.
    pub counter: u32,
    /// The number that its headers have from now on, of [`KEPT_NUMBER_BITS`].
    pub number: u16,
}

impl KeptEntry {
    const SIZE: usize = 7;
    /// What is said in one message at most.
    pub const MAX_ENTRIES: usize = 64;

    /// As it is sent.
    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let ([a, b, c, d], [high, low]) = (self.counter.to_be_bytes(), self.number.to_be_bytes());
        [self.path.number(), a, b, c, d, high, low]
    }

    fn read([path, a, b, c, d, high, low]: [u8; Self::SIZE]) -> Option<Self> {
        let number = u16::from_be_bytes([high, low]);
        let entry = KeptEntry { path: PathId::new(path)?, counter: u32::from_be_bytes([a, b, c, d]), number };
        (number < 1 << KEPT_NUMBER_BITS).then_some(entry)
    }
}

impl<'a> Kept<'a> {
    /// Of entries as they are sent, from one to [`KeptEntry::MAX_ENTRIES`].
    pub(crate) fn new(entries: &'a [[u8; KeptEntry::SIZE]]) -> Self {
        Kept { entries }
    }

    /// In the order in which they came.
    pub fn entries(&self) -> impl Iterator<Item = KeptEntry> + use<'a> {
        self.entries.iter().filter_map(|entry| KeptEntry::read(*entry))
    }

    pub(super) fn parse(reader: Reader<'a>) -> Result<Self, MessageError> {
        let (entries, rest) = reader.0.as_chunks();
        if entries.is_empty() || !rest.is_empty() {
            return Err(MessageError::TooShort);
        }
        let kept = Kept { entries };
        if entries.len() > KeptEntry::MAX_ENTRIES || kept.entries().count() < entries.len() {
            return Err(MessageError::Invalid { field: "kept headers", value: entries.len() as u64 });
        }
        Ok(kept)
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.push(first_octet(KEPT_KIND));
        to.extend_from_slice(self.entries.as_flattened());
    }
}

pub(super) fn parse_forget(mut reader: Reader<'_>) -> Result<u16, MessageError> {
    let number = reader.u16()?;
    match reader.0.len() {
        0 if number < 1 << KEPT_NUMBER_BITS => Ok(number),
        0 => Err(MessageError::Invalid { field: "kept headers", value: number.into() }),
        more => Err(MessageError::TooLong(more)),
    }
}

pub(super) fn write_forget(number: u16, to: &mut Vec<u8>) {
    to.push(first_octet(FORGET_KIND));
    to.extend_from_slice(&number.to_be_bytes());
}
