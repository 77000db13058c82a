use crate::ended::Ended;
use crate::message::{MAX_MESSAGE, Message};
use crate::plain;
use kumade_net::tcp::{self, MaxRto, RtoLimits};
use kumade_noise_session::TAG;
use kumade_noise_session::channel::{Channel, OVERHEAD};
use kumade_noise_session::stream::{PREFIX, RecordReader};
use std::io::{self, Read};
use std::net::TcpStream;

/// The connection to the other end, once the handshake is done.
pub(crate) struct Sealed {
    pub(crate) stream: TcpStream,
    pub(crate) channel: Channel,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    max_rto: Option<MaxRto>,
    reader: RecordReader,
    /// Records that the kernel has not taken yet.
    pending: Vec<u8>,
    taken: usize,
}

/// What waits in the kernel's buffer behind the congestion window: a few milliseconds of a fast path.
const MAX_UNSENT: u32 = 128 << 10;

/// What reading has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    Some,
    Nothing,
}

impl Sealed {
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
        tcp::limit_unsent(&stream, MAX_UNSENT)?;
        rto.apply(&stream)?;
        reader.admit_data(MAX_MESSAGE + TAG);
        Ok(Sealed {
            stream,
            channel,
            is_readable: true,
            is_writable: true,
            max_rto: rto.max_of_connection(),
            reader,
            pending: Vec::new(),
            taken: 0,
        })
    }

    /// The text of the next message, if it is there as a whole.
    pub(crate) fn next_text(&mut self) -> Result<Option<&[u8]>, Ended> {
        match self.reader.next_record()? {
            Some(record) => Ok(Some(self.channel.open(record)?)),
            None => Ok(None),
        }
    }

    /// Has the greatest retransmission timeout follow the round trips. To be called now and then.
    pub(crate) fn follow_round_trip(&mut self) {
        if let (Some(max_rto), Ok(state)) = (&mut self.max_rto, tcp::send_state(&self.stream)) {
            max_rto.follow(&self.stream, state.round_trip);
        }
    }

    /// Reads what fits.
    pub(crate) fn fill(&mut self) -> Result<Filled, Ended> {
        let filled = fill(&self.stream, &mut self.reader)?;
        self.is_readable = filled == Filled::Some;
        Ok(filled)
    }

    /// Adds a message to what is to be sent.
    pub(crate) fn push(&mut self, message: &Message<'_>) -> Result<(), Ended> {
        let text = message.encode();
        let mut record = vec![0; text.len() + OVERHEAD];
        record[PREFIX..][..text.len()].copy_from_slice(&text);
        self.channel.seal(&mut record)?;
        self.pending.extend(record);
        Ok(())
    }

    /// Sends records; what the kernel does not take is kept. To be called when nothing is pending.
    pub(crate) fn send(&mut self, records: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while self.is_writable && sent < records.len() {
            sent += plain::write(&self.stream, &records[sent..], &mut self.is_writable)?;
        }
        self.pending.extend_from_slice(&records[sent..]);
        Ok(())
    }

    /// Sends what is pending. Returns whether nothing is any more.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.taken < self.pending.len() {
            if !self.is_writable {
                return Ok(false);
            }
            self.taken += plain::write(&self.stream, &self.pending[self.taken..], &mut self.is_writable)?;
        }
        (self.pending, self.taken) = (Vec::new(), 0);
        Ok(true)
    }
}

/// Reads until there is a record of a handshake. None until it is there as a whole.
pub(crate) fn read_greeting(stream: &TcpStream, reader: &mut RecordReader) -> Result<Option<Vec<u8>>, Ended> {
    loop {
        let record = reader.next_record().map(|record| record.map(|record| record.to_vec()));
        match record {
            Ok(None) if fill(stream, reader)? == Filled::Nothing => return Ok(None),
            Ok(None) => {}
            Ok(record) => return Ok(record),
            Err(_) => return Err(Ended::not_a_peer(reader.received())),
        }
    }
}

/// Reads what fits.
fn fill(mut stream: &TcpStream, reader: &mut RecordReader) -> Result<Filled, Ended> {
    loop {
        match stream.read(reader.space()) {
            Ok(0) => return Err(Ended::Cut),
            Ok(count) => {
                reader.filled(count);
                return Ok(Filled::Some);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
