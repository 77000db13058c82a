use super::overrides::Overrides;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that an experiment was read from, so that it can be read again elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScenarioSource {
    /// The scenario file's text.
    pub(crate) text: String,
    /// The texts of the files that it names, by their names.
    pub(crate) beside: BTreeMap<String, String>,
    /// What the command line replaces.
    pub(crate) overrides: Overrides,
}
