//! What a running end of a tunnel may be asked through its control socket, and what it replies.

use crate::status::Status;
use serde::{Deserialize, Serialize};
use service::Protocol;

/// The protocol of the control sockets of tunnels.
#[derive(Debug, Clone, Copy)]
pub struct TunnelProtocol;

impl Protocol for TunnelProtocol {
    const SERVICE: &'static str = "tunnel";
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply;
}

/// What an end of a tunnel may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What it is doing.
    Status,
}

/// What it replies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// What it is doing.
    Status {
        /// At most about a second ago.
        status: Box<Status>,
    },
}
