use crate::lock_file::{IfLocked, LockError, LockFile};
use crate::runtime_dir::{NoRuntimeDir, RuntimeDir};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The right to a resource, such as a name or a network interface, as long as this lives and no longer than its process: the
/// claim of a process that was killed is free.
#[derive(Debug)]
pub struct Claim {
    directory: PathBuf,
    _lock: LockFile,
}

/// Why a resource cannot be claimed.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// It would not make a file name.
    #[error("`{0}` cannot be a name here: give 1 to 64 letters, digits, `-` and `_`")]
    Name(String),
    /// It has an owner.
    #[error("{resource} is in use by process {process}: end that process first")]
    Taken {
        /// What was to be claimed.
        resource: String,
        /// Its owner's number, or `unknown`.
        process: String,
    },
    /// There is no place for the lock file.
    #[error(transparent)]
    Directory(#[from] NoRuntimeDir),
    /// The system refuses the lock.
    #[error("cannot lock {}: {cause}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system answered.
        cause: io::Error,
    },
}

/// Of a resource. Names that people give are shorter, so that a service's kind can stand before them.
const MAX_RESOURCE_BYTES: usize = 128;
const MAX_NAME_BYTES: usize = 64;

impl Claim {
    /// Claims a resource among the users of this directory.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] where it has an owner; or no lock file can be made for it.
    pub fn new(directory: &RuntimeDir, resource: &str) -> Result<Self, ClaimError> {
        check(resource, MAX_RESOURCE_BYTES)?;
        let directory = directory.create()?;
        let path = directory.join(format!("{resource}.lock"));
        let lock = LockFile::lock(path.clone(), IfLocked::Refuse).map_err(|error| match error {
            LockError::Locked(process) => ClaimError::Taken { resource: resource.to_owned(), process },
            LockError::Io(cause) => ClaimError::Io { path, cause },
        })?;
        Ok(Claim { directory, _lock: lock })
    }

    /// Where its lock file is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Whether something can be called this, for a program to check what its user gives.
///
/// # Errors
/// It would not make a file name.
pub fn check_name(name: &str) -> Result<(), ClaimError> {
    check(name, MAX_NAME_BYTES)
}

fn check(name: &str, max_bytes: usize) -> Result<(), ClaimError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = (1..=max_bytes).contains(&name.len()) && name.chars().all(fits);
    if is_name { Ok(()) } else { Err(ClaimError::Name(name.to_owned())) }
}
