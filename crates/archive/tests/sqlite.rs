//! The suite that every engine passes, on SQLite; and what is particular to files.

mod suite;

use kumade_archive::{ArchiveError, SqliteStore};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use suite::{Engine, START, make_pairs, open};

/// A directory that goes when this does.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kumade-archive-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn archive(&self) -> PathBuf {
        self.0.join("archive.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Engine for Directory {
    type Store = SqliteStore;

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.archive(), 1 << 20).unwrap()
    }

    fn reader(&self, store: &mut SqliteStore) -> SqliteStore {
        store.reader().unwrap()
    }
}

#[test]
fn sqlite_passes_the_suite() {
    suite::run(Directory::new);
}

#[test]
fn a_later_schema_and_a_foreign_file_are_refused() {
    let directory = Directory::new();
    make_pairs(&mut open(&directory, START), 1);
    let sql = |path: &PathBuf, sql: &str| rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    sql(&directory.archive(), "PRAGMA user_version = 99");
    for error in [
        SqliteStore::open(&directory.archive(), 0).unwrap_err(),
        SqliteStore::open_read_only(&directory.archive()).unwrap_err(),
    ] {
        assert!(matches!(error, ArchiveError::Newer { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("install the later version"), "{error}");
    }
    let foreign = directory.0.join("foreign.db");
    sql(&foreign, "CREATE TABLE theirs(x)");
    assert!(matches!(SqliteStore::open(&foreign, 0), Err(ArchiveError::Foreign { .. })));
    std::fs::write(&foreign, "this is no database, but it has some length to be read".repeat(20)).unwrap();
    assert!(SqliteStore::open(&foreign, 0).is_err());
}
