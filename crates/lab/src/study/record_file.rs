//! The files of a record: a line of JSON for what is run, and one for each finished run.

use super::progress::Exclusion;
use super::shard::Shard;
use super::source::ScenarioSource;
use crate::error::RecordError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Of this program: what it makes of a scenario may change with it.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is run, and by which program: runs of a record go together if theirs is the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordHead {
    /// The version of kumade.
    pub(crate) version: String,
    /// The experiment's name.
    pub(crate) experiment: String,
    pub(crate) source: ScenarioSource,
    /// When the first run began, as the report states it; it may differ.
    pub(crate) started: String,
    /// The part that these are, if it is one; it may differ.
    pub(crate) shard: Option<Shard>,
}

/// A finished run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordedRun {
    /// Its row of the report.
    Row(Box<RawValue>),
    /// Why there is none.
    Excluded(Exclusion),
}

/// A line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Experiment(Box<RecordHead>),
    Run { index: usize, result: RecordedRun },
}

/// The file that this process adds its runs to. Dropped without any, it is removed.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl RecordHead {
    /// Why runs of `other` don't go together with those of this one.
    pub(super) fn difference(&self, other: &RecordHead) -> Option<String> {
        let RecordHead { version, experiment, source, .. } = other;
        if self.experiment != *experiment {
            return Some(format!("of {experiment}, not of {}", self.experiment));
        }
        if self.version != *version {
            return Some(format!("of kumade {version}, and this is {}", self.version));
        }
        if self.source.overrides != source.overrides {
            return Some("made with other options".to_owned());
        }
        (self.source != *source).then(|| "of another text of the scenario file".to_owned())
    }
}

/// The name of the file with the runs of that part, or of all.
pub(super) fn file_name(shard: Option<Shard>) -> String {
    shard.map_or("runs.jsonl".to_owned(), |shard| format!("runs-{}-of-{}.jsonl", shard.number(), shard.count()))
}

/// The files of a record in that directory, in the order of their names; none where there is no such directory.
pub(super) fn files_in(directory: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(RecordError::during("list", directory))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(RecordError::during("list", directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let middle = name.strip_prefix("runs").and_then(|rest| rest.strip_suffix(".jsonl"));
        if middle.is_some_and(|middle| middle.is_empty() || middle.starts_with('-')) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The lines of a file. A last one that was being written as its process ended, or still is, does not count.
pub(super) fn read_lines(path: &Path) -> Result<Vec<Line>, RecordError> {
    let bytes = fs::read(path).map_err(RecordError::during("read", path))?;
    let whole = &bytes[..whole_lines(&bytes)];
    let lines = whole.split_inclusive(|byte| *byte == b'\n').enumerate();
    let read = |(place, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| RecordError::Malformed {
            path: path.to_owned(),
            line: place + 1,
            reason: error.to_string(),
        })
    };
    lines.map(read).collect()
}

/// The length of all lines that end.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

impl RecordFile {
    /// Opens it, for this process alone; creates it if it is missing. Returns its lines too.
    pub(super) fn open(path: PathBuf) -> Result<(Self, Vec<Line>), RecordError> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = file.map_err(RecordError::during("open", &path))?;
        // A file system that has no locks has those of one machine's processes alone to fear.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(RecordError::InUse { path });
        }
        let is_empty = file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        let opened = RecordFile { path, file, is_kept: !is_empty };
        let lines = read_lines(&opened.path)?;
        Ok((opened, lines))
    }

    /// Begins it: what it has is the trace of a process that finished no run.
    pub(super) fn begin(&mut self, head: RecordHead) -> Result<(), RecordError> {
        // A part may have no run, and is whole then.
        self.is_kept = head.shard.is_some();
        self.file.set_len(0).map_err(RecordError::during("shorten", &self.path))?;
        self.append(&Line::Experiment(Box::new(head)))
    }

    /// Goes on behind the last line that is whole.
    pub(super) fn go_on(&mut self) -> Result<(), RecordError> {
        let bytes = fs::read(&self.path).map_err(RecordError::during("read", &self.path))?;
        self.file.set_len(whole_lines(&bytes) as u64).map_err(RecordError::during("shorten", &self.path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        self.is_kept |= matches!(line, Line::Run { .. });
        let text = serde_json::to_string(line).map_err(io::Error::from);
        let written = text.and_then(|text| self.file.write_all((text + "\n").as_bytes()));
        written.map_err(RecordError::during("write", &self.path))
    }

    /// Removes it.
    pub(super) fn remove(mut self) -> Result<(), RecordError> {
        self.is_kept = true;
        fs::remove_file(&self.path).map_err(RecordError::during("remove", &self.path))
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // It says nothing, and hinders nobody.
            fs::remove_file(&self.path).ok();
        }
    }
}
