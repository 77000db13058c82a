use crate::alerts::NotifierError;
use crate::config::FixedSetting;
use crate::estimate::Overloaded;
use crate::https::AuthoritiesError;
use crate::page::{PageError, TlsError};
use kumade_archive::ArchiveError;
use kumade_daemon::ExporterError;
use kumade_planner::PlanError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why a monitor cannot start, or has ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// Its archive cannot be opened.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The archive's directory cannot be made.
    #[error("cannot make the archive's directory {}: {cause}; choose another with archive = \"DIRECTORY\" in [monitor]", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The targets make no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The measurements do not fit into their periods.
    #[error(transparent)]
    Overload(#[from] Overloaded),
    /// The configuration differs in what a running monitor keeps.
    #[error(transparent)]
    Fixed(#[from] FixedSetting),
    /// Its page cannot be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Somebody cannot be told of alerts.
    #[error(transparent)]
    Notifier(#[from] NotifierError),
    /// Its page cannot be served.
    #[error(transparent)]
    Page(#[from] PageError),
    /// Its metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] ExporterError),
    /// Agents cannot be listened for.
    #[error(
        "cannot listen for agents at {address}: {cause}; choose another address with listen = \"ADDRESS:PORT\" in [monitor]"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        cause: io::Error,
    },
    /// Figures cannot be sent to another database.
    #[error("[remote-write]: {0}")]
    RemoteWrite(#[from] AuthoritiesError),
    /// Another host leads; this one may stand by.
    #[error("another host has taken over the archive")]
    Deposed,
    /// The system has no thread, no epoll or no random number for it.
    #[error("cannot start to monitor: {0}")]
    System(io::Error),
    /// A thread has panicked, which has been reported.
    #[error("the monitor has ended by a fault of the program")]
    Ended,
}
