use crate::ArchiveError;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file that only takes room: SQLite can't delete on a full disk, so this is given up first.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

const PIECE_BYTES: u64 = 1 << 20;

impl Reserve {
    pub(crate) fn beside(archive: &Path, bytes: u64) -> Self {
        let mut path = archive.to_owned().into_os_string();
        path.push("-reserve");
        Reserve { path: path.into(), bytes }
    }

    /// How much is set aside now.
    pub(crate) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |data| data.len())
    }

    /// Sets the room aside: false where it is not there.
    pub(crate) fn create(&self) -> Result<bool, ArchiveError> {
        if self.length() == self.bytes {
            return Ok(true);
        }
        let written = self.write();
        if written.is_err() {
            self.remove()?;
        }
        match written {
            Err(cause) if !matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                Err(ArchiveError::File { operation: "write the reserve", path: self.path.clone(), cause })
            }
            written => Ok(written.is_ok()),
        }
    }

    pub(crate) fn remove(&self) -> Result<(), ArchiveError> {
        match fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(ArchiveError::File { operation: "give up the reserve", path: self.path.clone(), cause })
            }
            _ => Ok(()),
        }
    }

    /// Bytes and not a hole, which would take no room.
    fn write(&self) -> std::io::Result<()> {
        let mut file = File::create(&self.path)?;
        let piece = vec![0xa5; PIECE_BYTES as usize];
        let mut left = self.bytes;
        while left > 0 {
            let length = left.min(PIECE_BYTES);
            file.write_all(&piece[..length as usize])?;
            left -= length;
        }
        file.sync_all()
    }
}
