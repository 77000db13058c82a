use super::ControlError;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The right to a name, as long as this lives and not longer than its process.
#[derive(Debug)]
pub(super) struct Owner {
    socket: PathBuf,
    lock: PathBuf,
    _locked: Flock<File>,
}

impl Owner {
    /// Takes the name, and clears away the socket of one that died.
    pub(super) fn new(directory: &Path, name: &str) -> Result<Self, ControlError> {
        let (socket, lock) = (socket(directory, name), directory.join(format!("{name}.lock")));
        let failed = |cause| ControlError::NoPlace { directory: directory.to_owned(), cause };
        let taken = |process| ControlError::Taken { name: name.to_owned(), process };
        loop {
            let file = open(&lock).map_err(failed)?;
            let mut locked = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => locked,
                Err((file, nix::errno::Errno::EWOULDBLOCK)) => return Err(taken(read_process(file))),
                Err((_, error)) => return Err(failed(error.into())),
            };
            // Who had the name before may have removed the file after it was opened here.
            if !is_still(&lock, &locked).map_err(failed)? {
                continue;
            }
            locked.set_len(0).and_then(|()| write!(locked, "{}", std::process::id())).map_err(failed)?;
            match fs::remove_file(&socket) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => return Ok(Owner { socket, lock, _locked: locked }),
            }
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for path in [&self.socket, &self.lock] {
            if let Err(error) = fs::remove_file(path) {
                tracing::debug!("cannot remove {}: {error}", path.display());
            }
        }
    }
}

/// Where the socket of that name is.
pub(super) fn socket(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.sock"))
}

fn open(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_still(path: &Path, file: &File) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.ino() == file.metadata()?.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_process(file: File) -> String {
    let mut text = String::new();
    match file.take(20).read_to_string(&mut text) {
        Ok(1..) => text,
        _ => "unknown".to_owned(),
    }
}
