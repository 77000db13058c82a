use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The published experiment that an experiment of the lab repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The system measured there.
    pub system: String,
    /// The paper's figures or tables.
    pub figure: String,
    /// Its set-up in a few words.
    pub setting: String,
    /// What it found, where figures do not say so.
    pub result: Option<String>,
}

impl Paper {
    /// In one line, for people.
    pub(crate) fn in_words(&self) -> String {
        let result = self.result.as_ref().map_or(String::new(), |result| format!(". Result: {result}"));
        format!("{}, {}: {}{result}", self.system, self.figure, self.setting)
    }
}
