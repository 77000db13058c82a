//! The same datagrams over a byte stream: each as a record, its length before it. A stream is one more path of the same
//! sessions; handshakes, keys and replay windows are the [`Endpoint`](crate::Endpoint)'s and the
//! [`SessionTable`](crate::SessionTable)'s. The prefix is not secret and not authenticated: who alters it, or cuts the
//! stream, can only end it, for what comes out of step does not authenticate.

use crate::message::INITIATION_BYTES;
use std::ops::Range;
use thiserror::Error;

/// Bytes of a record's length, big-endian as Noise §13 recommends it.
pub const PREFIX_BYTES: usize = 2;
/// Bytes of a datagram in a record at most.
pub const MAX_RECORD_BYTES: usize = u16::MAX as usize;

/// The peer does not send records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A record without contents.
    #[error("a record of the stream is empty")]
    Empty,
    /// A record is longer than may come at this point.
    #[error("a record of the stream has {length} bytes, where {max} may come")]
    TooLong {
        /// Its length.
        length: usize,
        /// The most that may come.
        max: usize,
    },
}

/// The prefix of a record with a datagram of `length` bytes. To be written directly before the datagram.
///
/// # Errors
/// The datagram is empty, or longer than [`MAX_RECORD_BYTES`].
pub fn record_prefix(length: usize) -> Result<[u8; PREFIX_BYTES], RecordError> {
    match u16::try_from(length) {
        Ok(0) => Err(RecordError::Empty),
        Ok(length) => Ok(length.to_be_bytes()),
        Err(_) => Err(RecordError::TooLong { length, max: MAX_RECORD_BYTES }),
    }
}

/// Finds the records in what arrives, in whatever pieces.
///
/// **Loop contract.** Read into [`free_space`](Self::free_space), say how much with [`add_filled`](Self::add_filled), and call
/// [`next_record`](Self::next_record) until it answers `None`; then read again. After an error, or the first record that
/// does not authenticate, the stream is over.
///
/// Before a peer has shown who it is, no more than an initiation is held for it; [`raise_record_limit`](Self::raise_record_limit) raises
/// the limit. It has no memory before something is to be read, nor [later](Self::release_if_empty) while nothing is there.
#[derive(Debug)]
pub struct RecordReader {
    /// Received bytes, and room for more behind them.
    buffer: Vec<u8>,
    received: Range<usize>,
    max_record_bytes: usize,
}

impl RecordReader {
    /// At the beginning of a stream, which has to be a handshake message.
    pub fn new() -> Self {
        let mut reader = RecordReader { buffer: Vec::new(), received: 0..0, max_record_bytes: 0 };
        reader.set_max_record_bytes(INITIATION_BYTES);
        reader
    }

    /// Takes records of up to `max` bytes, [`MAX_RECORD_BYTES`] at most, from now on: the peer is known. The reader holds twice
    /// as much.
    pub fn raise_record_limit(&mut self, max: usize) {
        self.set_max_record_bytes(max.clamp(self.max_record_bytes, MAX_RECORD_BYTES));
    }

    /// Where the next bytes of the stream are to be read into. It is empty only while whole records stand there that
    /// have not been taken.
    pub fn free_space(&mut self) -> &mut [u8] {
        self.buffer.resize(2 * (PREFIX_BYTES + self.max_record_bytes), 0);
        if self.received.start > 0 && self.buffer.len() - self.received.end < self.max_record_bytes {
            self.buffer.copy_within(self.received.clone(), 0);
            self.received = 0..self.received.len();
        }
        &mut self.buffer[self.received.end..]
    }

    /// Says that the first `length` bytes of [`free_space`](Self::free_space) have been filled; never more than it has.
    pub fn add_filled(&mut self, length: usize) {
        self.received.end = self.received.end.saturating_add(length).min(self.buffer.len());
    }

    /// The next datagram, once it is there as a whole: to be opened in place, or given to the endpoint.
    ///
    /// # Errors
    /// An empty or too long record: the stream is over.
    pub fn next_record(&mut self) -> Result<Option<&mut [u8]>, RecordError> {
        let bytes = &self.buffer[self.received.clone()];
        let Some(prefix) = bytes.first_chunk() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*prefix));
        if length == 0 {
            return Err(RecordError::Empty);
        }
        if length > self.max_record_bytes {
            return Err(RecordError::TooLong { length, max: self.max_record_bytes });
        }
        if bytes.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        let start = self.received.start + PREFIX_BYTES;
        self.received.start = start + length;
        Ok(Some(&mut self.buffer[start..start + length]))
    }

    /// Frees its memory, if all that was received has been taken: for streams that are silent for long.
    pub fn release_if_empty(&mut self) {
        if self.received.is_empty() {
            (self.buffer, self.received) = (Vec::new(), 0..0);
        }
    }

    /// Bytes of memory that it has.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// What has been received and not been taken: for a message that says why a stream is over.
    pub fn received(&self) -> &[u8] {
        &self.buffer[self.received.clone()]
    }

    fn set_max_record_bytes(&mut self, max: usize) {
        self.max_record_bytes = max;
    }
}

impl Default for RecordReader {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(reader: &mut RecordReader, mut bytes: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, RecordError> {
        let mut records = Vec::new();
        let mut pieces = pieces.iter().cycle();
        while !bytes.is_empty() {
            let piece = pieces.next().map_or(1, |&piece| piece.max(1));
            let space = reader.free_space();
            let length = piece.min(space.len()).min(bytes.len());
            assert!(length > 0, "there is always room");
            space[..length].copy_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
            reader.add_filled(length);
            while let Some(record) = reader.next_record()? {
                records.push(record.to_vec());
            }
        }
        Ok(records)
    }

    #[test]
    fn a_stranger_cannot_make_the_reader_hold_more_than_an_initiation() {
        let mut reader = RecordReader::new();
        assert_eq!(records(&mut reader, &[0, 0], &[1]), Err(RecordError::Empty));
        let mut reader = RecordReader::new();
        let too_long = RecordError::TooLong { length: 0x4745, max: INITIATION_BYTES };
        assert_eq!(records(&mut reader, b"GET / HTTP/1.1", &[1]), Err(too_long));
        reader.raise_record_limit(usize::MAX);
        reader.free_space();
        assert_eq!(reader.buffer.len(), 2 * (PREFIX_BYTES + MAX_RECORD_BYTES));
        assert_eq!(record_prefix(0), Err(RecordError::Empty));
        assert!(record_prefix(MAX_RECORD_BYTES).is_ok() && record_prefix(MAX_RECORD_BYTES + 1).is_err());
    }

    #[test]
    fn the_longest_record_passes_and_what_was_not_taken_can_be_seen() {
        let mut reader = RecordReader::new();
        let record = [&record_prefix(INITIATION_BYTES).unwrap()[..], &[7; INITIATION_BYTES]].concat();
        assert_eq!(records(&mut reader, &record, &[INITIATION_BYTES]), Ok(vec![vec![7; INITIATION_BYTES]]));
        reader.free_space()[..3].copy_from_slice(&[0, 9, 5]);
        reader.add_filled(3);
        assert_eq!(reader.next_record(), Ok(None));
        assert_eq!(reader.received(), [0, 9, 5]);
    }

    #[test]
    fn a_silent_stream_has_no_memory() {
        let mut reader = RecordReader::new();
        assert_eq!(reader.held_bytes(), 0);
        assert_eq!(records(&mut reader, &[0, 2, 7, 7], &[4]), Ok(vec![vec![7, 7]]));
        reader.free_space()[0] = 0;
        reader.add_filled(1);
        reader.release_if_empty();
        assert!(reader.held_bytes() > 0 && reader.received() == [0]);
        assert_eq!(records(&mut reader, &[1, 9], &[2]), Ok(vec![vec![9]]));
        reader.release_if_empty();
        assert_eq!(reader.held_bytes(), 0);
        assert_eq!(records(&mut reader, &[0, 1, 5], &[1]), Ok(vec![vec![5]]));
    }

    proptest! {
        #[test]
        fn records_come_out_as_they_went_in(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=300), 0..20),
            pieces in prop::collection::vec(1usize..900, 1..5),
        ) {
            let stream: Vec<u8> =
                sent.iter().flat_map(|record| [&record_prefix(record.len()).unwrap()[..], record].concat()).collect();
            let mut reader = RecordReader::new();
            reader.raise_record_limit(300);
            prop_assert_eq!(records(&mut reader, &stream, &pieces), Ok(sent));
        }
    }
}
