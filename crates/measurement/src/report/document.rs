use super::delay::DelayReport;
use super::direction::DirectionReport;
use super::path::PathReport;
use super::schema::published;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the document's schema.
pub const SCHEMA: &str = "kumade.measure/1";

/// The result of a measurement. Rates count IP-layer bits (RFC 5136).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `kumade.measure/1`.
    pub schema: String,
    /// Address and port of the far end.
    pub peer: String,
    /// Start of the measurement, UTC (RFC 3339).
    pub started: String,
    /// From this host to the peer; null if not requested.
    pub up: Option<DirectionReport>,
    /// From the peer to this host; null if not requested.
    pub down: Option<DirectionReport>,
    /// Delay, loss and reordering; null if not requested.
    pub delay: Option<DelayReport>,
    /// What the path does to packets; null if that is not known.
    #[serde(default)]
    pub path: Option<PathReport>,
    /// Why the measurement failed as a whole; null if it did not. There is nothing else in the document then.
    #[serde(default)]
    pub error: Option<ErrorReport>,
}

/// The failure of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// What kind of failure, for programs: `resolve`, `connect`, `refused`, `deadline-exceeded` …
    pub kind: String,
    /// The operation, its object and the cause.
    pub message: String,
    /// What to try; null if there is no general advice.
    pub hint: Option<String>,
}

impl Report {
    /// Of a measurement with `peer` that failed.
    pub fn failed(peer: String, started: String, error: ErrorReport) -> Self {
        let schema = SCHEMA.to_owned();
        Report { schema, peer, started, up: None, down: None, delay: None, path: None, error: Some(error) }
    }

    /// Whether at least one direction has an available bandwidth, or a bound of it; in a report of delays alone, whether it
    /// has a delay.
    pub fn has_result(&self) -> bool {
        match (&self.up, &self.down, &self.delay) {
            (None, None, Some(delay)) => delay.has_value(),
            (up, down, _) => [up, down].into_iter().flatten().any(DirectionReport::has_result),
        }
    }

    /// The JSON Schema of this document, as published.
    pub fn json_schema() -> serde_json::Value {
        published::<Report>(SCHEMA)
    }
}
