//! What a running gateway or end of a tunnel may be asked through its control socket, and what it replies.

use serde::{Deserialize, Serialize};

/// What it may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What it is doing.
    Status,
}

/// What it replies, with a document of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply<D> {
    /// What it is doing.
    Status {
        /// At most about a second ago.
        status: Box<D>,
    },
}
