//! What an agent has not delivered yet, on its disk: bounded, so that the oldest is given up.

use super::frame::Batch;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Which batch: the process that made it, and its number.
pub(super) type BatchKey = (u64, u64);

/// A segment is closed once it is longer: what is deleted at once.
const SEGMENT_BYTES: u64 = 4 << 20;
/// In all. A probe takes some 40 bytes: a day of a hundred peers, at one a second.
const MAX_SPOOL_BYTES: u64 = 512 << 20;
/// Before each entry, its length.
const LENGTH_BYTES: u64 = 4;

/// Files of batches.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    /// By number.
    segments: BTreeMap<u64, Segment>,
    /// By the order in which they came.
    entries: BTreeMap<u64, Entry>,
    order: BTreeMap<BatchKey, u64>,
    next_order: u64,
    max_bytes: u64,
    open: Option<File>,
}

#[derive(Debug, Default)]
struct Segment {
    bytes: u64,
    entries: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: BatchKey,
    segment: u64,
    offset: u64,
    length: u32,
}

impl Spool {
    /// Takes over what an earlier process has left.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        Spool::open_bounded(directory, MAX_SPOOL_BYTES)
    }

    fn open_bounded(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let mut spool = Spool {
            directory: directory.to_owned(),
            segments: BTreeMap::new(),
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            next_order: 0,
            max_bytes,
            open: None,
        };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".batches")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        numbers.into_iter().try_for_each(|number| spool.load(number))?;
        Ok(spool)
    }

    /// How many batches wait.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keeps a batch; it is on the disk once this returns.
    ///
    /// # Errors
    /// The disk takes nothing.
    pub(super) fn push(&mut self, batch: &Batch) -> io::Result<()> {
        let bytes = serde_json::to_vec(batch).unwrap_or_default();
        let number = match self.segments.last_key_value() {
            Some((number, segment)) if self.open.is_some() && segment.bytes < SEGMENT_BYTES => *number,
            last => {
                // What an earlier process has left may end in the middle of an entry: it is not written any more.
                let number = last.map_or(0, |(number, _)| number + 1);
                let mut options = OpenOptions::new();
                self.open = Some(options.create_new(true).append(true).mode(0o600).open(self.path(number))?);
                self.segments.insert(number, Segment::default());
                number
            }
        };
        let (Some(file), Some(segment)) = (&mut self.open, self.segments.get_mut(&number)) else { return Ok(()) };
        let written =
            file.write_all(&[&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // The next one begins a new file; one with nothing in it would stay, and there is one more with each attempt.
            self.open = None;
            if segment.entries.is_empty() {
                self.delete(number);
            }
            return Err(error);
        }
        let offset = segment.bytes + LENGTH_BYTES;
        segment.bytes = offset + bytes.len() as u64;
        self.add(Entry { key: (batch.instance, batch.sequence), segment: number, offset, length: bytes.len() as u32 });
        self.bound();
        Ok(())
    }

    /// The newest batch that is not among those.
    pub(super) fn newest(&mut self, except: impl Fn(&BatchKey) -> bool) -> Option<Batch> {
        let entry = self.entries.values().rev().find(|entry| !except(&entry.key)).copied()?;
        let batch = self.read(&entry);
        if batch.is_none() {
            tracing::warn!("a batch in {} cannot be read, and is given up", self.path(entry.segment).display());
            self.remove(&entry.key);
        }
        batch
    }

    /// It has been delivered.
    pub(super) fn remove(&mut self, key: &BatchKey) {
        let Some(order) = self.order.remove(key) else { return };
        let Some(entry) = self.entries.remove(&order) else { return };
        let Some(segment) = self.segments.get_mut(&entry.segment) else { return };
        segment.entries.remove(&order);
        if segment.entries.is_empty() {
            self.delete(entry.segment);
        }
    }

    fn read(&self, entry: &Entry) -> Option<Batch> {
        let mut bytes = vec![0; entry.length as usize];
        File::open(self.path(entry.segment)).ok()?.read_exact_at(&mut bytes, entry.offset).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Deletes the oldest segments while there is too much.
    fn bound(&mut self) {
        while self.segments.len() > 1
            && self.segments.values().map(|segment| segment.bytes).sum::<u64>() > self.max_bytes
        {
            let Some((&number, segment)) = self.segments.first_key_value() else { return };
            tracing::warn!(
                "{} batches are given up: the coordinator has been away for too long",
                segment.entries.len()
            );
            self.delete(number);
        }
    }

    fn delete(&mut self, number: u64) {
        if self.segments.last_key_value().is_some_and(|(last, _)| *last == number) {
            self.open = None;
        }
        for order in self.segments.remove(&number).unwrap_or_default().entries {
            if let Some(entry) = self.entries.remove(&order) {
                self.order.remove(&entry.key);
            }
        }
        if let Err(error) = fs::remove_file(self.path(number)) {
            tracing::warn!("cannot remove {}: {error}", self.path(number).display());
        }
    }

    fn add(&mut self, entry: Entry) {
        let order = self.next_order;
        self.next_order += 1;
        self.order.insert(entry.key, order);
        self.entries.insert(order, entry);
        self.segments.entry(entry.segment).or_default().entries.insert(order);
    }

    /// Reads which batches a segment has, up to the first that is not whole.
    fn load(&mut self, number: u64) -> io::Result<()> {
        let mut file = File::open(self.path(number))?;
        let size = file.metadata()?.len();
        self.segments.insert(number, Segment { bytes: size, entries: BTreeSet::new() });
        let mut offset = 0;
        loop {
            let mut length = [0; LENGTH_BYTES as usize];
            file.seek(SeekFrom::Start(offset))?;
            if file.read_exact(&mut length).is_err() {
                break;
            }
            let length = u32::from_be_bytes(length);
            offset += LENGTH_BYTES;
            let mut entry = Entry { key: (0, 0), segment: number, offset, length };
            offset += u64::from(length);
            if offset > size {
                break;
            }
            let Some(batch) = self.read(&entry) else { break };
            entry.key = (batch.instance, batch.sequence);
            self.add(entry);
        }
        if self.segments.get(&number).is_none_or(|segment| segment.entries.is_empty()) {
            self.delete(number);
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:08}.batches"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_daemon::PrivateDirectory;

    fn batch(instance: u64, sequence: u64) -> Batch {
        Batch { instance, sequence, ..Batch::default() }
    }

    #[test]
    fn what_was_not_delivered_is_there_for_the_next_process_the_newest_first() {
        let directory = PrivateDirectory::new("kumade-spool").unwrap();
        let mut spool = Spool::open(directory.path()).unwrap();
        (0..5).for_each(|sequence| spool.push(&batch(1, sequence)).unwrap());
        spool.remove(&(1, 4));
        drop(spool);
        // A process that was killed while it wrote.
        let file = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
        OpenOptions::new().append(true).open(&file).unwrap().write_all(&[0, 0, 1, 0, 7]).unwrap();
        let mut spool = Spool::open(directory.path()).unwrap();
        spool.push(&batch(2, 0)).unwrap();
        assert_eq!(spool.newest(|_| false), Some(batch(2, 0)));
        // Which of an earlier process had been delivered is not known any more; delivered again, it changes nothing.
        assert_eq!(spool.newest(|key| key.0 == 2), Some(batch(1, 4)));
        (0..5).for_each(|sequence| spool.remove(&(1, sequence)));
        spool.remove(&(2, 0));
        assert_eq!((spool.len(), fs::read_dir(directory.path()).unwrap().count()), (0, 0));
    }

    #[test]
    fn a_disk_that_takes_nothing_leaves_no_files() {
        let directory = PrivateDirectory::new("kumade-spool").unwrap();
        let mut spool = Spool::open(directory.path()).unwrap();
        // The file is there, and nothing can be written.
        File::create(spool.path(0)).unwrap();
        spool.segments.insert(0, Segment::default());
        spool.open = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert_eq!(spool.push(&batch(1, 0)).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((spool.segments.len(), fs::read_dir(directory.path()).unwrap().count()), (0, 0));
        spool.push(&batch(1, 0)).unwrap();
        assert_eq!(spool.newest(|_| false), Some(batch(1, 0)));
    }

    #[test]
    fn the_oldest_is_given_up_where_there_is_no_room() {
        let directory = PrivateDirectory::new("kumade-spool").unwrap();
        let mut spool = Spool::open_bounded(directory.path(), SEGMENT_BYTES * 2).unwrap();
        let document = "x".repeat(1 << 20);
        for sequence in 0..20 {
            let time = kumade_units::Time::ZERO;
            let run = super::super::frame::RunResult {
                path: crate::mesh::peer_path::PeerPath::new(1, None),
                began: time,
                ended: time,
                document: document.clone(),
            };
            spool.push(&Batch { runs: vec![run], ..batch(1, sequence) }).unwrap();
        }
        let bytes: u64 =
            fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= 3 * SEGMENT_BYTES + (2 << 20), "{bytes}");
        assert_eq!(spool.newest(|_| false).map(|batch| batch.sequence), Some(19));
        assert!(spool.len() < 20 && spool.newest(|key| key.1 > 0).is_none());
    }
}
