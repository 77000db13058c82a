use kumade_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far an experiment has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress<'a> {
    /// These, of which there are so many runs, are left out.
    Excluded(&'a Exclusion, usize),
    /// So many runs were made before.
    Recorded(usize),
    /// This run begins.
    Running(&'a str),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the link was.
        lateness: Span,
    },
    /// This is done: so many runs.
    Done(&'a str, usize),
}

/// Who hears of it.
pub type Observer<'a> = dyn FnMut(Progress<'_>) + 'a;

/// A kind of path, or a single one, that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(rename = "LeftOut")]
pub struct Exclusion {
    /// The kind, and the transport where only that one is left out; also the seed where only one path is.
    pub kind: String,
    /// Why not.
    pub reason: String,
}

/// What came of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<R> {
    /// In the order of their points.
    pub rows: Vec<R>,
    /// What was not run.
    pub excluded: Vec<Exclusion>,
}

impl<R> From<Vec<R>> for Outcome<R> {
    fn from(rows: Vec<R>) -> Self {
        Outcome { rows, excluded: Vec::new() }
    }
}
