use super::bytes::UnexpectedEnd;
use thiserror::Error;

/// Why a datagram's content is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// It ends too early.
    #[error("the message ends within a field")]
    TooShort,
    /// More follows than the message has.
    #[error("{0} octets follow the end of the message")]
    TooLong(usize),
    /// A kind that this version does not have.
    #[error("no message is of kind {0}")]
    UnknownKind(u8),
    /// A field says what this version has no meaning for.
    #[error("the {field} cannot be {value}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
    },
}

impl From<UnexpectedEnd> for MessageError {
    fn from(_: UnexpectedEnd) -> Self {
        MessageError::TooShort
    }
}
