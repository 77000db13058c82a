use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a server or a reflector can't listen, or stopped. The cause's kind tells what to try.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is in use, not this host's, or not allowed.
    #[error("cannot listen on {address} ({protocol}): {cause}")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// `TCP`, `UDP`, or `STAMP_OPTION`.
        protocol: &'static str,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// Polling the sockets failed.
    #[error("cannot wait for clients: {0}")]
    Wait(#[source] io::Error),
}
