use crate::ArchiveError;
use nix::errno::Errno;
use rusqlite::ErrorCode;

/// A full disk is told apart: it is a state, not a fault.
pub(super) fn engine_error(operation: &'static str, archive: &str, error: rusqlite::Error) -> ArchiveError {
    /// SQLITE_IOERR_WRITE and SQLITE_IOERR_SHMSIZE: what a full disk comes to where SQLite does not look at the cause.
    const WRITE_FAILED: [i32; 2] = [778, 4874];
    let full = error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || WRITE_FAILED.contains(&error.extended_code) && last_error_is_full()
    });
    let archive = archive.to_owned();
    match full {
        true => ArchiveError::DiskFull { operation, archive },
        false => ArchiveError::Engine { operation, archive, cause: error.to_string() },
    }
}

fn last_error_is_full() -> bool {
    matches!(Errno::last(), Errno::ENOSPC | Errno::EDQUOT)
}
