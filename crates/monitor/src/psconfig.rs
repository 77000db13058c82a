//! A perfSONAR pSConfig template as targets of a monitor: <https://docs.perfsonar.net/psconfig_templates_intro.html>.
//!
//! [`Template::parse`] reads what we know of it, and notes the rest; [`Template::targets_of`] says what one of its hosts
//! monitors, [`Template::into_mesh`] what a coordinator of all of them does.

mod mesh;
mod node;
mod targets;
mod template;

pub use mesh::{ImportedAgent, ImportedMesh};
pub use targets::{ImportedTarget, MonitoredPaths};
pub use template::Template;

use thiserror::Error;

/// A template that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PsconfigError {
    /// It is no JSON.
    #[error("line {line}, column {column}: no JSON: {reason}")]
    Json {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Something in it is other than the format has it.
    #[error("{path}: {problem}")]
    Content {
        /// Where, such as `tasks.throughput.group`.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// It has no such address.
    #[error("there is no address `{from}`; there are {known}")]
    NoSuchAddress {
        /// What was asked for.
        from: String,
        /// Some that there are.
        known: String,
    },
}

/// Something of a template that a monitor does not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Where, such as `tests.trace`.
    pub path: String,
    /// Why, or what does it here.
    pub reason: String,
}

#[cfg(test)]
mod tests;
