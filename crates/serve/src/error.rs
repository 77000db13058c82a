use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a server or a reflector can't listen, or stopped. What to try follows from the cause's kind.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is in use, not this host's, or not allowed.
    #[error("cannot listen on {address} ({protocol}): {cause}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// `TCP`, `UDP`, or `STAMP`.
        protocol: &'static str,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// Waiting for clients failed.
    #[error("cannot wait for clients: {0}")]
    Wait(#[source] io::Error),
}
