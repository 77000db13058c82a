use crate::lock_file::{LockError, LockFile, WhenLocked};
use crate::runtime_dir::{NoRuntimeDir, RuntimeDir};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The right to a resource, such as a name or a network interface, as long as this lives and no longer than its process: the
/// claim of a process that was killed is free.
#[derive(Debug)]
pub struct NameLock {
    directory: PathBuf,
    _lock: LockFile,
}

/// Why a resource cannot be claimed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NameLockError {
    /// It would not make a file name.
    #[error("`{0}` cannot be a name here: give 1 to 64 letters, digits, `-` and `_`")]
    InvalidName(String),
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

impl NameLock {
    /// Claims a resource among the users of this directory.
    ///
    /// # Errors
    /// [`NameLockError::Taken`] where it has an owner; or no lock file can be made for it.
    pub fn new(directory: &RuntimeDir, resource: &str) -> Result<Self, NameLockError> {
        check_length(resource, MAX_RESOURCE_BYTES)?;
        let directory = directory.create()?;
        let path = directory.join(format!("{resource}.lock"));
        let lock = LockFile::lock(path.clone(), WhenLocked::Refuse).map_err(|error| match error {
            LockError::Locked(process) => NameLockError::Taken { resource: resource.to_owned(), process },
            LockError::Io(cause) => NameLockError::Io { path, cause },
        })?;
        Ok(NameLock { directory, _lock: lock })
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
pub fn check_name(name: &str) -> Result<(), NameLockError> {
    check_length(name, MAX_NAME_BYTES)
}

fn check_length(name: &str, max_bytes: usize) -> Result<(), NameLockError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = (1..=max_bytes).contains(&name.len()) && name.chars().all(fits);
    if is_name { Ok(()) } else { Err(NameLockError::InvalidName(name.to_owned())) }
}
