//! A place for an archive.

use crate::suite::Engine;
use kumade_archive::SqliteStore;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes when this does.
pub struct Directory(pub PathBuf);

impl Directory {
    /// On the disk.
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// In memory, if the system has such a place: what a killed process leaves is the same, and nobody waits for a disk.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::new() }
    }

    pub fn archive(&self) -> PathBuf {
        self.0.join("archive.db")
    }

    fn below(place: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("kumade-archive-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
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
