use crate::name_lock::check_name;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;

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

/// What is wrong with a part of a configuration's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// Where it stands, in bytes.
    pub span: Range<usize>,
    /// What is wrong, and what to try.
    pub problem: String,
}

impl ConfigFault {
    /// What is wrong there.
    pub fn new(span: Range<usize>, problem: impl Into<String>) -> Self {
        ConfigFault { span, problem: problem.into() }
    }

    /// With the line in the text; none where there is no text.
    #[must_use]
    pub fn with_line(self, origin: &str, text: &str) -> ConfigError {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line = (!text.is_empty()).then(|| before.matches('\n').count() + 1);
        ConfigError { origin: origin.to_owned(), line, problem: self.problem }
    }
}

/// A value that may be written as a number or as a text, such as a DSCP: `46`, or `"ef"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum NumberOrText {
    /// `46`
    Number(i64),
    /// `"ef"`
    Text(String),
}

impl Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberOrText::Number(number) => number.fmt(f),
            NumberOrText::Text(text) => text.fmt(f),
        }
    }
}

/// What a value comes to; what is wrong with it is wrong where it stands.
///
/// # Errors
/// That of `parse`.
pub fn parse_spanned<T, E: Display>(
    text: &Spanned<String>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ConfigFault> {
    parse(text.get_ref()).map_err(|error| ConfigFault::new(text.span(), error.to_string()))
}

/// Whether all names are [names of programs](crate::check_name) or the like.
///
/// # Errors
/// One is none.
pub fn check_names<'n>(names: impl IntoIterator<Item = &'n Spanned<String>>) -> Result<(), ConfigFault> {
    names.into_iter().try_for_each(|name| parse_spanned(name, check_name))
}

/// The first of these that stands there a second time.
pub fn find_repeated<'n>(names: impl IntoIterator<Item = &'n Spanned<String>>) -> Option<&'n Spanned<String>> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(name.get_ref()))
}

/// Reads a configuration's text (TOML).
///
/// # Errors
/// It is none, or says what no such configuration has.
pub fn parse_config<T: DeserializeOwned>(text: &str) -> Result<T, ConfigFault> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        ConfigFault::new(error.span().unwrap_or_default(), error.message().trim().replace('\n', ", "))
    })
}
