use std::io;
use thiserror::Error;

/// A step in building a network of namespaces that the system refused. Its text holds the system's answer, which is
/// therefore not its source: whoever prints causes would show it twice.
#[derive(Debug, Error)]
#[error("cannot {operation}: {cause}{hint}")]
pub struct SetupError {
    operation: String,
    cause: io::Error,
    hint: String,
}

impl SetupError {
    /// `operation` reads on from "cannot": `"open /dev/net/tun"`.
    pub fn new(operation: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        SetupError { operation: operation.into(), cause: cause.into(), hint: String::new() }
    }

    /// That a socket of this kind is not bound, with what to try ([`bind_hint`](crate::listener::bind_hint)).
    pub fn for_bind(operation: impl Into<String>, cause: io::Error) -> Self {
        let hint = crate::listener::bind_hint(&cause);
        let error = SetupError::new(operation, cause);
        if hint.is_empty() { error } else { error.with_hint(hint) }
    }

    /// Adds what the user may try.
    #[must_use]
    pub fn with_hint(mut self, hint: &str) -> Self {
        self.hint = format!("; {hint}");
        self
    }

    /// The system's error.
    pub fn io_error(&self) -> &io::Error {
        &self.cause
    }
}
