//! The finished runs of an experiment. Its report is made from them, whether all were made at once, one after an interruption, or by
//! several machines.

use super::progress::{Exclusion, Outcome};
use super::record_file::{Line, RecordFile, RecordHead, RecordedRun, VERSION, file_name, files_in, read_lines};
use super::shard::Shard;
use crate::error::RecordError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The finished runs of an experiment, each with its number, in memory and in a directory.
#[derive(Debug)]
pub struct RunRecord {
    head: RecordHead,
    runs: BTreeMap<usize, RecordedRun>,
    /// Parts that files say to be; of what is missing is told in these.
    part_count: Option<u32>,
    storage: Storage,
}

/// Where new runs are kept besides.
#[derive(Debug)]
enum Storage {
    /// Nowhere.
    Memory,
    File(RecordFile),
    /// There are no new ones: these were made elsewhere.
    Complete,
}

impl RunRecord {
    /// In memory alone.
    pub(crate) fn in_memory(head: RecordHead) -> Self {
        RunRecord { head, runs: BTreeMap::new(), part_count: None, storage: Storage::Memory }
    }

    /// Takes up the runs in that directory, and adds new ones to a file there.
    ///
    /// # Errors
    /// The directory has runs of other settings, another process adds to them, or the system refuses something.
    pub(crate) fn open(head: RecordHead, directory: &Path) -> Result<Self, RecordError> {
        let own = directory.join(file_name(head.shard));
        let mut record = RunRecord::in_memory(head);
        for path in files_in(directory)?.iter().filter(|path| **path != own) {
            let lines = read_lines(path)?;
            if has_runs(&lines) {
                record.take_lines(lines, path)?;
            }
        }
        let (mut file, lines) = RecordFile::open(own)?;
        if has_runs(&lines) {
            record.take_lines(lines, file.path())?;
            file.go_on()?;
        } else {
            file.begin(record.head.clone())?;
        }
        record.storage = Storage::File(file);
        Ok(record)
    }

    /// The runs in these directories, all of one experiment, to make a report of.
    ///
    /// # Errors
    /// They are of different settings, a directory has none, or the system refuses something.
    pub(crate) fn read(directories: &[PathBuf]) -> Result<Self, RecordError> {
        let mut record: Option<RunRecord> = None;
        for directory in directories {
            let mut line_count = 0;
            for path in files_in(directory)? {
                let lines = read_lines(&path)?;
                line_count += lines.len();
                let head = match lines.first() {
                    Some(Line::Experiment(head)) => RecordHead::clone(head),
                    Some(Line::Run { .. }) => return Err(RecordError::without_experiment(&path)),
                    None => continue,
                };
                let all = || RunRecord::in_memory(RecordHead { version: VERSION.to_owned(), shard: None, ..head });
                record.get_or_insert_with(all).take_lines(lines, &path)?;
            }
            if line_count == 0 {
                return Err(RecordError::NoRuns { directory: directory.clone() });
            }
        }
        let record = record.ok_or_else(|| RecordError::NoRuns { directory: PathBuf::new() })?;
        Ok(RunRecord { storage: Storage::Complete, ..record })
    }

    fn take_lines(&mut self, lines: Vec<Line>, path: &Path) -> Result<(), RecordError> {
        if let Some(Line::Run { .. }) = lines.first() {
            return Err(RecordError::without_experiment(path));
        }
        for line in lines {
            match line {
                Line::Experiment(head) => self.take_head(*head, path)?,
                Line::Run { index, result } => self.insert(index, result)?,
            }
        }
        Ok(())
    }

    fn take_head(&mut self, head: RecordHead, path: &Path) -> Result<(), RecordError> {
        if let Some(difference) = self.head.difference(&head) {
            return Err(RecordError::OtherSettings { path: path.to_owned(), difference });
        }
        self.part_count = self.part_count.max(head.shard.map(Shard::count));
        // Both are UTC in the same form.
        if head.started < self.head.started {
            self.head.started = head.started;
        }
        Ok(())
    }

    /// A row stands for the run, whatever was the reason that there was none before.
    fn insert(&mut self, index: usize, result: RecordedRun) -> Result<(), RecordError> {
        match (self.runs.get(&index), &result) {
            _ if !self.has(index) => Ok(()),
            (Some(RecordedRun::Row(known)), RecordedRun::Row(row)) if known.get() != row.get() => {
                Err(RecordError::Contradiction { index })
            }
            (Some(RecordedRun::Row(_)), _) => Ok(()),
            _ => {
                self.runs.insert(index, result);
                Ok(())
            }
        }
    }

    pub(crate) fn head(&self) -> &RecordHead {
        &self.head
    }

    /// Whether the record is to have one part of the runs, and not all.
    pub(super) fn is_part(&self) -> bool {
        self.head.shard.is_some()
    }

    /// Whether this run is one of those that it is to have.
    fn has(&self, index: usize) -> bool {
        self.head.shard.is_none_or(|shard| shard.contains(index))
    }

    /// Whether this run is still to be made. One that could not be made is tried again.
    pub(super) fn lacks(&self, index: usize) -> bool {
        let is_made_elsewhere = matches!(self.storage, Storage::Complete);
        self.has(index) && !is_made_elsewhere && !matches!(self.runs.get(&index), Some(RecordedRun::Row(_)))
    }

    /// How many runs have a row.
    pub fn row_count(&self) -> usize {
        self.runs.values().filter(|run| matches!(run, RecordedRun::Row(_))).count()
    }

    /// Checks that nothing is missing of so many runs, if these were made elsewhere.
    ///
    /// # Errors
    /// Names the runs that are missing.
    pub(crate) fn check_complete(&self, run_count: usize) -> Result<(), RecordError> {
        if !matches!(self.storage, Storage::Complete) {
            return Ok(());
        }
        let missing: Vec<_> = (0..run_count).filter(|index| !self.runs.contains_key(index)).collect();
        if missing.is_empty() { Ok(()) } else { Err(describe_missing(&missing, run_count, self.part_count)) }
    }

    /// Adds the row of a run.
    pub(super) fn add_row(&mut self, index: usize, row: &impl Serialize) -> Result<(), RecordError> {
        let row = to_raw_value(row).map_err(|error| RecordError::Unreadable { index, reason: error.to_string() })?;
        self.add(index, RecordedRun::Row(row))
    }

    /// Adds why a run has no row.
    pub(super) fn add_exclusion(&mut self, index: usize, excluded: Exclusion) -> Result<(), RecordError> {
        self.add(index, RecordedRun::Excluded(excluded))
    }

    fn add(&mut self, index: usize, result: RecordedRun) -> Result<(), RecordError> {
        if let Storage::File(file) = &mut self.storage {
            file.append(&Line::Run { index, result: result.clone() })?;
        }
        self.insert(index, result)
    }

    /// What came of so many runs, with `excluded`, which is left out of them from the beginning.
    pub(super) fn outcome<R: DeserializeOwned>(
        &self,
        run_count: usize,
        mut excluded: Vec<Exclusion>,
    ) -> Result<Outcome<R>, RecordError> {
        let mut rows = Vec::with_capacity(self.runs.len());
        for (&index, run) in self.runs.range(..run_count) {
            match run {
                RecordedRun::Row(row) => rows.push(
                    serde_json::from_str(row.get())
                        .map_err(|error| RecordError::Unreadable { index, reason: error.to_string() })?,
                ),
                RecordedRun::Excluded(exclusion) if !excluded.contains(exclusion) => excluded.push(exclusion.clone()),
                RecordedRun::Excluded(_) => {}
            }
        }
        Ok(Outcome { rows, excluded })
    }

    /// The file to which runs are added.
    pub fn path(&self) -> Option<&Path> {
        if let Storage::File(file) = &self.storage { Some(file.path()) } else { None }
    }

    /// Removes that file: once the report is written, the same command makes all runs anew.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(self) -> Result<(), RecordError> {
        if let Storage::File(file) = self.storage { file.remove() } else { Ok(()) }
    }
}

fn has_runs(lines: &[Line]) -> bool {
    lines.iter().any(|line| matches!(line, Line::Run { .. }))
}

/// So many missing runs, or parts, are told of; `…` stands for the others.
const MAX_NAMED: usize = 20;

fn describe_missing(missing: &[usize], run_count: usize, part_count: Option<u32>) -> RecordError {
    let remedy = match part_count {
        None => "run the same command again".to_owned(),
        Some(count) => {
            let parts: BTreeSet<Shard> = missing.iter().map(|run| Shard::with_run(*run, count)).collect();
            format!("they are those of --shard {}, or what is left of it", name_some(parts.iter()))
        }
    };
    let runs = name_some(missing.iter());
    RecordError::Missing { missing: missing.len(), run_count, runs, remedy }
}

fn name_some<T: ToString>(items: impl ExactSizeIterator<Item = T>) -> String {
    let rest = if items.len() > MAX_NAMED { ", …" } else { "" };
    let named: Vec<_> = items.take(MAX_NAMED).map(|item| item.to_string()).collect();
    named.join(", ") + rest
}
