//! One file on one machine: SQLite with a write-ahead log.

mod error;
mod read;
mod reserve;
mod schema;
mod write;

use crate::ArchiveError;
use error::engine_error;
use reserve::Reserve;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is set aside for the time when the disk is full: room for some steps of retention.
pub const DEFAULT_RESERVE_BYTES: u64 = 64 << 20;

/// Pages of 16 kB: pieces of a kilobyte leave little of a page empty.
const PAGE_BYTES: u32 = 16 << 10;

/// Memory for pages, in KiB.
const WRITER_CACHE_KIB: i64 = 32 << 10;
const READER_CACHE_KIB: i64 = 8 << 10;

/// After a checkpoint the log's file is cut to this. What is left of it is room that is already taken when the disk is full.
const MAX_IDLE_LOG_BYTES: u64 = 16 << 20;

/// How long to wait for another process, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// An archive in a file. One writer; any number of [readers](Self::reader), of which one reads at a time.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    name: String,
    writes: bool,
    reserve: Reserve,
    /// Who has it may read. The log can only begin anew while nobody does (it grew from 4 to 822 MB under readers that
    /// overlapped), so a checkpoint takes it, too.
    reader_slot: Arc<Mutex<()>>,
}

impl SqliteStore {
    /// Opens the archive for writing. An empty or missing file becomes one; that of an earlier version is migrated.
    ///
    /// # Errors
    ///
    /// It is of a later version, something else than an archive, or can't be opened.
    pub fn open(path: &Path, reserve_bytes: u64) -> Result<Self, ArchiveError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Self::connect(path, flags, WRITER_CACHE_KIB, reserve_bytes, Arc::default())?;
        let failed = |error| engine_error("set up the database", &path.display().to_string(), error);
        schema::check(&store.connection, &store.name)?;
        store.connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
        // What is deleted can be given back to the file system while the archive is used.
        store.connection.pragma_update(None, "auto_vacuum", "incremental").map_err(failed)?;
        store.connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).map_err(failed)?;
        // What is acknowledged survives a loss of power, too.
        store.connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        // On a schedule instead: never inside a commit that somebody waits for.
        store.connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(failed)?;
        store.connection.pragma_update(None, "journal_size_limit", MAX_IDLE_LOG_BYTES as i64).map_err(failed)?;
        schema::migrate(&mut store.connection, &store.name)?;
        store.reserve.create()?;
        store.writes = true;
        Ok(store)
    }

    /// Opens it for reading alone, as another process does. Within one process, take a [`reader`](Self::reader) of the writer.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); an archive of an earlier version is not migrated, but refused.
    pub fn open_read_only(path: &Path) -> Result<Self, ArchiveError> {
        Self::read_only(path, Arc::default())
    }

    /// A connection for another thread, which only reads.
    ///
    /// # Errors
    ///
    /// The file can't be opened again.
    pub fn reader(&self) -> Result<Self, ArchiveError> {
        Self::read_only(&self.path, Arc::clone(&self.reader_slot))
    }

    /// Copies an archive, as it is at one moment, into a new file, while it is written to by this process or another.
    ///
    /// # Errors
    ///
    /// The file exists, can't be written, or the disk is full.
    pub fn back_up(from: &Path, to: &Path) -> Result<(), ArchiveError> {
        let file = |cause| ArchiveError::File { operation: "write the backup", path: to.to_owned(), cause };
        if to.exists() {
            return Err(file(std::io::ErrorKind::AlreadyExists.into()));
        }
        // One statement on a connection of its own: the copy is of one moment, without what is free, and the writer goes
        // on meanwhile.
        let source = Self::read_only(from, Arc::default())?;
        let name = to.display().to_string();
        let written = source.connection.execute("VACUUM INTO ?1", [&name]);
        written.map_err(|error| engine_error("write the backup", &name, error))?;
        std::fs::File::open(to).and_then(|copy| copy.sync_all()).map_err(file)
    }

    fn read_only(path: &Path, reader_slot: Arc<Mutex<()>>) -> Result<Self, ArchiveError> {
        let store = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, READER_CACHE_KIB, 0, reader_slot)?;
        let found = schema::check(&store.connection, &store.name)?;
        if found < schema::latest_schema() {
            let cause = format!("it has the schema {found}; start the monitor once, which migrates it");
            return Err(ArchiveError::Engine { operation: "read", archive: store.name, cause });
        }
        Ok(store)
    }

    fn connect(
        path: &Path,
        flags: OpenFlags,
        cache_kib: i64,
        reserve_bytes: u64,
        reader_slot: Arc<Mutex<()>>,
    ) -> Result<Self, ArchiveError> {
        let name = path.display().to_string();
        let failed = |error| engine_error("open the database", &name, error);
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.pragma_update(None, "cache_size", -cache_kib).map_err(failed)?;
        connection.pragma_update(None, "temp_store", "memory").map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(64);
        let reserve = Reserve::beside(path, reserve_bytes);
        Ok(SqliteStore { connection, path: path.to_owned(), name, writes: false, reserve, reader_slot })
    }

    fn take_slot(slot: &Mutex<()>) -> std::sync::MutexGuard<'_, ()> {
        // There is nothing in it that a panic could have left half done.
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> ArchiveError + use<> {
        let name = self.name.clone();
        move |error| engine_error(operation, &name, error)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }
}

/// The key of a pair's first piece. Blocks are cut into pieces of a kilobyte, of which a page holds many: whole ones left a
/// quarter of the pages empty.
fn first_key(number: i64, pair: crate::PairId) -> i64 {
    number << 32 | i64::from(pair.0) << 8
}

/// The key of a pair's last piece, which takes all that is left.
fn last_key(first: i64) -> i64 {
    first | 0xff
}
