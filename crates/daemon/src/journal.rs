use crate::lock_file::{LockError, LockFile, WhenLocked, remove_if_exists};
use crate::runtime_dir::RuntimeDir;
use kumade_net::namespace::{NamespaceId, Presence};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

/// A change to the calling thread's network namespace that outlives its process: written down before it is made, so that
/// whoever comes next there can undo it where the process was killed.
pub trait Leftover: Serialize + DeserializeOwned {
    /// The kind of change, such as `offloads`: names its files.
    const KIND: &'static str;
    /// Why it cannot be undone.
    type Error: Display;

    /// Whether what was changed is still there, and not another thing of its name.
    fn exists(&self) -> bool;

    /// Undoes the change.
    ///
    /// # Errors
    /// The system refuses. The leftover stays on record then.
    fn undo(&self) -> Result<(), Self::Error>;

    /// What stays where that fails, and until when, for the log.
    fn stays(&self) -> String {
        format!("a change of {} stays", Self::KIND)
    }
}

/// A change that is on record until this is dropped: then it is undone, or left to whoever comes next.
#[derive(Debug)]
pub struct RecordedChange<L: Leftover> {
    leftover: L,
    // Goes once the change is undone.
    record: Option<Record>,
}

/// A record of changes to the system, one file each.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: RuntimeDir,
}

/// A change that this process has made and will undo itself. Drop it once that is done.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    /// Free once the process has ended, however that happens: then the change is left over.
    locked_file: File,
}

/// What is in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Entry<L> {
    /// When the system restarts, all changes are gone.
    boot: String,
    /// Its processes have to see to it; when it is gone, so is the change.
    namespace: NamespaceId,
    /// For people.
    process: u32,
    leftover: L,
}

impl Journal {
    /// The record in this directory.
    pub fn new(directory: RuntimeDir) -> Self {
        Journal { directory }
    }

    /// Writes down a change that is about to be made.
    ///
    /// # Errors
    /// It cannot be written down: should the process be killed, the change would stay.
    pub fn record<L: Leftover>(&self, leftover: &L) -> io::Result<Record> {
        // Whoever comes next may have another environment, and must find it.
        let directory = self.directory.create_persistent().map_err(io::Error::other)?;
        let _turn = lock_kind(&directory, L::KIND)?;
        let process = process::id();
        let entry = Entry { boot: boot_id(), namespace: NamespaceId::current()?, process, leftover };
        let entry = serde_json::to_vec(&entry)?;
        let (path, locked) = create_entry_file(&directory, &format!("{}-{process}", L::KIND))?;
        // From here on the file goes with this, also where it cannot be written.
        let mut record = Record { path, locked_file: locked };
        record.locked_file.try_lock()?;
        record.locked_file.write_all(&entry)?;
        Ok(record)
    }

    /// Undoes the changes that killed processes have left in this namespace, and forgets those that went with others. Whatever
    /// cannot be undone is logged, and stays on record.
    pub fn recover<L: Leftover>(&self) {
        for directory in self.directory.own_candidates() {
            match lock_kind(directory, L::KIND) {
                Ok(_turn) => entry_files::<L>(directory).iter().for_each(|path| recover_one::<L>(path)),
                Err(error) => tracing::warn!("cannot look for leftovers in {}: {error}", directory.display()),
            }
        }
    }
}

impl Journal {
    /// Forgets all changes, of whatever kind, that went with their namespaces. To know that takes more capabilities than it
    /// takes to undo changes: to be called before a process gives them up. What it is not certain of stays on record.
    pub fn forget_gone_namespaces(&self) {
        for directory in self.directory.own_candidates() {
            for (path, kind) in all_entry_files(directory) {
                match lock_kind(directory, &kind) {
                    Ok(_turn) => forget_if_gone(&path),
                    Err(error) => tracing::warn!("cannot look for leftovers in {}: {error}", directory.display()),
                }
            }
        }
    }
}

impl Record {
    /// Leaves the change to whoever comes next, since it could not be undone.
    pub fn leave_to_successor(self) {
        // The lock goes with the process at the latest.
        std::mem::forget(self);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        remove_if_exists(&self.path);
    }
}

impl<L: Leftover> RecordedChange<L> {
    /// Writes down a change that is about to be made.
    ///
    /// # Errors
    /// As [`Journal::record`].
    pub fn new(leftover: L, journal: &Journal) -> io::Result<Self> {
        let record = Some(journal.record(&leftover)?);
        Ok(RecordedChange { leftover, record })
    }

    /// Writes down another change in place of this one.
    ///
    /// # Errors
    /// As [`Journal::record`]; then it is as before.
    pub fn replace(&mut self, leftover: L, journal: &Journal) -> io::Result<()> {
        self.record = Some(journal.record(&leftover)?);
        self.leftover = leftover;
        Ok(())
    }

    /// What is to be undone.
    pub fn leftover(&self) -> &L {
        &self.leftover
    }
}

impl<L: Leftover> Drop for RecordedChange<L> {
    fn drop(&mut self) {
        if self.leftover.exists()
            && let Err(error) = self.leftover.undo()
        {
            tracing::warn!("{}: {error}", self.leftover.stays());
            self.record.take().into_iter().for_each(Record::leave_to_successor);
        }
    }
}

/// One process at a time reads or writes the record, so that nothing is undone that another process has just undone and
/// changed anew.
fn lock_kind(directory: &Path, kind: &str) -> io::Result<LockFile> {
    let path = directory.join(format!("{kind}-journal.lock"));
    LockFile::lock(path, WhenLocked::Wait).map_err(|error| match error {
        LockError::Io(error) => error,
        LockError::Locked(process) => io::Error::other(format!("process {process} has the record")),
    })
}

fn create_entry_file(directory: &Path, stem: &str) -> io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let path = directory.join(format!("{stem}-{number}.json"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            outcome => return outcome.map(|file| (path, file)),
        }
    }
}

/// With their kinds: `KIND-PROCESS-NUMBER.json`.
fn all_entry_files(directory: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let with_kind = |path: PathBuf| {
        let mut parts = path.file_name()?.to_str()?.strip_suffix(".json")?.rsplitn(3, '-');
        let [number, process] = [parts.next()?, parts.next()?];
        let is_number = |part: &str| part.parse::<u32>().is_ok();
        let kind = parts.next().filter(|_| is_number(number) && is_number(process))?.to_owned();
        Some((path, kind))
    };
    entries.filter_map(with_kind).collect()
}

fn entry_files<L: Leftover>(directory: &Path) -> Vec<PathBuf> {
    all_entry_files(directory).into_iter().filter(|(_, kind)| kind == L::KIND).map(|(path, _)| path).collect()
}

fn recover_one<L: Leftover>(path: &Path) {
    // Kept open while it is looked at.
    let Some((_locked, entry)) = read_left_entry::<L>(path) else { return };
    match entry {
        Some(entry) if entry.boot == boot_id() => undo_entry(path, &entry),
        // The system was restarted; or the process was killed while it wrote, before it made the change.
        _ => remove_if_exists(path),
    }
}

fn forget_if_gone(path: &Path) {
    if let Some((_locked, Some(entry))) = read_left_entry::<IgnoredAny>(path)
        && (entry.boot != boot_id() || entry.namespace.presence() == Presence::Gone)
    {
        remove_if_exists(path);
    }
}

/// A file whose process has ended, locked, and what is written there if it can be read.
fn read_left_entry<L: DeserializeOwned>(path: &Path) -> Option<(File, Option<Entry<L>>)> {
    let file = File::open(path).ok()?;
    // Locked: its process lives.
    file.try_lock().ok()?;
    let mut text = String::new();
    let read = (&file).take(MAX_ENTRY_BYTES).read_to_string(&mut text);
    let entry = read.ok().and_then(|_| serde_json::from_str(&text).ok());
    Some((file, entry))
}

fn undo_entry<L: Leftover>(path: &Path, Entry { namespace, process, leftover, .. }: &Entry<L>) {
    match namespace.presence() {
        Presence::Elsewhere => {}
        Presence::Here if leftover.exists() => match leftover.undo() {
            Ok(()) => {
                tracing::info!("undid a change of {} that process {process} had left", L::KIND);
                remove_if_exists(path);
            }
            Err(error) => {
                tracing::warn!("cannot undo a change of {} that process {process} left: {error}", L::KIND);
            }
        },
        Presence::Here | Presence::Gone => remove_if_exists(path),
    }
}

/// A longer file is none of ours.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

/// Differs from one start of the system to the next.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
