use crate::message::{DATA_KIND, MAX_DATA_BYTES, MAX_MESSAGE_BYTES};
use kumade_noise_session::SealError;
use kumade_noise_session::channel::{Channel, OVERHEAD_BYTES};
use kumade_noise_session::stream::PREFIX_BYTES;
use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;

/// Where bytes of a connection are read to, sealed in place as messages, and sent from, without being copied.
pub(crate) struct RecordBatch(Vec<u8>);

/// Messages of a batch.
const BATCH_MESSAGES: usize = 4;
/// Bytes of a full message's record.
const RECORD_BYTES: usize = MAX_MESSAGE_BYTES + OVERHEAD_BYTES;
/// Where in its record a message's data begins.
const DATA_OFFSET: usize = PREFIX_BYTES + 1;

impl RecordBatch {
    pub(crate) fn new() -> Self {
        RecordBatch(vec![0; BATCH_MESSAGES * RECORD_BYTES])
    }

    /// Reads as much as fits. Returns how many bytes that are, 0 at the end of what the connection sends.
    pub(crate) fn read(&mut self, mut from: &TcpStream) -> io::Result<usize> {
        let mut rest = self
            .0
            .chunks_exact_mut(RECORD_BYTES)
            .map(|record| IoSliceMut::new(&mut record[DATA_OFFSET..][..MAX_DATA_BYTES]));
        let mut parts: [IoSliceMut<'_>; BATCH_MESSAGES] =
            std::array::from_fn(|_| rest.next().unwrap_or(IoSliceMut::new(&mut [])));
        from.read_vectored(&mut parts)
    }

    /// Seals what was read last, `length` bytes. Returns the records, one behind the other.
    pub(crate) fn seal(&mut self, length: usize, channel: &mut Channel) -> Result<&[u8], SealError> {
        let mut end = 0;
        for (record, start) in self.0.chunks_exact_mut(RECORD_BYTES).zip((0..length).step_by(MAX_DATA_BYTES)) {
            let record = &mut record[..(length - start).min(MAX_DATA_BYTES) + 1 + OVERHEAD_BYTES];
            record[PREFIX_BYTES] = DATA_KIND;
            channel.seal(record)?;
            end += record.len();
        }
        Ok(&self.0[..end])
    }
}
