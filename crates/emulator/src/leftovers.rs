//! What a bridge has changed in the system, written down so that the next one can put it back where this one was
//! killed.

use crate::EmulatorError;
use net::interface;
use net::offloads::{Offloads, Switches};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, io, process};

/// An interface that joins no packets as they arrive: its receive offloads are off. They are put back as they were found
/// when this is dropped.
#[derive(Debug)]
pub(crate) struct OffloadGuard {
    name: String,
    switches: Switches,
    found: Offloads,
    /// Where that is written down, if anywhere.
    note: Option<PathBuf>,
}

/// What stands in a note.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    owner: Owner,
    /// The network namespace: its inode.
    namespace: u64,
    interface: String,
    /// Its number: another interface of that name has another one.
    index: u32,
    offloads: BTreeMap<String, u32>,
}

/// A process, told from a later one with its number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    process: u32,
    /// Clock ticks since the system started, as proc(5) has it.
    started: u64,
}

impl OffloadGuard {
    /// Switches the receive offloads of an interface off, after those that a killed bridge left off are put back.
    pub(crate) fn of(name: &str) -> Result<Self, EmulatorError> {
        repair(name)?;
        let switches = Switches::open(name)?;
        let found = switches.read()?;
        let note = write_note(name, found).unwrap_or_else(|error| {
            tracing::warn!(
                "cannot write down how the offloads of {name} were set ({error}): should this process be killed, they \
                 stay off; `ethtool -K {name} gro on` switches them on"
            );
            None
        });
        let guard = OffloadGuard { name: name.into(), switches, found, note };
        guard.switches.set(found.receiving_off())?;
        Ok(guard)
    }
}

impl Drop for OffloadGuard {
    fn drop(&mut self) {
        // ENODEV: the interface is gone, and its settings with it.
        const GONE: i32 = 19;
        if let Err(error) = self.switches.set(self.found)
            && error.io().raw_os_error() != Some(GONE)
        {
            tracing::warn!("the offloads of {} stay off: {error}", self.name);
        }
        if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
    }
}

/// Puts back what killed bridges have left in this namespace, of this interface or another. None alive may have this one.
fn repair(name: &str) -> Result<(), EmulatorError> {
    let here = namespace().ok();
    for (path, note) in notes().into_iter().filter(|(_, note)| Some(note.namespace) == here) {
        // An interface that came later is another one's, and the settings of one that is gone went with it.
        let is_there = interface::index(&note.interface).is_ok_and(|index| index == note.index);
        if note.owner.is_alive() {
            if is_there && note.interface == name {
                return Err(EmulatorError::Taken { interface: note.interface, process: note.owner.process });
            }
        } else if is_there && let Err(error) = note.put_back() {
            tracing::warn!("the offloads of {} stay off: {error}", note.interface);
        } else {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

impl Note {
    fn put_back(&self) -> Result<(), EmulatorError> {
        tracing::info!(
            "putting back the offloads of {}, which process {} left off",
            self.interface,
            self.owner.process
        );
        let entries = self.offloads.iter().map(|(key, value)| (key.as_str(), *value));
        Ok(Switches::open(&self.interface)?.set(Offloads::from_entries(entries))?)
    }
}

impl Owner {
    fn of(process: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name, in brackets, may hold anything; the start is the 20th field behind it.
        let started = status.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        Some(Owner { process, started })
    }

    fn is_alive(self) -> bool {
        Owner::of(self.process) == Some(self)
    }
}

fn write_note(name: &str, found: Offloads) -> io::Result<Option<PathBuf>> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Some(directory) = directory() else { return Err(io::ErrorKind::NotFound.into()) };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let process = process::id();
    let note = Note {
        owner: Owner::of(process).ok_or(io::ErrorKind::NotFound)?,
        namespace: namespace()?,
        interface: name.into(),
        index: interface::index(name).map_err(io::Error::other)?,
        offloads: found.entries().map(|(key, value)| (key.to_owned(), value)).collect(),
    };
    let path = directory.join(format!("bridge-{process}-{}.json", COUNT.fetch_add(1, Ordering::Relaxed)));
    // First beside its place, so that nobody reads half of it.
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, serde_json::to_vec(&note)?)?;
    fs::rename(unfinished, &path)?;
    Ok(Some(path))
}

/// All that can be read; anything else there is no concern of ours.
fn notes() -> Vec<(PathBuf, Note)> {
    let entries = directory().and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    paths.filter_map(|path| Some((path.clone(), serde_json::from_slice(&fs::read(&path).ok()?).ok()?))).collect()
}

/// Emptied when the system starts, as the settings are.
fn directory() -> Option<PathBuf> {
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) if !directory.is_empty() => Some(PathBuf::from(directory).join("kumade")),
        _ => Some(PathBuf::from("/run/kumade")),
    }
}

fn namespace() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|data| data.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_with_its_number() {
        let own = Owner::of(process::id()).unwrap();
        assert!(own.is_alive());
        assert!(!Owner { started: own.started + 1, ..own }.is_alive());
        assert!(Owner::of(u32::MAX).is_none());
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let offloads = BTreeMap::from([("tso".to_owned(), 1)]);
        let owner = Owner { process: 7, started: 8 };
        let note = Note { owner, namespace: 9, interface: "eth0".into(), index: 2, offloads };
        let text = serde_json::to_vec(&note).unwrap();
        assert_eq!(serde_json::from_slice::<Note>(&text).unwrap(), note);
        let entries = note.offloads.iter().map(|(key, value)| (key.as_str(), *value));
        assert_eq!(Offloads::from_entries(entries).entries().collect::<Vec<_>>(), [("tso", 1)]);
    }
}
