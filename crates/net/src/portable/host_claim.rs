//! The right to measure at this host, of which one process at a time makes use.

use std::fmt::{self, Display, Formatter};
use std::fs::{File, TryLockError};
use std::{env, io};

/// The right to measure at this host among all processes of this user, as long as this lives and no longer than its process: a lock on a
/// file of the user's directory for temporary files, which is left there.
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

/// Who measures at this host, which this system does not say of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostClaimHolder;

impl HostClaim {
    /// Claims this host.
    ///
    /// # Errors
    /// Somebody has it, or it cannot be had.
    pub fn try_new() -> Result<Self, HostClaimError> {
        let path = env::temp_dir().join("kumade-host-claim");
        let file = File::options().create(true).append(true).open(path).map_err(HostClaimError::Io)?;
        match file.try_lock() {
            Ok(()) => Ok(HostClaim { _locked: file }),
            Err(TryLockError::WouldBlock) => Err(HostClaimError::Held),
            Err(TryLockError::Error(error)) => Err(HostClaimError::Io(error)),
        }
    }

    /// Who has it now: nobody that this system names.
    ///
    /// # Errors
    /// None.
    pub fn current_holder() -> io::Result<Option<HostClaimHolder>> {
        Ok(None)
    }
}

impl Display for HostClaimHolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("another process of this user")
    }
}
