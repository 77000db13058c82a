use crate::exchange::UnexpectedMessage;
use crate::message::{ConnectRefusal, MalformedMessage};
use kumade_noise_session::channel::RekeyError;
use kumade_noise_session::stream::RecordError;
use kumade_noise_session::{OpenError, RefusedDatagram, SealError};
use std::io;
use thiserror::Error;

/// Why a stream is over.
#[derive(Debug, Error)]
pub(crate) enum StreamEndReason {
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

impl StreamEndReason {
    /// These are the first bytes of something else.
    pub(crate) fn from_non_peer_bytes(bytes: &[u8]) -> Self {
        const MAX_SHOWN_BYTES: usize = 16;
        StreamEndReason::NotAPeer(format!("it sent \"{}\"", bytes[..bytes.len().min(MAX_SHOWN_BYTES)].escape_ascii()))
    }
}

impl From<RecordError> for StreamEndReason {
    fn from(error: RecordError) -> Self {
        StreamEndReason::NotAPeer(error.to_string())
    }
}

impl From<OpenError> for StreamEndReason {
    fn from(error: OpenError) -> Self {
        StreamEndReason::NotAPeer(error.to_string())
    }
}

impl From<RekeyError> for StreamEndReason {
    fn from(error: RekeyError) -> Self {
        StreamEndReason::NotAPeer(error.to_string())
    }
}

impl From<RefusedDatagram> for StreamEndReason {
    fn from(error: RefusedDatagram) -> Self {
        StreamEndReason::NotAPeer(error.to_string())
    }
}

impl From<MalformedMessage> for StreamEndReason {
    fn from(error: MalformedMessage) -> Self {
        StreamEndReason::NotAPeer(error.to_string())
    }
}

impl From<UnexpectedMessage> for StreamEndReason {
    fn from(error: UnexpectedMessage) -> Self {
        StreamEndReason::NotAPeer(error.to_string())
    }
}

impl From<SealError> for StreamEndReason {
    fn from(error: SealError) -> Self {
        StreamEndReason::Io(io::Error::other(error))
    }
}
