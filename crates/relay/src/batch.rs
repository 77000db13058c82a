use crate::message::{DATA, MAX_DATA, MAX_MESSAGE};
use kumade_noise_session::SealError;
use kumade_noise_session::channel::{Channel, OVERHEAD};
use kumade_noise_session::stream::PREFIX;
use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;

/// Where bytes of a connection are read to, sealed in place as messages, and sent from, without being copied.
pub(crate) struct Batch(Vec<u8>);

/// Messages of a batch.
const MESSAGES: usize = 4;
/// Bytes of a full message's record.
const RECORD: usize = MAX_MESSAGE + OVERHEAD;
/// Where in its record a message's data begins.
const BEGIN: usize = PREFIX + 1;

impl Batch {
    pub(crate) fn new() -> Self {
        Batch(vec![0; MESSAGES * RECORD])
    }

    /// Reads as much as fits. Returns how many bytes that are, 0 at the end of what the connection sends.
    pub(crate) fn read(&mut self, mut from: &TcpStream) -> io::Result<usize> {
        let mut rest = self.0.chunks_exact_mut(RECORD).map(|record| IoSliceMut::new(&mut record[BEGIN..][..MAX_DATA]));
        let mut parts: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| rest.next().unwrap_or(IoSliceMut::new(&mut [])));
        from.read_vectored(&mut parts)
    }

    /// Seals what was read last, `length` bytes. Returns the records, one behind the other.
    pub(crate) fn seal(&mut self, length: usize, channel: &mut Channel) -> Result<&[u8], SealError> {
        let mut end = 0;
        for (record, start) in self.0.chunks_exact_mut(RECORD).zip((0..length).step_by(MAX_DATA)) {
            let record = &mut record[..(length - start).min(MAX_DATA) + 1 + OVERHEAD];
            record[PREFIX] = DATA;
            channel.seal(record)?;
            end += record.len();
        }
        Ok(&self.0[..end])
    }
}
