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
    /// Until the first frame has come.
    max_first_frame_bytes: Option<usize>,
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
        let max_first_frame_bytes = None;
        Ok(FrameStream {
            stream,
            channel,
            reader,
            incoming,
            max_first_frame_bytes,
            outgoing,
            written: 0,
            keys_made: now,
        })
    }

    /// Nothing but a frame that is no longer than this is taken first: until it has come, the other end may not be whom it seems to be.
    pub(crate) fn limit_first_frame(&mut self, max_bytes: usize) {
        self.max_first_frame_bytes = Some(max_bytes);
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
                    let max_bytes = self.max_first_frame_bytes.unwrap_or(MAX_FRAME_BYTES);
                    if self.incoming.len() + part.len() > max_bytes {
                        return Err(ConnectionEnd::Malformed("a frame is too long".to_owned()));
                    }
                    self.incoming.extend_from_slice(part);
                    if *kind == LAST_PART {
                        let bytes = std::mem::take(&mut self.incoming);
                        frames.push((frame::decode(&bytes)?, bytes.len()));
                        self.max_first_frame_bytes = None;
                    }
                } else if self.max_first_frame_bytes.is_some() {
                    return Err(ConnectionEnd::Malformed("no frame".to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_noise_session::channel::{StreamAcceptor, StreamAnswer, StreamInitiator};
    use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey};
    use kumade_units::Span;
    use rand::SeedableRng;
    use std::net::{Ipv4Addr, TcpListener};

    /// Two ends of a connection, after their handshake.
    fn pair(random: &mut StdRng) -> [FrameStream; 2] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, address) = listener.accept().unwrap();
        let (now, none) = (Time::ZERO + Span::from_secs(1), PresharedKey::default());
        let [agent, coordinator] = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let mut initiator = StreamInitiator::new(agent.clone(), coordinator.public_key(), none.clone());
        let (pending, initiation) = initiator.begin(now, random).unwrap();
        let peers = vec![(agent.public_key(), none)];
        let mut acceptor = StreamAcceptor::new(coordinator, &HandshakePolicy::default(), peers, random);
        let answer = acceptor.accept(&initiation[PREFIX_BYTES..], address.ip(), now, random).unwrap();
        let StreamAnswer::Accepted(accepted) = answer else { panic!("it has another clock") };
        let channel = pending.finish(&accepted.response[PREFIX_BYTES..]).unwrap();
        let ends = [(near, channel), (far, accepted.channel)];
        ends.map(|(stream, channel)| FrameStream::new(stream, channel, RecordReader::new(), now).unwrap())
    }

    /// What comes within the deadline.
    fn receive(stream: &mut FrameStream, random: &mut StdRng) -> Result<Vec<String>, ConnectionEnd> {
        kumade_net::readiness::wait_readable(stream.stream(), kumade_net::clock::monotonic() + Span::from_secs(30))?;
        Ok(stream.receive(random)?.into_iter().map(|(text, _)| text).collect())
    }

    /// An agent once had a coordinator hold a megabyte of each of its connections that had not said who it is.
    #[test]
    fn nothing_is_kept_of_a_first_frame_that_is_too_long_and_later_ones_may_be_long() {
        let random = &mut StdRng::seed_from_u64(1);
        let [mut near, mut far] = pair(random);
        far.limit_first_frame(100);
        near.queue_record(PART, &[b'x'; 101]).unwrap();
        near.flush().unwrap();
        assert!(matches!(receive(&mut far, random), Err(ConnectionEnd::Malformed(_))));
        assert!(far.incoming.is_empty());

        let [mut near, mut far] = pair(random);
        far.limit_first_frame(100);
        near.queue_record(REKEY_OFFER, &[7; 32]).unwrap();
        near.flush().unwrap();
        assert!(matches!(receive(&mut far, random), Err(ConnectionEnd::Malformed(_))), "nor is it answered");

        let [mut near, mut far] = pair(random);
        far.limit_first_frame(100);
        let long = "x".repeat(2 * MAX_PART_BYTES);
        near.send(&"hello").unwrap();
        near.send(&long).unwrap();
        let mut received = Vec::new();
        while received.len() < 2 {
            received.extend(receive(&mut far, random).unwrap());
        }
        assert_eq!(received, ["hello".to_owned(), long]);
    }
}
