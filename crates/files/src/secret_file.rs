use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a file with a secret is not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretFileError {
    /// It cannot be read.
    #[error("cannot read the {kind} {}: {cause}", path.display())]
    Read {
        /// What messages call it.
        kind: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system answered; it stands in the text, and is therefore not the source.
        cause: io::Error,
    },
    /// It is longer than it may be.
    #[error("the {kind} {} is longer than {max_bytes} bytes", path.display())]
    TooLong {
        /// What messages call it.
        kind: &'static str,
        /// Which.
        path: PathBuf,
        /// How long it may be.
        max_bytes: u64,
    },
    /// It is not its owner's alone.
    #[error("all users can read, or others can write, the {kind} {}: run chmod 600 on it", path.display())]
    Exposed {
        /// What messages call it.
        kind: &'static str,
        /// Which.
        path: PathBuf,
    },
}

/// Reads a text file with secrets, of `max_bytes` at most; messages call it the `kind`, such as a key file. Who may read it besides its owner is a
/// group, which is told of in the log; nobody else may write it. (Other systems than Unix have access lists, which whoever makes the file inherits.)
///
/// # Errors
/// It cannot be read, is too long, or others can read or write it.
pub fn read_secret(path: &Path, kind: &'static str, max_bytes: u64) -> Result<String, SecretFileError> {
    let failed = |cause| SecretFileError::Read { kind, path: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    #[cfg(unix)]
    check_mode(&file, kind, path)?;
    let mut text = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > max_bytes {
        return Err(SecretFileError::TooLong { kind, path: path.to_owned(), max_bytes });
    }
    // PEM may have comments in other encodings.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(unix)]
fn check_mode(file: &File, kind: &'static str, path: &Path) -> Result<(), SecretFileError> {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, PoisonError};

    /// Files that a group can read: each is told of once, however often it is read.
    static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

    let found = file.metadata().map_err(|cause| SecretFileError::Read { kind, path: path.to_owned(), cause })?;
    // A pipe or a device has other means. A group may be trusted on purpose, and the group's bits may stand for an access
    // list of one user (acl(5)), as that of a service manager's credentials does.
    let mode = if found.is_file() { found.permissions().mode() } else { 0 };
    if mode & 0o027 != 0 {
        return Err(SecretFileError::Exposed { kind, path: path.to_owned() });
    }
    if mode & 0o040 != 0 && TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        let name = path.display();
        tracing::warn!("a group can read the {kind} {name}: unless that is meant to be, run chmod 600 on it");
    }
    Ok(())
}
