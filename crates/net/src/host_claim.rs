//! The right to measure at this host, of which one process at a time makes use.

#[cfg_attr(not(target_os = "linux"), path = "portable/holder.rs")]
mod holder;

pub use holder::HostClaimHolder;

use std::fs::{File, TryLockError};
use std::io;

/// The right to measure at this host among all processes of all users there, as long as this lives and no longer than its process. The
/// host is the network namespace of the thread that claims it; where there are none, all of it, among the processes of one user.
///
/// It is a lock (flock(2)) on the namespace's own file in /proc: no directory is needed, nothing is left behind, and a process that has
/// given its privileges up may take it (a confined one may not open local sockets). Any process there may: a claim keeps programs from
/// disturbing each other by mistake. Elsewhere it is one on a file of the user's directory for temporary files, which is left there.
#[derive(Debug)]
pub struct HostClaim {
    _locked: File,
}

/// Why there is no claim.
#[derive(Debug)]
pub enum HostClaimError {
    /// Another process, or another thread of this one, measures.
    Held,
    /// The system has no such file, or refuses the lock.
    Io(io::Error),
}

impl HostClaim {
    /// Claims this host.
    ///
    /// # Errors
    /// Somebody has it, or it cannot be had.
    pub fn try_new() -> Result<Self, HostClaimError> {
        let file = holder::open_host_file().map_err(HostClaimError::Io)?;
        match file.try_lock() {
            Ok(()) => Ok(HostClaim { _locked: file }),
            Err(TryLockError::WouldBlock) => Err(HostClaimError::Held),
            Err(TryLockError::Error(error)) => Err(HostClaimError::Io(error)),
        }
    }

    /// Who has it now, if anybody has; a process of another PID namespace is not seen, and no process where the system does not tell of locks. It is
    /// not tried to be had, so that nobody is kept from it by who looks.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current_holder() -> io::Result<Option<HostClaimHolder>> {
        holder::find_holder(&holder::open_host_file()?)
    }
}
