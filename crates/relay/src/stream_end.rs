use crate::exchange::UnexpectedMessage;
use crate::message::{ConnectRefusal, MalformedMessage};
use kumade_noise_session::stream::RecordError;
use kumade_noise_session::{OpenError, RefusedDatagram, SealError};
use std::io;
use thiserror::Error;

/// Why a stream is over.
#[derive(Debug, Error)]
pub(crate) enum StreamEnd {
    /// Both directions have ended.
    #[error("both ends have closed it")]
    Complete,
    /// The far end has said why it did not connect.
    #[error(transparent)]
    Refused(ConnectRefusal),
    /// The connection between the ends, before its last message.
    #[error("the far end closed it")]
    Disconnected,
    /// A socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("it does not answer")]
    Timeout,
    /// What came is not what a peer sends.
    #[error("what answers there is not the peer that has the key: {0}")]
    NotAPeer(String),
}

impl StreamEnd {
    /// These are the first bytes of something else.
    pub(crate) fn from_non_peer_bytes(bytes: &[u8]) -> Self {
        const MAX_SHOWN_BYTES: usize = 16;
        StreamEnd::NotAPeer(format!("it sent \"{}\"", bytes[..bytes.len().min(MAX_SHOWN_BYTES)].escape_ascii()))
    }
}

impl From<RecordError> for StreamEnd {
    fn from(error: RecordError) -> Self {
        StreamEnd::NotAPeer(error.to_string())
    }
}

impl From<OpenError> for StreamEnd {
    fn from(error: OpenError) -> Self {
        StreamEnd::NotAPeer(error.to_string())
    }
}

impl From<RefusedDatagram> for StreamEnd {
    fn from(error: RefusedDatagram) -> Self {
        StreamEnd::NotAPeer(error.to_string())
    }
}

impl From<MalformedMessage> for StreamEnd {
    fn from(error: MalformedMessage) -> Self {
        StreamEnd::NotAPeer(error.to_string())
    }
}

impl From<UnexpectedMessage> for StreamEnd {
    fn from(error: UnexpectedMessage) -> Self {
        StreamEnd::NotAPeer(error.to_string())
    }
}

impl From<SealError> for StreamEnd {
    fn from(error: SealError) -> Self {
        StreamEnd::Io(io::Error::other(error))
    }
}
