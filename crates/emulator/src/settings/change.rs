use super::{SettingError, Settings};
use serde::{Deserialize, Serialize};
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
#[serde(transparent)]
pub struct Change {
    assignments: Vec<(Scope, String, String)>,
}

impl Scope {
    fn includes(self, direction: usize) -> bool {
        match self {
            Scope::Up => direction == 0,
            Scope::Down => direction == 1,
            Scope::Both => true,
        }
    }
}

impl Change {
    /// Reads names and values with blanks in between. They are for both directions, or for the one that the word `up`,
    /// `down` or `both` before them names: `delay 5ms up rate 1mbit down rate 10mbit`.
    ///
    /// # Errors
    /// A name is unknown, or its value is missing. The values are looked at when the change is applied.
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
                key if super::keys::find(key).is_none() => return Err(SettingError::Unknown(key.to_owned())),
                key => {
                    let value = words.next().ok_or_else(|| SettingError::Incomplete(key.to_owned()))?;
                    self.push(scope, key, value);
                }
            }
        }
        Ok(())
    }

    /// Adds one setting.
    pub fn push(&mut self, scope: Scope, key: &str, value: &str) {
        self.assignments.push((scope, key.to_owned(), value.to_owned()));
    }

    /// Makes file names absolute, relative to `directory`.
    pub fn anchor(&mut self, directory: &Path) {
        for (_, key, value) in &mut self.assignments {
            if key == "trace" {
                *value = directory.join(&*value).to_string_lossy().into_owned();
            }
        }
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.assignments.is_empty()
    }

    /// The settings of both directions, changed.
    ///
    /// # Errors
    /// A value is impossible, by itself or together with other settings.
    pub fn apply(&self, settings: &[Settings; 2]) -> Result<[Settings; 2], SettingError> {
        let mut changed = settings.clone();
        for (scope, key, value) in &self.assignments {
            for (direction, settings) in changed.iter_mut().enumerate() {
                if scope.includes(direction) {
                    settings.set(key, value)?;
                }
            }
        }
        for (direction, settings) in changed.iter().enumerate() {
            settings.direction(direction)?;
        }
        Ok(changed)
    }

    /// As [`Change::apply`], for a link that runs.
    ///
    /// # Errors
    /// As there; or a setting can only be given when the link starts.
    pub fn apply_running(&self, settings: &[Settings; 2]) -> Result<[Settings; 2], SettingError> {
        let changed = self.apply(settings)?;
        if settings.iter().zip(&changed).any(|(before, after)| before.seed != after.seed) {
            let reason = "the random numbers are in use already; give it when the link starts".to_owned();
            return Err(SettingError::Value { key: "seed".to_owned(), reason });
        }
        Ok(changed)
    }
}
