use std::ops::Range;
use thiserror::Error;

/// A configuration that makes no sense: where, what, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}{}: {problem}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ConfigError {
    /// The file, or `command line`.
    pub origin: String,
    /// Counted from 1.
    pub line: Option<usize>,
    /// What is wrong, and what to try.
    pub problem: String,
}

/// What is wrong with a part of a text.
#[derive(Debug)]
pub(super) struct ConfigFault {
    pub(super) span: Range<usize>,
    pub(super) problem: String,
}

impl ConfigFault {
    pub(super) fn new(span: Range<usize>, problem: impl Into<String>) -> Self {
        ConfigFault { span, problem: problem.into() }
    }

    /// With the line in the text; none where there is no text.
    pub(super) fn with_line(self, origin: &str, text: &str) -> ConfigError {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line = (!text.is_empty()).then(|| before.matches('\n').count() + 1);
        ConfigError { origin: origin.to_owned(), line, problem: self.problem }
    }
}
