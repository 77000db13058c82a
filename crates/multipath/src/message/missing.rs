use super::bytes::Reader;
use super::error::MessageError;
use super::health::first_octet;
use crate::path::id::PathId;
use crate::path::report::PathReport;

/// The first octet's kind of a [`Missing`].
pub(super) const MISSING_KIND: u8 = 5;

/// Datagrams that are missing on a path ([`MissingReport`](crate::MissingReport)). It may come over another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing<'a> {
    /// The path.
    pub path: PathId,
    /// The counter of the first of them.
    pub first_counter: u64,
    /// How far above it those of the others are, in network byte order; they rise.
    pub offsets: &'a [[u8; Missing::OFFSET_SIZE]],
}

impl<'a> Missing<'a> {
    /// Octets of an offset.
    const OFFSET_SIZE: usize = 2;
    /// Datagrams that are said to be missing at once, at most.
    pub const MAX_DATAGRAMS: usize = 64;

    /// The offsets of counters above the first of them.
    pub fn offsets_of(counters: &[u64]) -> Vec<[u8; Missing::OFFSET_SIZE]> {
        let first = counters.first().copied().unwrap_or_default();
        counters.iter().skip(1).map(|counter| (counter.wrapping_sub(first) as u16).to_be_bytes()).collect()
    }

    /// All counters.
    pub fn counters(&self) -> impl Iterator<Item = u64> + use<'a> {
        let first = self.first_counter;
        let others = self.offsets.iter().map(move |offset| first + u64::from(u16::from_be_bytes(*offset)));
        [first].into_iter().chain(others)
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, MessageError> {
        let number = reader.u8()?;
        let path = PathId::new(number).ok_or(MessageError::Invalid { field: "path", value: number.into() })?;
        let first_counter = reader.u64()?;
        if first_counter > PathReport::MAX_COUNT {
            return Err(MessageError::Invalid { field: "counter", value: first_counter });
        }
        let (offsets, rest) = reader.0.as_chunks::<{ Missing::OFFSET_SIZE }>();
        if !rest.is_empty() {
            return Err(MessageError::TooShort);
        }
        if offsets.len() >= Self::MAX_DATAGRAMS {
            return Err(MessageError::Invalid { field: "number of datagrams", value: 1 + offsets.len() as u64 });
        }
        let numbers = [0].into_iter().chain(offsets.iter().map(|offset| u16::from_be_bytes(*offset)));
        if !numbers.is_sorted_by(|one, next| one < next) {
            return Err(MessageError::Invalid { field: "order of counters", value: first_counter });
        }
        Ok(Missing { path, first_counter, offsets })
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.extend([first_octet(MISSING_KIND), self.path.number()]);
        to.extend_from_slice(&self.first_counter.to_be_bytes());
        to.extend_from_slice(self.offsets.as_flattened());
    }
}
