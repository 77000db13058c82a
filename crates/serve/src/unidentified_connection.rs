//! A connection until it is known what it is for, and of a control connection until its client has said something that only
//! a present client could say: with a key, the first encrypted message, which no recorded handshake can be followed by.

use crate::config::ServerConfig;
use kumade_wire::{
    Answer, ClientMessage, Preamble, PreambleError, ServerMessage, ServerSession, Token, Verdict, Version,
};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Maximum number of bytes of a client before its first message is complete.
const MAX_BYTES: usize = 8 << 10;

/// A non-blocking connection that is being opened.
pub(super) struct Opening {
    pub(super) stream: TcpStream,
    stage: Stage,
}

enum Stage {
    Preamble { bytes: [u8; Preamble::SIZE], have: usize },
    Session(Box<Handshake>),
}

struct Handshake {
    session: ServerSession,
    token: Token,
    is_welcomed: bool,
    heard: usize,
}

/// What became of a connection.
pub(super) enum Opened {
    /// Nothing yet.
    Pending,
    /// It is closed, or of no use.
    Dropped,
    /// It carries probe packets.
    Probe { shown: Token, index: u16 },
    /// A client, and the first message that it sent.
    Client(Box<OpenClient>),
}

/// A client whose session is open.
pub(super) struct OpenClient {
    pub(super) session: ServerSession,
    /// Which the client has been told.
    pub(super) token: Token,
    pub(super) first: ClientMessage,
}

impl Opening {
    pub(super) fn new(stream: TcpStream) -> Self {
        Opening { stream, stage: Stage::Preamble { bytes: [0; Preamble::SIZE], have: 0 } }
    }

    /// Reads what has arrived. `has_room` says whether the server has room for this client.
    pub(super) fn advance(&mut self, config: &ServerConfig, has_room: impl FnOnce() -> bool) -> Opened {
        match self.try_advance(config, has_room) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Opened::Pending,
            Err(error) => {
                tracing::debug!("dropped a connection: {error}");
                Opened::Dropped
            }
        }
    }

    fn try_advance(&mut self, config: &ServerConfig, has_room: impl FnOnce() -> bool) -> io::Result<Opened> {
        if let Stage::Preamble { bytes, have } = &mut self.stage {
            while *have < Preamble::SIZE {
                *have += read_some(&mut self.stream, &mut bytes[*have..])?;
            }
            let (encrypted, version) = match Preamble::decode(bytes) {
                Ok((Preamble::Probe { shown, index }, _)) => return Ok(Opened::Probe { shown, index }),
                Ok((Preamble::Control { encrypted }, version)) => (encrypted, version),
                Err(error @ PreambleError::OtherVersion { .. }) => {
                    reject(&self.stream, Verdict::OtherVersion, Version::NEWEST);
                    return Err(io::Error::other(error));
                }
                Err(error) => return Err(io::Error::other(error)),
            };
            let verdict = kumade_wire::judge(encrypted, config.key.is_some(), has_room());
            if verdict != Verdict::Welcome {
                reject(&self.stream, verdict, version);
                return Ok(Opened::Dropped);
            }
            self.stream.set_nodelay(true)?;
            self.stage = Stage::Session(Box::new(Handshake::begin(config, version)?));
        }
        let Stage::Session(handshake) = &mut self.stage else { return Ok(Opened::Pending) };
        let Some(first) = handshake.advance(&mut self.stream, config)? else { return Ok(Opened::Pending) };
        let placeholder = Stage::Preamble { bytes: [0; Preamble::SIZE], have: 0 };
        let Stage::Session(handshake) = std::mem::replace(&mut self.stage, placeholder) else {
            return Ok(Opened::Dropped);
        };
        let Handshake { session, token, .. } = *handshake;
        Ok(Opened::Client(Box::new(OpenClient { session, token, first })))
    }
}

impl Handshake {
    fn begin(config: &ServerConfig, version: Version) -> io::Result<Self> {
        let mut token = Token([0; 16]);
        getrandom::fill(&mut token.0).map_err(io::Error::other)?;
        let session = ServerSession::server(config.key.as_ref(), version);
        Ok(Handshake { session, token, is_welcomed: false, heard: 0 })
    }

    /// Answers what has arrived; returns the first message once it is complete.
    fn advance(&mut self, stream: &mut TcpStream, config: &ServerConfig) -> io::Result<Option<ClientMessage>> {
        let mut buffer = [0; 1024];
        loop {
            let first = self.session.receive();
            if self.session.is_open() && !self.is_welcomed {
                self.is_welcomed = true;
                let welcome = ServerMessage::Welcome { token: self.token, limits: config.limits };
                self.session.send(&welcome).map_err(io::Error::other)?;
            }
            // A few hundred bytes, which a new connection's buffer takes; also the reason of a refusal.
            stream.write_all(&self.session.take_outgoing())?;
            if let Some(first) = first.map_err(io::Error::other)? {
                return Ok(Some(first));
            }
            if self.heard > MAX_BYTES {
                return Err(io::Error::other("no message within the first bytes"));
            }
            let count = read_some(stream, &mut buffer)?;
            self.heard += count;
            self.session.feed(&buffer[..count]);
        }
    }
}

fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Sends the reason, and ends the connection.
fn reject(mut stream: &TcpStream, verdict: Verdict, version: Version) {
    // Received data must be read, or closing would reset the connection and discard the answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(&Answer(verdict).encode(version));
    let _ = stream.shutdown(Shutdown::Write);
}
