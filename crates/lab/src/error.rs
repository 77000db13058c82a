//! The words of the lab's errors: what was attempted, on what, why it failed, and what to try.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// There is no such experiment, or it cannot be run as described.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// No built-in experiment has that name.
    #[error(
        "there is no experiment `{name}`; {nearest}`kumade lab list` shows the names, and a scenario file's name ends in .toml"
    )]
    Unknown {
        /// As given.
        name: String,
        /// What may have been meant.
        nearest: String,
    },
    /// A file that does not exist or cannot be read.
    #[error("cannot read the scenario file {path}: {cause}")]
    Unreadable {
        /// As given.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A table that a scenario file names.
    #[error("cannot read {path}, which {named_by} names: {cause}{advice}")]
    UnreadableTable {
        /// The table's.
        path: String,
        /// The scenario file.
        named_by: String,
        /// What the system says.
        cause: std::io::Error,
        /// Where there is one.
        advice: String,
    },
    /// A file that is not a scenario.
    #[error("{origin} is not a valid scenario: {cause}{advice}")]
    Malformed {
        /// The file or the built-in experiment.
        origin: String,
        /// Where and why.
        cause: Box<toml::de::Error>,
        /// What may have been meant.
        advice: String,
    },
    /// A file of a kind that there is not.
    #[error("{place}: there is no kind of experiment `{kind}`; {advice}")]
    UnknownKind {
        /// The file, and the line.
        place: String,
        /// As given.
        kind: String,
        /// Which kinds there are.
        advice: String,
    },
    /// A scenario that contradicts itself or exceeds a limit.
    #[error("{name} cannot be run: {reason}")]
    Invalid {
        /// The experiment's.
        name: String,
        /// What is wrong, and what to change.
        reason: String,
    },
}

/// A record of runs that cannot be read, added to, or made a report of.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The system refused.
    #[error("cannot {doing} {path}: {cause}")]
    File {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// Another process adds to it.
    #[error("another process adds runs to {path}; wait for its end, or choose another directory with --out")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Not a file of finished runs.
    #[error(
        "{path}, line {line}, is not a finished run of kumade lab: {reason}; remove the file, or choose another directory"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Why not.
        reason: String,
    },
    /// Runs that don't go together.
    #[error(
        "{path} has runs {difference}: they are not put together; finish those with the command that made them, remove the file, or choose another directory"
    )]
    OtherSettings {
        /// The file.
        path: PathBuf,
        /// What they are, and what these are.
        difference: String,
    },
    /// What was run can't be read again.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Two results of one run.
    #[error("run {index} is there twice, with different results; leave one of the directories out")]
    Contradiction {
        /// Counted from 0.
        index: usize,
    },
    /// A row that cannot be kept or read again.
    #[error("cannot keep the row of run {index}: {reason}")]
    Unreadable {
        /// Counted from 0.
        index: usize,
        /// Why not.
        reason: String,
    },
    /// No finished runs.
    #[error("there are no finished runs in {directory}; kumade lab run NAME --shard 0/4 --out DIR leaves some")]
    NoRuns {
        /// The directory.
        directory: PathBuf,
    },
    /// Not all runs.
    #[error("{missing} of {run_count} runs are missing: {runs}; {remedy}")]
    Missing {
        /// How many.
        missing: usize,
        /// Of so many.
        run_count: usize,
        /// Which, counted from 0.
        runs: String,
        /// What to do.
        remedy: String,
    },
}

impl RecordError {
    /// For `map_err`: this operation on that path failed.
    pub(crate) fn during(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> RecordError {
        move |cause| RecordError::File { doing, path: path.to_owned(), cause }
    }

    /// A file that begins with a run.
    pub(crate) fn without_experiment(path: &Path) -> Self {
        RecordError::Malformed {
            path: path.to_owned(),
            line: 1,
            reason: "it does not begin with its experiment".into(),
        }
    }
}

/// A testbed that failed, so that no further run makes sense.
#[derive(Debug, Error)]
#[error("cannot {doing}: {cause:#}")]
pub struct RunError {
    /// The operation.
    pub doing: &'static str,
    /// Why, and what to try.
    pub cause: anyhow::Error,
}

impl RunError {
    /// For `map_err`: this operation failed.
    pub(crate) fn during<E: Into<anyhow::Error>>(doing: &'static str) -> impl Fn(E) -> RunError + Copy {
        move |cause| RunError { doing, cause: cause.into() }
    }
}

/// A report that could not be generated or written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The system refused.
    #[error("{0}; choose another directory with --out")]
    Write(kumade_files::ReplaceError),
    /// A part of the report could not be generated.
    #[error("cannot generate {part}: {reason}")]
    Generate {
        /// Which part.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// A report that cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// Two reports that are not of one kind.
    #[error("cannot compare these reports: {reason}")]
    Incomparable {
        /// Why not.
        reason: String,
    },
    /// A file that is not a report of the expected kind and version.
    #[error("not a {expected} report: {reason}")]
    Unexpected {
        /// The schema that was expected.
        expected: &'static str,
        /// Why it is not one.
        reason: String,
    },
}

impl ReportError {
    /// For `map_err`: this part could not be generated.
    pub(crate) fn generate_error<E: std::fmt::Display>(part: &'static str) -> impl Fn(E) -> ReportError {
        move |reason| ReportError::Generate { part, reason: reason.to_string() }
    }
}
