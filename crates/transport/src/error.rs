use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use train::TrainError;

/// Why a train could not be carried.
#[derive(Debug, Error)]
pub enum Error {
    /// The plan exceeds what this transport carries.
    #[error(transparent)]
    Plan(#[from] TrainError),
    /// The plan would put more packets on a connection than its first congestion window lets out at once.
    #[error(
        "train refused: {count} packets on {connections} connections is more than {limit} on each, and a connection's \
         first window holds no more; plan fewer packets or open more connections"
    )]
    TooManyPerConnection {
        /// Packets of the plan.
        count: u32,
        /// Connections agreed on at the session's start.
        connections: u32,
        /// Packets that each may carry within a train.
        limit: u32,
    },
    /// Every probe connection has been reset or closed.
    #[error("all {0} probe connections are closed: a firewall may have cut them; open new ones")]
    NoConnection(u32),
    /// The control connection was closed, so that nobody waits for the rest of the train.
    #[error("the train was not finished: the control connection to {0} is closed")]
    Abandoned(SocketAddr),
    /// A socket could not be prepared or used.
    #[error("cannot {operation} {peer}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The far end.
        peer: SocketAddr,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
}

impl Error {
    pub(crate) fn io(operation: &'static str, peer: SocketAddr) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Io { operation, peer, cause }
    }
}
