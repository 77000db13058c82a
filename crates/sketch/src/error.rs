use thiserror::Error;

/// Why stored bytes could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They end too early.
    #[error("the data ends in the middle of a value")]
    Truncated,
    /// They were written by a later version of this program, or by none.
    #[error("the data has the format {0}, which this version does not know")]
    UnknownVersion(u8),
    /// They contradict themselves.
    #[error("the data is damaged: {0}")]
    Damaged(&'static str),
}
