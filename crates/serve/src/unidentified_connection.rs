//! A connection until it is known what it is for, and of a control connection until its client has said something that only
//! a present client could say: with a key, the first encrypted message, which no recorded handshake can be followed by.

use crate::access_log::RefusedKey;
use crate::client_table::{ClientAccount, ClientTable};
use crate::config::ServerConfig;
use kumade_wire::{
    AdmissionDecision, ClientMessage, Preamble, PreambleError, PreambleReply, ServerMessage, ServerSession,
    SessionError, Token, Version,
};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Maximum number of bytes of a client before its first message is complete.
const MAX_HANDSHAKE_BYTES: usize = 8 << 10;

/// A non-blocking connection that is being opened.
pub(super) struct UnidentifiedConnection {
    pub(super) stream: TcpStream,
    stage: IdentificationStage,
}

enum IdentificationStage {
    Preamble { bytes: [u8; Preamble::SIZE], received_bytes: usize },
    Session(Box<Handshake>),
}

struct Handshake {
    session: ServerSession,
    /// Whose keys are tried: those from when it began.
    clients: Arc<ClientTable>,
    token: Token,
    is_welcomed: bool,
    received_bytes: usize,
}

/// What became of a connection.
pub(super) enum IdentificationResult {
    /// Nothing yet.
    Pending,
    /// It is closed, or of no use.
    Discarded,
    /// The client has no valid key.
    KeyRefused(RefusedKey),
    /// It carries probe packets.
    Probe { authenticator: Token, index: u16 },
    /// A client, and the first message that it sent.
    Client(Box<IdentifiedClient>),
}

/// A client whose session is open.
pub(super) struct IdentifiedClient {
    pub(super) session: ServerSession,
    /// Which the client has been told.
    pub(super) token: Token,
    /// Of a client that has a key of its own.
    pub(super) account: Option<Arc<ClientAccount>>,
    pub(super) first_message: ClientMessage,
}

/// What a connection is compared with.
pub(super) struct AdmissionContext<'s> {
    pub(super) config: &'s ServerConfig,
    pub(super) clients: Arc<ClientTable>,
    /// Whether the keys of its network are tried.
    pub(super) tries_keys: bool,
}

impl UnidentifiedConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        UnidentifiedConnection {
            stream,
            stage: IdentificationStage::Preamble { bytes: [0; Preamble::SIZE], received_bytes: 0 },
        }
    }

    /// Reads what has arrived. `has_room` says whether the server has room for this client.
    pub(super) fn advance(
        &mut self,
        context: &AdmissionContext<'_>,
        has_room: impl FnOnce() -> bool,
    ) -> IdentificationResult {
        match self.try_advance(context, has_room) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => IdentificationResult::Pending,
            Err(error) if is_wrong_key(&error) => IdentificationResult::KeyRefused(RefusedKey::Unknown),
            Err(error) => {
                tracing::debug!("dropped a connection: {error}");
                IdentificationResult::Discarded
            }
        }
    }

    fn try_advance(
        &mut self,
        context: &AdmissionContext<'_>,
        has_room: impl FnOnce() -> bool,
    ) -> io::Result<IdentificationResult> {
        if let IdentificationStage::Preamble { bytes, received_bytes: have } = &mut self.stage {
            while *have < Preamble::SIZE {
                *have += read_some(&mut self.stream, &mut bytes[*have..])?;
            }
            let (encrypted, version) = match Preamble::decode(bytes) {
                Ok((Preamble::Probe { authenticator: shown, index }, _)) => {
                    return Ok(IdentificationResult::Probe { authenticator: shown, index });
                }
                Ok((Preamble::Control { encrypted }, version)) => (encrypted, version),
                Err(error @ PreambleError::UnsupportedVersion { .. }) => {
                    reject(&self.stream, AdmissionDecision::UnsupportedVersion, Version::NEWEST);
                    return Err(io::Error::other(error));
                }
                Err(error) => return Err(io::Error::other(error)),
            };
            let has_room = has_room() && context.tries_keys;
            let verdict = kumade_wire::decide_admission(encrypted, context.clients.requires_key(), has_room);
            if verdict != AdmissionDecision::Accepted {
                reject(&self.stream, verdict, version);
                return Ok(match verdict {
                    AdmissionDecision::KeyRequired => IdentificationResult::KeyRefused(RefusedKey::Missing),
                    _ => IdentificationResult::Discarded,
                });
            }
            self.stream.set_nodelay(true)?;
            self.stage =
                IdentificationStage::Session(Box::new(Handshake::begin(Arc::clone(&context.clients), version)?));
        }
        let IdentificationStage::Session(handshake) = &mut self.stage else { return Ok(IdentificationResult::Pending) };
        // Many may have been accepted before the first was refused.
        if !context.tries_keys {
            return Err(io::Error::other("too many keys of this network were refused"));
        }
        let Some(first) = handshake.advance(&mut self.stream, context.config)? else {
            return Ok(IdentificationResult::Pending);
        };
        let placeholder = IdentificationStage::Preamble { bytes: [0; Preamble::SIZE], received_bytes: 0 };
        let IdentificationStage::Session(handshake) = std::mem::replace(&mut self.stage, placeholder) else {
            return Ok(IdentificationResult::Discarded);
        };
        let Handshake { session, token, clients, .. } = *handshake;
        let account = clients.find_account(session.key_index());
        Ok(IdentificationResult::Client(Box::new(IdentifiedClient { session, token, account, first_message: first })))
    }
}

impl Handshake {
    fn begin(clients: Arc<ClientTable>, version: Version) -> io::Result<Self> {
        let mut token = Token([0; 16]);
        getrandom::fill(&mut token.0).map_err(io::Error::other)?;
        let session = ServerSession::server_with_keys(Arc::clone(&clients.keys), version);
        Ok(Handshake { session, clients, token, is_welcomed: false, received_bytes: 0 })
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
            if self.received_bytes > MAX_HANDSHAKE_BYTES {
                return Err(io::Error::other("no message within the first bytes"));
            }
            let count = read_some(stream, &mut buffer)?;
            self.received_bytes += count;
            self.session.feed(&buffer[..count]);
        }
    }
}

fn is_wrong_key(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<SessionError>());
    matches!(cause, Some(SessionError::WrongKey))
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
fn reject(mut stream: &TcpStream, verdict: AdmissionDecision, version: Version) {
    // Received data must be read, or closing would reset the connection and discard the answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(&PreambleReply(verdict).encode(version));
    let _ = stream.shutdown(Shutdown::Write);
}
