//! Why there is no value.

use std::fmt;
use std::ops::Deref;

/// What keeps a measurement from giving a value, where later steps depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A part of the packets was lost on a path that seems to have no queue: trains do not explain it.
    LossWithoutQueue,
    /// Packets of different connections overtake each other.
    Overtaking,
    /// Packets wait for others though the link seems idle.
    WaitingThoughIdle,
}

/// Why there is no value: a sentence for people, and the cause where later steps depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    text: String,
    cause: Option<Cause>,
}

impl Reason {
    /// This cause, in these words.
    pub fn with_cause(cause: Cause, text: impl Into<String>) -> Self {
        Reason { text: text.into(), cause: Some(cause) }
    }

    /// The cause, if later steps depend on it.
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Reason { text, cause: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.text
    }
}

/// The words.
impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
