use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets, and their bytes at the IP layer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// How many, since the start.
    pub packets: u64,
    /// Their IP packets' bytes.
    pub bytes: u64,
    /// In the last interval; null as long as there was none.
    pub bits_per_second: Option<f64>,
}
