use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was published of one mix: by discipline, Jain's index of the goodputs, and their sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedMix {
    /// With a plain first-in first-out queue.
    pub fifo: PublishedShare,
    /// With FQ-CoDel.
    pub fq_codel: PublishedShare,
    /// With Cebinae.
    pub cebinae: PublishedShare,
}

/// What one discipline was published to make of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedShare {
    /// Jain's index of the goodputs.
    pub jain_index: f64,
    /// Their sum.
    pub goodput_bits_per_second: f64,
}
