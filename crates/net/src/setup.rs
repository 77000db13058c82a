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
