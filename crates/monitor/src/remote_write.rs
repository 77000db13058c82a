//! Figures for other databases, by Prometheus' remote write protocol, version 1.
//!
//! The archive is the queue: what is to be sent is read from it, in the order of time, from where the last start came to. A receiver that
//! refuses a part of a request refuses all of it; what it refuses is divided until the part is found. Nothing is sent whose time has not
//! come, by the clock of either end; and no value twice.

mod delivery;
mod encoding;
mod exporter;
mod figures;
mod http;
mod position;
mod progress;
mod sender;

pub use delivery::{Answer, Delivery};
pub use encoding::{Sample, SeriesLabels, encode_write_request};
pub use exporter::{RemoteWriteExporter, Wake};
pub use http::RemoteWriteClient;
pub use position::Position;
pub use progress::RemoteWriteProgress;
pub(crate) use sender::{RemoteWriteNews, RemoteWriteSender};

use kumade_units::Span;
use std::fmt;
use std::path::PathBuf;

/// Where figures are sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteWriteConfig {
    /// `http://HOST:PORT/PATH`, or `https://…`.
    pub url: String,
    /// Sent with each request. They may be secret.
    pub headers: Vec<(String, String)>,
    /// Sent as a bearer token, if there is one. It is a secret.
    pub token: Option<String>,
    /// Certificates (PEM) of authorities that the receiver's may be signed by; the system's without it.
    pub authorities: Option<PathBuf>,
    /// What is older is not sent: the receiver would not take it.
    pub max_age: Span,
}

impl fmt::Debug for RemoteWriteConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and token are secrets.
        formatter.debug_struct("RemoteWriteConfig").field("url", &self.url).finish_non_exhaustive()
    }
}
