//! Frames over a TCP connection, sealed.

use super::frame::{self, MAX_FRAME_BYTES};
use kumade_noise_session::TAG_BYTES;
use kumade_noise_session::channel::{Channel, OVERHEAD_BYTES, REKEY_AFTER, RekeyError};
use kumade_noise_session::stream::{PREFIX_BYTES, RecordError, RecordReader};
use kumade_noise_session::{OpenError, SealError};
use kumade_units::Time;
use rand::rngs::StdRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use thiserror::Error;

/// What a record holds, by its first byte.
const PART: u8 = 0;
const LAST_PART: u8 = 1;
/// The exchange of new keys ([`Channel`]).
const REKEY_OFFER: u8 = 2;
const REKEY_ANSWER: u8 = 3;
const REKEYED: u8 = 4;

/// Of a frame in one record.
const MAX_PART_BYTES: usize = 16 << 10;
/// What waits for a peer that reads nothing.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// Reads at a time, before others have their turn.
const MAX_READS: usize = 32;

/// Why a connection is over.
#[derive(Debug, Error)]
pub(crate) enum ConnectionEnd {
    /// The other end has closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not read.
    #[error("the other end reads nothing")]
    NotReading,
    /// It has said nothing for long.
    #[error("nothing was heard from the other end")]
    Silent,
    /// What it sent makes no sense.
    #[error("the other end sent what makes no sense: {0}")]
    Malformed(String),
}

macro_rules! malformed {
    ($($error:ty),*) => { $(impl From<$error> for ConnectionEnd {
        fn from(error: $error) -> Self {
            ConnectionEnd::Malformed(error.to_string())
        }
    })* };
}
malformed!(RecordError, OpenError, SealError, RekeyError, serde_json::Error);

/// One end of a connection whose handshake is done. It does not wait.
#[derive(Debug)]
pub(crate) struct FrameStream {
    stream: TcpStream,
    channel: Channel,
    reader: RecordReader,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    written: usize,
    keys_made: Time,
}

impl FrameStream {
    /// `reader` has seen the handshake.
    ///
    /// # Errors
    /// The connection is no more.
    pub(crate) fn new(stream: TcpStream, channel: Channel, mut reader: RecordReader, now: Time) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        reader.raise_record_limit(1 + MAX_PART_BYTES + TAG_BYTES);
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Ok(FrameStream { stream, channel, reader, incoming, outgoing, written: 0, keys_made: now })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether there is something that the system has not taken yet.
    pub(crate) fn has_outgoing(&self) -> bool {
        self.written < self.outgoing.len()
    }

    /// Sends a frame, now or later.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn send(&mut self, frame: &impl Serialize) -> Result<(), ConnectionEnd> {
        let bytes = frame::encode(frame);
        let mut parts = bytes.chunks(MAX_PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() { PART } else { LAST_PART };
            self.queue_record(kind, part)?;
        }
        self.flush()
    }

    /// Sends what waits, as far as the system takes it.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn flush(&mut self) -> Result<(), ConnectionEnd> {
        while self.has_outgoing() {
            match self.stream.write(&self.outgoing[self.written..]) {
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.outgoing.drain(..self.written);
        self.written = 0;
        if self.outgoing.len() > MAX_WAITING_BYTES { Err(ConnectionEnd::NotReading) } else { Ok(()) }
    }

    /// Exchanges new keys where it is time, at the end that began the connection.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn renew_keys(&mut self, now: Time, random: &mut StdRng) -> Result<(), ConnectionEnd> {
        if now - self.keys_made < REKEY_AFTER || !self.channel.can_rekey() {
            return Ok(());
        }
        self.keys_made = now;
        let offer = self.channel.begin_rekey(random)?;
        self.queue_record(REKEY_OFFER, &offer)?;
        self.flush()
    }

    /// The frames that have come, each with its bytes.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn receive<F: DeserializeOwned>(
        &mut self,
        random: &mut StdRng,
    ) -> Result<Vec<(F, usize)>, ConnectionEnd> {
        let mut frames = Vec::new();
        for _ in 0..MAX_READS {
            while let Some(record) = self.reader.next_record()? {
                let text = self.channel.open(record)?;
                let (kind, part) = text.split_first().ok_or_else(|| ConnectionEnd::Malformed("nothing".to_owned()))?;
                if let PART | LAST_PART = *kind {
                    self.incoming.extend_from_slice(part);
                    if self.incoming.len() > MAX_FRAME_BYTES {
                        return Err(ConnectionEnd::Malformed("a frame is too long".to_owned()));
                    }
                    if *kind == LAST_PART {
                        let bytes = std::mem::take(&mut self.incoming);
                        frames.push((frame::decode(&bytes)?, bytes.len()));
                    }
                } else {
                    let (kind, part) = (*kind, part.to_vec());
                    self.exchange_keys(kind, &part, random)?;
                }
            }
            match self.stream.read(self.reader.free_space()) {
                // What came before it counts: the next call says that it is closed.
                Ok(0) if !frames.is_empty() => break,
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(count) => self.reader.add_filled(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(frames)
    }

    fn exchange_keys(&mut self, kind: u8, part: &[u8], random: &mut StdRng) -> Result<(), ConnectionEnd> {
        let key = || <&[u8; 32]>::try_from(part).map_err(|_| ConnectionEnd::Malformed("a key".to_owned()));
        match kind {
            REKEY_OFFER => {
                let answer = self.channel.answer_rekey(key()?, random)?;
                self.queue_record(REKEY_ANSWER, &answer)?;
                self.channel.switch_send()?;
            }
            REKEY_ANSWER => {
                self.channel.finish_rekey(key()?)?;
                self.queue_record(REKEYED, &[])?;
                self.channel.switch_send()?;
            }
            REKEYED => self.channel.switch_receive()?,
            _ => return Err(ConnectionEnd::Malformed(format!("a record of kind {kind}"))),
        }
        self.flush()
    }

    fn queue_record(&mut self, kind: u8, part: &[u8]) -> Result<(), ConnectionEnd> {
        let mut record = vec![0; 1 + part.len() + OVERHEAD_BYTES];
        record[PREFIX_BYTES] = kind;
        record[PREFIX_BYTES + 1..][..part.len()].copy_from_slice(part);
        self.channel.seal(&mut record)?;
        self.outgoing.extend(record);
        Ok(())
    }
}
