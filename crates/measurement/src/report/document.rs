use super::delay::DelayReport;
use super::direction::DirectionReport;
use super::schema::published;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the document's schema.
pub const SCHEMA: &str = "kumade.measure/1";

/// What a measurement came to. Rates count IP-layer bits (RFC 5136).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `kumade.measure/1`.
    pub schema: String,
    /// The far end: address and port.
    pub peer: String,
    /// When the measurement began, UTC, RFC 3339.
    pub started: String,
    /// From here to the peer; null if not asked for.
    pub up: Option<DirectionReport>,
    /// From the peer to here; null if not asked for.
    pub down: Option<DirectionReport>,
    /// How far it is; null if not asked for.
    pub delay: Option<DelayReport>,
}

impl Report {
    /// Whether at least one direction has a value; of a report of delays alone, whether it has any.
    pub fn has_value(&self) -> bool {
        let has_rate = |direction: &DirectionReport| direction.available_bits_per_second.is_some();
        match (&self.up, &self.down, &self.delay) {
            (None, None, Some(delay)) => delay.has_value(),
            (up, down, _) => [up, down].into_iter().flatten().any(has_rate),
        }
    }

    /// The JSON Schema of this document, as published.
    pub fn json_schema() -> serde_json::Value {
        published::<Report>(SCHEMA)
    }
}
