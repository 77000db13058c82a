use crate::ArchiveError;
use postgres::Error;
use postgres::error::SqlState;
use std::error::Error as _;

/// A full disk is told apart: it is a state, not a fault.
pub(super) fn engine_error(operation: &'static str, archive: &str, error: Error) -> ArchiveError {
    let archive = archive.to_owned();
    if error.code() == Some(&SqlState::DISK_FULL) {
        return ArchiveError::DiskFull { operation, archive };
    }
    // "db error" alone says nothing.
    let cause = match (error.as_db_error(), error.source()) {
        (Some(database), _) => database.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    ArchiveError::Engine { operation, archive, cause }
}
