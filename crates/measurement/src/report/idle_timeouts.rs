//! How long flows may be idle before somebody on the path forgets them.

use kumade_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How long address translators and firewalls on the path keep state of flows that are idle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleTimeoutsReport {
    /// The longest idle time that was tried.
    pub max_idle_seconds: f64,
    /// Of UDP, after one packet each way (RFC 4787, REQ-5); null if no such flow could be opened.
    pub udp: Option<IdleTimeoutReport>,
    /// Of UDP, after packets each way for more than two seconds; null as above.
    pub udp_stream: Option<IdleTimeoutReport>,
    /// Of an open TCP connection (RFC 5382, REQ-5); null as above.
    pub tcp: Option<IdleTimeoutReport>,
    /// Why not all has been looked at; null if it has.
    pub failure: Option<String>,
}

/// After which time a kind of flow is forgotten: what the far end sends then does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleTimeoutReport {
    /// The longest idle time after which it was still known; null if it was known after none that was tried.
    pub longer_than_seconds: Option<f64>,
    /// One that is longer, after which it was forgotten, and also after one between the two, if several were tried; null if it was after none.
    pub at_most_seconds: Option<f64>,
    /// Whether lost packets do not explain that as well: several flows show it.
    pub is_sure: bool,
    /// Flows that were tried.
    pub flows: u32,
    /// Flows that were forgotten though longer ones were not: by lost packets, or because a table was full.
    pub lost_earlier: u32,
    /// Whether what this host sent on forgotten flows still arrived there as of the same flow, so that they go on once this end sends; null
    /// if none was forgotten, or some did.
    pub resumes_up: Option<bool>,
}

impl fmt::Display for IdleTimeoutReport {
    /// `between 28.4 s and 31.2 s`, `longer than 300 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Span::from_secs_f64;
        match (self.longer_than_seconds, self.at_most_seconds) {
            (Some(low), Some(high)) => write!(f, "between {} and {}", time(low), time(high))?,
            (Some(low), None) => write!(f, "longer than {}", time(low))?,
            (None, Some(high)) => write!(f, "shorter than {}", time(high))?,
            (None, None) => write!(f, "not known")?,
        }
        match self.is_sure {
            true => Ok(()),
            false => write!(f, " (not sure: one flow alone)"),
        }
    }
}
