use kumade_probe_train::TrainError;
use kumade_units::Span;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a train could not be sent or received.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan exceeds the limits of this transport.
    #[error(transparent)]
    Plan(#[from] TrainError),
    /// The plan would put more packets on a connection than its initial congestion window allows at once.
    #[error(
        "train refused: {count} packets on {connections} connections exceed the initial congestion window of {limit} \
         packets each; plan fewer packets or open more connections"
    )]
    TooManyPerConnection {
        /// Number of packets of the plan.
        count: u32,
        /// Number of connections agreed on at the session's start.
        connections: u32,
        /// Maximum number of packets of a train on each.
        limit: u32,
    },
    /// Every probe connection has been reset or closed.
    #[error("all {0} probe connections are closed: a firewall may have reset them; open new ones")]
    NoConnection(u32),
    /// The control connection was closed during the train, which ends early.
    #[error("the train was aborted: the control connection to {0} is closed")]
    Aborted(SocketAddr),
    /// This host's clock was set while the train was carried, so that its time stamps cannot be compared.
    #[error("this host's clock was set by {0} during the train")]
    ClockStepped(Span),
    /// A socket could not be prepared or used.
    #[error("cannot {operation} {peer}: {cause}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The far end.
        peer: SocketAddr,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

impl Error {
    pub(crate) fn io(operation: &'static str, peer: SocketAddr) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Io { operation, peer, cause }
    }
}
