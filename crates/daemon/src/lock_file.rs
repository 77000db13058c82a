use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that this process has locked (flock(2)) and that names it. The kernel frees the lock when the process ends, however
/// that happens; the file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    _locked: File,
}

/// What to do while another process has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenLocked {
    Wait,
    Refuse,
}

/// Why a file cannot be locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// By which process it is, as far as that is known.
    Locked(String),
    Io(io::Error),
}

impl LockFile {
    pub(crate) fn lock(path: PathBuf, if_locked: WhenLocked) -> Result<Self, LockError> {
        loop {
            let file = open_lock_file(&path).map_err(LockError::Io)?;
            let mut locked = flock(file, if_locked)?;
            // The former owner may have removed the file after it was opened here.
            if !is_same_file(&path, &locked).map_err(LockError::Io)? {
                continue;
            }
            let written = locked.set_len(0).and_then(|()| write!(locked, "{}", std::process::id()));
            // From here on the file goes with this, also where it could not be written.
            let lock = LockFile { path, _locked: locked };
            return written.map(|()| lock).map_err(LockError::Io);
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        remove_if_exists(&self.path);
    }
}

/// Removes a file that may be gone already.
pub(crate) fn remove_if_exists(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

fn flock(file: File, if_locked: WhenLocked) -> Result<File, LockError> {
    let locked = match if_locked {
        WhenLocked::Wait => file.lock().map_err(TryLockError::Error),
        WhenLocked::Refuse => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LockError::Locked(read_owner_process(file))),
        Err(TryLockError::Error(error)) => Err(LockError::Io(error)),
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_same_file(path: &Path, file: &File) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.ino() == file.metadata()?.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_owner_process(file: File) -> String {
    let mut text = String::new();
    match file.take(20).read_to_string(&mut text) {
        Ok(1..) => text,
        _ => "unknown".to_owned(),
    }
}
