//! Messages as length-prefixed postcard bodies.

use crate::{ClientMessage, ServerMessage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// A message that travels in frames. What a peer may make the other side hold is bounded by its kind.
pub trait Message: Serialize + DeserializeOwned {
    /// No body is longer than this, in bytes.
    const MAX_BODY_BYTES: usize;
}

impl Message for ClientMessage {
    /// The longest is a train of 512 segments: about 13 kB.
    const MAX_BODY_BYTES: usize = 16 << 10;
}

impl Message for ServerMessage {
    /// The longest is the stamps of 10 000 packets: about 180 kB.
    const MAX_BODY_BYTES: usize = 256 << 10;
}

/// Why bytes are not a frame of the expected kind of message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length prefix exceeds the limit.
    #[error("a frame has {length} bytes; the limit is {limit}")]
    TooLong {
        /// As announced, in bytes.
        length: usize,
        /// What this kind of message may have.
        limit: usize,
    },
    /// The body is no message.
    #[error("a frame holds no valid message")]
    Malformed,
}

/// Appends `message` as a frame.
///
/// # Errors
/// The message is longer than its kind may be.
pub fn encode<M: Message>(message: &M, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let body = postcard::to_stdvec(message).map_err(|_| FrameError::Malformed)?;
    if body.len() > M::MAX_BODY_BYTES {
        return Err(FrameError::TooLong { length: body.len(), limit: M::MAX_BODY_BYTES });
    }
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(())
}

/// Takes the first frame off `bytes`, if it is there as a whole: the message, and how many bytes it took.
///
/// # Errors
/// A length beyond the limit, told from the prefix alone; a body that is no message or has something behind it.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<Option<(M, usize)>, FrameError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > M::MAX_BODY_BYTES {
        return Err(FrameError::TooLong { length, limit: M::MAX_BODY_BYTES });
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(Some((message, 4 + length))),
        _ => Err(FrameError::Malformed),
    }
}
