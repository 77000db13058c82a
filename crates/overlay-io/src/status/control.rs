//! What a running gateway or end of a tunnel may be asked through its control socket, and what it replies.

use crate::status::document::StatusDocument;
use kumade_daemon::Protocol;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// The protocol of the control sockets of programs that such a document is of.
#[derive(Debug, Clone, Copy)]
pub struct StatusProtocol<D>(PhantomData<D>);

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

impl<D: StatusDocument> Protocol for StatusProtocol<D> {
    const SERVICE: &'static str = D::SERVICE;
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply<D>;
}
