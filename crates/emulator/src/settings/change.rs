use super::error::SettingError;
use super::keys::{KEYS, Key};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// The directions that a setting is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// From the first interface to the second.
    Up,
    /// From the second to the first.
    Down,
    /// The same for either.
    Both,
}

/// Settings to be changed, in this order; what they do not name stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Scope, String, String)>", into = "Vec<(Scope, String, String)>")]
pub struct Change {
    assignments: Vec<(Scope, &'static Key, String)>,
}

impl Scope {
    /// Their indices.
    pub(super) fn directions(self) -> Range<usize> {
        match self {
            Scope::Up => 0..1,
            Scope::Down => 1..2,
            Scope::Both => 0..2,
        }
    }
}

impl Change {
    /// Reads names and values with blanks in between. They are for both directions, or for the one that the word `up`,
    /// `down` or `both` before them names: `delay 5ms up rate 1mbit down rate 10mbit`.
    ///
    /// # Errors
    /// A name is unknown, or its value is missing. The values are read when [`Settings`](super::Settings) are changed.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let mut change = Change::default();
        change.push_words(Scope::Both, text)?;
        Ok(change)
    }

    /// As [`Change::parse`], for `scope` until the words say otherwise, added to what there is.
    ///
    /// # Errors
    /// As there.
    pub fn push_words(&mut self, mut scope: Scope, text: &str) -> Result<(), SettingError> {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "up" => scope = Scope::Up,
                "down" => scope = Scope::Down,
                "both" => scope = Scope::Both,
                name => {
                    let key = find(name)?;
                    self.push(scope, key, words.next().ok_or(SettingError::Incomplete(key))?);
                }
            }
        }
        Ok(())
    }

    /// Adds one setting.
    pub fn push(&mut self, scope: Scope, key: &'static Key, value: &str) {
        self.assignments.push((scope, key, value.to_owned()));
    }

    /// Makes file names absolute, relative to `directory`.
    pub fn anchor(&mut self, directory: &Path) {
        for (_, _, value) in self.assignments.iter_mut().filter(|(_, key, _)| key.name == "trace") {
            *value = directory.join(&*value).to_string_lossy().into_owned();
        }
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.assignments.is_empty()
    }

    pub(super) fn assignments(&self) -> impl Iterator<Item = (Scope, &'static Key, &str)> {
        self.assignments.iter().map(|(scope, key, value)| (*scope, *key, value.as_str()))
    }
}

impl TryFrom<Vec<(Scope, String, String)>> for Change {
    type Error = SettingError;

    fn try_from(words: Vec<(Scope, String, String)>) -> Result<Self, SettingError> {
        let found = words.into_iter().map(|(scope, name, value)| find(&name).map(|key| (scope, key, value)));
        Ok(Change { assignments: found.collect::<Result<_, _>>()? })
    }
}

impl From<Change> for Vec<(Scope, String, String)> {
    fn from(change: Change) -> Self {
        change.assignments().map(|(scope, key, value)| (scope, key.name.to_owned(), value.to_owned())).collect()
    }
}

fn find(name: &str) -> Result<&'static Key, SettingError> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| SettingError::Unknown(name.to_owned()))
}
