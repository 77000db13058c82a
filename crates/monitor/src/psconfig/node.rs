//! A part of a JSON document that knows where it is.

use super::PsconfigError;
use serde_json::Value;

/// A value, and the names that lead to it.
#[derive(Debug, Clone)]
pub(super) struct Node<'v> {
    pub(super) path: String,
    pub(super) value: &'v Value,
}

/// Names are shown up to this length.
const MAX_SHOWN_CHARS: usize = 60;

impl<'v> Node<'v> {
    pub(super) fn root(value: &'v Value) -> Self {
        Node { path: String::new(), value }
    }

    pub(super) fn wrong(&self, problem: impl Into<String>) -> PsconfigError {
        let path = if self.path.is_empty() { "the template".to_owned() } else { self.path.clone() };
        PsconfigError::Content { path, problem: problem.into() }
    }

    /// The member of this name, if there is one.
    pub(super) fn get(&self, name: &str) -> Option<Node<'v>> {
        self.value.get(name).map(|value| self.member(name, value))
    }

    /// The member of this name.
    pub(super) fn expect(&self, name: &str) -> Result<Node<'v>, PsconfigError> {
        self.get(name).ok_or_else(|| self.wrong(format!("`{name}` is missing")))
    }

    /// All members, in the order of their names.
    pub(super) fn members(&self) -> Result<Vec<(&'v str, Node<'v>)>, PsconfigError> {
        let object = self.value.as_object().ok_or_else(|| self.wrong("an object in braces belongs here"))?;
        Ok(object.iter().map(|(name, value)| (name.as_str(), self.member(name, value))).collect())
    }

    /// The members of a section that may be missing.
    pub(super) fn section(&self, name: &str) -> Result<Vec<(&'v str, Node<'v>)>, PsconfigError> {
        self.get(name).map_or_else(|| Ok(Vec::new()), |section| section.members())
    }

    /// The elements of a list.
    pub(super) fn elements(&self) -> Result<Vec<Node<'v>>, PsconfigError> {
        let list = self.value.as_array().ok_or_else(|| self.wrong("a list in brackets belongs here"))?;
        let element = |(place, value)| Node { path: format!("{}[{place}]", self.path), value };
        Ok(list.iter().enumerate().map(element).collect())
    }

    pub(super) fn text(&self) -> Result<&'v str, PsconfigError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text in quotes belongs here"))
    }

    /// Whether the member of this name is true.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.value.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn member(&self, name: &str, value: &'v Value) -> Node<'v> {
        let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).take(MAX_SHOWN_CHARS).collect();
        let path = if self.path.is_empty() { name } else { format!("{}.{name}", self.path) };
        Node { path, value }
    }
}
