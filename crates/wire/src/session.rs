use crate::frame::{self, FrameError, Message};
use crate::preamble::{self, AdmissionDecision, Preamble, PreambleError, PreambleReply};
use crate::{ClientMessage, Credential, ServerMessage, Token, Version, cipher};
use kumade_noise_session::PresharedKey;
use snow::{HandshakeState, TransportState};
use std::marker::PhantomData;
use std::sync::Arc;
use thiserror::Error;

/// Why a control connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The first bytes cannot be read.
    #[error(transparent)]
    Preamble(#[from] PreambleError),
    /// The server has a key and the client did not use one.
    #[error("the server requires a key, and none was given")]
    KeyRequired,
    /// The client uses a key and the server has none.
    #[error("a key was given, and the server has none")]
    NoServerKey,
    /// Both use a key, but not the same one.
    #[error("the keys of client and server differ")]
    WrongKey,
    /// The server has as many clients as it accepts.
    #[error("the server has as many clients as it accepts")]
    ServerFull,
    /// An encrypted record fails its authentication.
    #[error("an encrypted record is damaged")]
    DecryptionFailed,
    /// The peer sent something that is not a message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message was to be sent before the session was open, or after it had failed.
    #[error("the session is not open")]
    NotOpen,
}

impl SessionError {
    /// The version to begin again with, where a server is older than the client's `version`.
    pub fn older_server_version(&self, version: Version) -> Option<Version> {
        match self {
            SessionError::Preamble(PreambleError::UnsupportedVersion { theirs }) => {
                Version::from_number(*theirs).filter(|theirs| *theirs < version)
            }
            _ => None,
        }
    }
}

/// One end of a control connection, without the connection: bytes go in, messages come out, and the reverse.
///
/// **Loop contract.** Send what [`take_outgoing`](Session::take_outgoing) gives; [`feed`](Session::feed) what
/// arrives; call [`receive`](Session::receive) until it answers `None`, then send again. After an error the session is over;
/// what is outgoing then still tells the peer why, and should be sent before closing.
///
/// A peer makes it hold at most one message of the kind that it may send, and what was fed since the last `receive`.
pub struct Session<In, Out> {
    version: Version,
    phase: Phase,
    /// Received and not yet decrypted; stays empty in a plain session that is open.
    ciphertext: Vec<u8>,
    /// Received, decrypted, and not yet a whole frame.
    plaintext: Vec<u8>,
    outgoing: Vec<u8>,
    /// Of a server: which of its keys the client has.
    key_index: Option<usize>,
    message_types: PhantomData<fn(In) -> Out>,
}

/// The client's end.
pub type ClientSession = Session<ServerMessage, ClientMessage>;
/// The server's end.
pub type ServerSession = Session<ClientMessage, ServerMessage>;

enum Phase {
    /// A client that waits for the server's answer.
    AwaitingReply(Option<Box<HandshakeState>>),
    /// A server that waits for the client's handshake record, and the keys of its clients.
    AwaitingInitiation(Arc<[PresharedKey]>),
    /// A client that waits for the server's handshake record.
    Handshake(Box<HandshakeState>),
    Plain,
    Encrypted(Box<TransportState>),
    Failed,
}

impl ClientSession {
    /// Begins as a client; with a key, the session will be encrypted. Begin with [`Version::NEWEST`], and again on another
    /// connection with what [`SessionError::older_server_version`] tells.
    pub fn client(key: Option<&PresharedKey>, version: Version) -> Self {
        let mut outgoing = Preamble::Control { encrypted: key.is_some() }.encode(version).to_vec();
        let phase = match key.map(|k| cipher::initiate(k, &cipher::prologue(version))) {
            None => Phase::AwaitingReply(None),
            Some(Ok((state, record))) => {
                outgoing.extend(record);
                Phase::AwaitingReply(Some(Box::new(state)))
            }
            Some(Err(_)) => Phase::Failed,
        };
        Session::with_phase(version, phase, outgoing)
    }
}

impl ServerSession {
    /// Goes on as a server behind the preamble of a control connection that [`decide_admission`] has welcomed, in the client's version.
    pub fn server(key: Option<&PresharedKey>, version: Version) -> Self {
        Self::server_with_keys(key.cloned().into_iter().collect(), version)
    }

    /// The same for a server each of whose clients has a key of its own; the session is not encrypted where there is none. The
    /// client's first record tells which key it has ([`key_index`](Session::key_index)), by trying them: that takes a few hashes for
    /// each, and says nothing about the client to others, as a name in the preamble would.
    pub fn server_with_keys(keys: Arc<[PresharedKey]>, version: Version) -> Self {
        let phase = if keys.is_empty() { Phase::Plain } else { Phase::AwaitingInitiation(keys) };
        Session::with_phase(version, phase, PreambleReply(AdmissionDecision::Accepted).encode(version).to_vec())
    }

    /// Which of the server's keys the client has, once the session is open; none without keys. Only the first message proves
    /// it: the record by which a client begins may be a copy of an earlier one.
    pub fn key_index(&self) -> Option<usize> {
        self.key_index
    }
}

/// What a server with (or without) a key, with (or without) room answers a control connection.
pub fn decide_admission(encrypted: bool, has_key: bool, has_room: bool) -> AdmissionDecision {
    match (encrypted, has_key) {
        (false, true) => AdmissionDecision::KeyRequired,
        (true, false) => AdmissionDecision::NoServerKey,
        _ if !has_room => AdmissionDecision::ServerFull,
        _ => AdmissionDecision::Accepted,
    }
}

impl<In: Message, Out: Message> Session<In, Out> {
    fn with_phase(version: Version, phase: Phase, outgoing: Vec<u8>) -> Self {
        Session {
            version,
            phase,
            ciphertext: Vec::new(),
            plaintext: Vec::new(),
            outgoing,
            key_index: None,
            message_types: PhantomData,
        }
    }

    /// The version that both ends speak, once the session is open.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What connections and packets of this session show, once it is open and the server has told this token.
    pub fn credential(&self, token: Token) -> Credential {
        Credential::new(token, self.version, matches!(self.phase, Phase::Encrypted(_)))
    }

    /// Whether messages may be sent.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Plain | Phase::Encrypted(_))
    }

    /// Takes in what arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        let into = if matches!(self.phase, Phase::Plain) { &mut self.plaintext } else { &mut self.ciphertext };
        into.extend_from_slice(bytes);
    }

    /// The next message, once it is there as a whole.
    ///
    /// # Errors
    /// See [`SessionError`]; the session is over then.
    pub fn receive(&mut self) -> Result<Option<In>, SessionError> {
        let result = self.advance();
        if result.is_err() {
            self.phase = Phase::Failed;
            self.ciphertext = Vec::new();
            self.plaintext = Vec::new();
        }
        result
    }

    /// Adds a message to what is outgoing.
    ///
    /// # Errors
    /// The session is not open, or the message too long.
    pub fn send(&mut self, message: &Out) -> Result<(), SessionError> {
        match &mut self.phase {
            Phase::Plain => frame::encode(message, &mut self.outgoing)?,
            Phase::Encrypted(state) => {
                let mut plain = Vec::new();
                frame::encode(message, &mut plain)?;
                cipher::encrypt(state, &plain, &mut self.outgoing).map_err(|_| SessionError::DecryptionFailed)?;
            }
            _ => return Err(SessionError::NotOpen),
        }
        Ok(())
    }

    /// The bytes to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    fn advance(&mut self) -> Result<Option<In>, SessionError> {
        loop {
            let moved = match std::mem::replace(&mut self.phase, Phase::Failed) {
                Phase::AwaitingReply(state) => self.read_preamble_reply(state)?,
                Phase::AwaitingInitiation(keys) => self.answer_initiation(keys)?,
                Phase::Handshake(state) => self.finish_handshake(state)?,
                Phase::Plain => {
                    self.phase = Phase::Plain;
                    self.plaintext.append(&mut self.ciphertext);
                    return self.take_frame();
                }
                Phase::Encrypted(state) => {
                    self.phase = Phase::Encrypted(state);
                    if let Some(message) = self.take_frame()? {
                        return Ok(Some(message));
                    }
                    self.decrypt_record()?
                }
                Phase::Failed => return Err(SessionError::NotOpen),
            };
            if !moved {
                return Ok(None);
            }
        }
    }

    fn take_frame(&mut self) -> Result<Option<In>, SessionError> {
        Ok(frame::decode(&self.plaintext)?.map(|(message, taken)| {
            self.plaintext.drain(..taken);
            message
        }))
    }

    fn read_preamble_reply(&mut self, state: Option<Box<HandshakeState>>) -> Result<bool, SessionError> {
        if !preamble::is_magic_prefix(&self.ciphertext) {
            return Err(PreambleError::NotKumade.into());
        }
        let Some(bytes) = self.ciphertext.first_chunk::<{ PreambleReply::SIZE }>() else {
            self.phase = Phase::AwaitingReply(state);
            return Ok(false);
        };
        let (PreambleReply(verdict), version) = PreambleReply::decode(bytes)?;
        if version != self.version {
            return Err(PreambleError::UnsupportedVersion { theirs: version.number() }.into());
        }
        match verdict {
            AdmissionDecision::Accepted => {}
            AdmissionDecision::UnsupportedVersion => return Err(PreambleError::Malformed.into()),
            AdmissionDecision::KeyRequired => return Err(SessionError::KeyRequired),
            AdmissionDecision::NoServerKey => return Err(SessionError::NoServerKey),
            AdmissionDecision::ServerFull => return Err(SessionError::ServerFull),
        }
        self.ciphertext.drain(..PreambleReply::SIZE);
        self.phase = state.map_or(Phase::Plain, Phase::Handshake);
        Ok(true)
    }

    /// Finds the key of the client that begins, and answers it.
    fn answer_initiation(&mut self, keys: Arc<[PresharedKey]>) -> Result<bool, SessionError> {
        let Some(end) = cipher::record_end(&self.ciphertext).map_err(|_| SessionError::WrongKey)? else {
            self.phase = Phase::AwaitingInitiation(keys);
            return Ok(false);
        };
        let prologue = cipher::prologue(self.version);
        let opened = cipher::find_key(&keys, &prologue, &self.ciphertext[2..end]);
        self.ciphertext.drain(..end);
        let Some((index, mut state)) = opened else {
            cipher::push_key_refusal(&mut self.outgoing);
            return Err(SessionError::WrongKey);
        };
        cipher::write_handshake(&mut state, &mut self.outgoing).map_err(|_| SessionError::WrongKey)?;
        self.key_index = Some(index);
        self.begin_encryption(state)
    }

    fn finish_handshake(&mut self, mut state: Box<HandshakeState>) -> Result<bool, SessionError> {
        let Some(end) = cipher::record_end(&self.ciphertext).map_err(|_| SessionError::WrongKey)? else {
            self.phase = Phase::Handshake(state);
            return Ok(false);
        };
        let read = cipher::read_handshake(&mut state, &self.ciphertext[2..end]);
        self.ciphertext.drain(..end);
        read.map_err(|_| SessionError::WrongKey)?;
        self.begin_encryption(*state)
    }

    fn begin_encryption(&mut self, state: HandshakeState) -> Result<bool, SessionError> {
        let transport = state.into_transport_mode().map_err(|_| SessionError::WrongKey)?;
        self.phase = Phase::Encrypted(Box::new(transport));
        Ok(true)
    }

    /// Decrypts one record, so that never more than one message and one record stand in memory decrypted.
    fn decrypt_record(&mut self) -> Result<bool, SessionError> {
        let Some(end) = cipher::record_end(&self.ciphertext).map_err(|_| SessionError::DecryptionFailed)? else {
            return Ok(false);
        };
        let Phase::Encrypted(state) = &mut self.phase else {
            return Err(SessionError::NotOpen);
        };
        cipher::decrypt(state, &self.ciphertext[2..end], &mut self.plaintext)
            .map_err(|_| SessionError::DecryptionFailed)?;
        self.ciphertext.drain(..end);
        Ok(true)
    }
}
