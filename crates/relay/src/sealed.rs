use crate::message::{MAX_MESSAGE_BYTES, Message};
use crate::plain;
use crate::stream_end::StreamEndReason;
use kumade_net::tcp::{self, AdaptiveMaxRto, RtoLimits};
use kumade_noise_session::TAG_BYTES;
use kumade_noise_session::channel::{Channel, OVERHEAD_BYTES};
use kumade_noise_session::stream::{PREFIX_BYTES, RecordReader};
use std::io::{self, Read};
use std::net::TcpStream;

/// The connection to the other end, once the handshake is done.
pub(crate) struct SealedStream {
    pub(crate) stream: TcpStream,
    pub(crate) channel: Channel,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    max_rto: Option<AdaptiveMaxRto>,
    reader: RecordReader,
    /// Records that the kernel has not taken yet.
    pending: Vec<u8>,
    written_bytes: usize,
}

/// What reading has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadResult {
    Progress,
    WouldBlock,
}

impl SealedStream {
    /// `reader` has seen the handshake.
    ///
    /// # Errors
    /// The connection is no more.
    pub(crate) fn new(
        stream: TcpStream,
        channel: Channel,
        mut reader: RecordReader,
        rto: RtoLimits,
    ) -> io::Result<Self> {
        tcp::limit_unsent(&stream, plain::MAX_UNSENT_BYTES)?;
        rto.apply(&stream)?;
        reader.raise_record_limit(MAX_MESSAGE_BYTES + TAG_BYTES);
        Ok(SealedStream {
            stream,
            channel,
            is_readable: true,
            is_writable: true,
            max_rto: rto.connection_max_rto(),
            reader,
            pending: Vec::new(),
            written_bytes: 0,
        })
    }

    /// The text of the next message, if it is there as a whole.
    pub(crate) fn next_message(&mut self) -> Result<Option<&[u8]>, StreamEndReason> {
        match self.reader.next_record()? {
            Some(record) => Ok(Some(self.channel.open(record)?)),
            None => Ok(None),
        }
    }

    /// Has the greatest retransmission timeout follow the round trips. To be called now and then.
    pub(crate) fn update_retransmission_timeout(&mut self) {
        if let (Some(max_rto), Ok(state)) = (&mut self.max_rto, tcp::send_state(&self.stream)) {
            max_rto.update(&self.stream, state.round_trip);
        }
    }

    /// Reads what fits.
    pub(crate) fn read_records(&mut self) -> Result<ReadResult, StreamEndReason> {
        let filled = read_into(&self.stream, &mut self.reader)?;
        self.is_readable = filled == ReadResult::Progress;
        Ok(filled)
    }

    /// Frees what is not in use.
    pub(crate) fn release_memory(&mut self) {
        self.reader.release_if_empty();
    }

    /// Bytes that are held for it, here and in the kernel.
    pub(crate) fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.pending.capacity() + plain::kernel_bytes(&self.stream)
    }

    /// Adds a message to what is to be sent.
    pub(crate) fn queue_message(&mut self, message: &Message<'_>) -> Result<(), StreamEndReason> {
        let text = message.encode();
        let mut record = vec![0; text.len() + OVERHEAD_BYTES];
        record[PREFIX_BYTES..][..text.len()].copy_from_slice(&text);
        self.channel.seal(&mut record)?;
        self.pending.extend(record);
        Ok(())
    }

    /// Sends records; what the kernel does not take is kept. To be called when nothing is pending.
    pub(crate) fn send(&mut self, records: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while self.is_writable && sent < records.len() {
            sent += plain::write_available(&self.stream, &records[sent..], &mut self.is_writable)?;
        }
        self.pending.extend_from_slice(&records[sent..]);
        Ok(())
    }

    /// Sends what is pending. Returns whether nothing is any more.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.written_bytes < self.pending.len() {
            if !self.is_writable {
                return Ok(false);
            }
            self.written_bytes +=
                plain::write_available(&self.stream, &self.pending[self.written_bytes..], &mut self.is_writable)?;
        }
        (self.pending, self.written_bytes) = (Vec::new(), 0);
        Ok(true)
    }
}

/// Reads until there is a record of a handshake. None until it is there as a whole.
pub(crate) fn read_handshake_record(
    stream: &TcpStream,
    reader: &mut RecordReader,
) -> Result<Option<Vec<u8>>, StreamEndReason> {
    loop {
        let record = reader.next_record().map(|record| record.map(|record| record.to_vec()));
        match record {
            Ok(None) if read_into(stream, reader)? == ReadResult::WouldBlock => return Ok(None),
            Ok(None) => {}
            Ok(record) => return Ok(record),
            Err(_) => return Err(StreamEndReason::from_non_peer_bytes(reader.received())),
        }
    }
}

/// Reads what fits.
fn read_into(mut stream: &TcpStream, reader: &mut RecordReader) -> Result<ReadResult, StreamEndReason> {
    loop {
        match stream.read(reader.free_space()) {
            Ok(0) => return Err(StreamEndReason::Disconnected),
            Ok(count) => {
                reader.add_filled(count);
                return Ok(ReadResult::Progress);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadResult::WouldBlock),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
