//! Where the archive of a configuration is.

use crate::config::MonitorConfig;
use kumade_archive::{AnyStore, ArchiveError, DEFAULT_RESERVE_BYTES, PostgresStore, SqliteStore};
use std::path::{Path, PathBuf};

/// The archive's file in its directory.
const FILE_NAME: &str = "archive.db";

impl MonitorConfig {
    /// Whether other hosts use the same archive.
    pub fn is_archive_shared(&self) -> bool {
        self.database.is_some()
    }

    /// What is set aside beside a file.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        if self.is_archive_shared() { 0 } else { DEFAULT_RESERVE_BYTES }
    }

    /// Opens the archive in a file for writing.
    pub(crate) fn open_own_archive(&self) -> Result<AnyStore, ArchiveError> {
        SqliteStore::open(&self.archive_file(), self.reserved_bytes()).map(AnyStore::Sqlite)
    }

    /// Opens the archive for reading, as another process does.
    pub(crate) fn open_archive_read_only(&self) -> Result<AnyStore, ArchiveError> {
        match &self.database {
            Some(address) => PostgresStore::open_read_only(address).map(AnyStore::from),
            None => SqliteStore::open_read_only(&self.archive_file()).map(AnyStore::Sqlite),
        }
    }

    /// Copies its archive, as it is at one moment, to a new file, also while a monitor writes it. As `archive.db` in a directory, it is one.
    ///
    /// # Errors
    /// The file exists or cannot be written, there is no archive, or it is in a database that has its own means.
    pub fn back_up(&self, to: &Path) -> Result<(), ArchiveError> {
        if self.is_archive_shared() {
            let cause = "it is in PostgreSQL: copy it by pg_dump".to_owned();
            return Err(ArchiveError::Engine { operation: "copy", archive: "the archive".to_owned(), cause });
        }
        SqliteStore::back_up(&self.archive_file(), to)
    }

    fn archive_file(&self) -> PathBuf {
        self.archive.join(FILE_NAME)
    }
}
