use crate::exchange::OutOfTurn;
use crate::message::{Malformed, Refusal};
use kumade_noise_session::stream::RecordError;
use kumade_noise_session::{OpenError, Refused, SealError};
use std::io;
use thiserror::Error;

/// Why a stream is over.
#[derive(Debug, Error)]
pub(crate) enum Ended {
    /// Both directions have ended.
    #[error("both ends have closed it")]
    Complete,
    /// The far end has said why it did not connect.
    #[error(transparent)]
    Refused(Refusal),
    /// The connection between the ends, before its last message.
    #[error("the far end closed it")]
    Cut,
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

impl Ended {
    /// These are the first bytes of something else.
    pub(crate) fn not_a_peer(bytes: &[u8]) -> Self {
        const SHOWN: usize = 16;
        Ended::NotAPeer(format!("it sent \"{}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii()))
    }
}

impl From<RecordError> for Ended {
    fn from(error: RecordError) -> Self {
        Ended::NotAPeer(error.to_string())
    }
}

impl From<OpenError> for Ended {
    fn from(error: OpenError) -> Self {
        Ended::NotAPeer(error.to_string())
    }
}

impl From<Refused> for Ended {
    fn from(error: Refused) -> Self {
        Ended::NotAPeer(error.to_string())
    }
}

impl From<Malformed> for Ended {
    fn from(error: Malformed) -> Self {
        Ended::NotAPeer(error.to_string())
    }
}

impl From<OutOfTurn> for Ended {
    fn from(error: OutOfTurn) -> Self {
        Ended::NotAPeer(error.to_string())
    }
}

impl From<SealError> for Ended {
    fn from(error: SealError) -> Self {
        Ended::Io(io::Error::other(error))
    }
}
