//! The words of the lab's errors: what was attempted, on what, why it failed, and what to try.

use thiserror::Error;

/// There is no such experiment, or it cannot be run as described.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// No built-in experiment has that name.
    #[error(
        "there is no experiment `{name}`; `kumade lab list` shows the names, and a scenario file's name ends in .toml"
    )]
    Unknown {
        /// As given.
        name: String,
    },
    /// A file that does not exist or cannot be read.
    #[error("cannot read the scenario file {path}: {cause}")]
    Unreadable {
        /// As given.
        path: String,
        /// What the system says.
        cause: std::io::Error,
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
    Write(kumade_daemon::ReplaceError),
    /// A part of the report could not be generated.
    #[error("cannot generate {part}: {reason}")]
    Generate {
        /// Which part.
        part: &'static str,
        /// Why.
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
