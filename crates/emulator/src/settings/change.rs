use super::error::SettingError;
use super::jitter::is_file_name;
use super::keys::{SETTING_KEYS, SettingKey};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// The directions that a setting is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectionScope {
    /// From the first interface to the second.
    Up,
    /// From the second to the first.
    Down,
    /// The same for either.
    Both,
}

/// Settings to be changed, in this order; what they do not name stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(DirectionScope, String, String)>", into = "Vec<(DirectionScope, String, String)>")]
pub struct SettingsChange {
    assignments: Vec<(DirectionScope, &'static SettingKey, String)>,
}

impl DirectionScope {
    /// Their indices.
    pub(super) fn directions(self) -> Range<usize> {
        match self {
            DirectionScope::Up => 0..1,
            DirectionScope::Down => 1..2,
            DirectionScope::Both => 0..2,
        }
    }
}

impl SettingsChange {
    /// Reads names and values with blanks in between. They are for both directions, or for the one that the word `up`,
    /// `down` or `both` before them names: `delay 5ms up rate 1mbit down rate 10mbit`.
    ///
    /// # Errors
    /// A name is unknown, or its value is missing. The values are read when [`Settings`](super::Settings) are changed.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let mut change = SettingsChange::default();
        change.push_words(DirectionScope::Both, text)?;
        Ok(change)
    }

    /// As [`SettingsChange::parse`], for `scope` until the words say otherwise, added to what there is.
    ///
    /// # Errors
    /// As there.
    pub fn push_words(&mut self, mut scope: DirectionScope, text: &str) -> Result<(), SettingError> {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "up" => scope = DirectionScope::Up,
                "down" => scope = DirectionScope::Down,
                "both" => scope = DirectionScope::Both,
                name => {
                    let key = find_key(name)?;
                    self.push(scope, key, words.next().ok_or(SettingError::MissingValue(key))?);
                }
            }
        }
        Ok(())
    }

    /// Adds one setting.
    pub fn push(&mut self, scope: DirectionScope, key: &'static SettingKey, value: &str) {
        self.assignments.push((scope, key, value.to_owned()));
    }

    /// Makes file names absolute, relative to `directory`.
    pub fn make_paths_absolute(&mut self, directory: &Path) {
        let is_file = |key: &SettingKey, value: &str| match key.name {
            "trace" => true,
            "jitter-distribution" => is_file_name(value),
            _ => false,
        };
        for (_, _, value) in self.assignments.iter_mut().filter(|(_, key, value)| is_file(key, value)) {
            *value = directory.join(&*value).to_string_lossy().into_owned();
        }
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.assignments.is_empty()
    }

    pub(super) fn assignments(&self) -> impl Iterator<Item = (DirectionScope, &'static SettingKey, &str)> {
        self.assignments.iter().map(|(scope, key, value)| (*scope, *key, value.as_str()))
    }
}

impl TryFrom<Vec<(DirectionScope, String, String)>> for SettingsChange {
    type Error = SettingError;

    fn try_from(words: Vec<(DirectionScope, String, String)>) -> Result<Self, SettingError> {
        let found = words.into_iter().map(|(scope, name, value)| find_key(&name).map(|key| (scope, key, value)));
        Ok(SettingsChange { assignments: found.collect::<Result<_, _>>()? })
    }
}

impl From<SettingsChange> for Vec<(DirectionScope, String, String)> {
    fn from(change: SettingsChange) -> Self {
        change.assignments().map(|(scope, key, value)| (scope, key.name.to_owned(), value.to_owned())).collect()
    }
}

fn find_key(name: &str) -> Result<&'static SettingKey, SettingError> {
    SETTING_KEYS.iter().find(|key| key.name == name).ok_or_else(|| SettingError::UnknownSetting(name.to_owned()))
}
