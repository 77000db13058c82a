use crate::policy_routes::RouteError;
use kumade_multipath::dataplane::NodeError;
use kumade_net::SetupError;
use kumade_packet_loop::ThreadEnded;
use std::io;
use thiserror::Error;

/// Why the bonded plane cannot start, or ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BondedError {
    /// The system refuses a device, a socket or a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Datagrams cannot be routed by their paths' next hops.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Two remotes share what only one can have.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// It is to be changed, and has ended.
    #[error(transparent)]
    Ended(#[from] ThreadEnded),
    /// The TUN device has gone.
    #[error("cannot read packets of local hosts from {device}: {cause}")]
    Device {
        /// Its name.
        device: String,
        /// What happened.
        cause: io::Error,
    },
    /// A socket has failed.
    #[error("cannot receive datagrams on path {path}: {cause}")]
    Receive {
        /// The path's number.
        path: usize,
        /// What happened.
        cause: io::Error,
    },
    /// No randomness for keys.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
}
