//! What a running link may be asked through its control socket, and what it replies.

use crate::settings::SettingsChange;
use kumade_daemon::Protocol;
use serde::{Deserialize, Serialize};

/// The protocol of the control sockets of links.
#[derive(Debug, Clone, Copy)]
pub struct LinkProtocol;

impl Protocol for LinkProtocol {
    const SERVICE: &'static str = "link";
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply;
}

/// What a link may be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Change these settings.
    Set {
        /// Which, and of which direction.
        change: SettingsChange,
    },
    /// Report settings and totals.
    Show,
    /// Report settings and what happened in the last interval of statistics.
    Recent,
    /// End the link, and leave its interfaces as they were found.
    Stop,
}

/// What it replies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// The settings were changed.
    Done {
        /// The settings of both directions now.
        settings: [String; 2],
    },
    /// A document (`kumade.link/1`) with the totals, or of the last interval.
    Shown {
        /// The document.
        document: serde_json::Value,
    },
    /// Nothing was changed.
    Refused {
        /// Why.
        reason: String,
    },
}
