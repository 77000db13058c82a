//! What is seen of a gateway from outside: the document `kumade.gateway/1`, on which other programs may rely, and the same
//! for people. Its JSON Schema is `schemas/kumade.gateway.1.json`.
//!
//! Counts are totals since the start. Rates and shares are about the last interval: a [`Recorder`](kumade_overlay_io::status::Recorder) makes
//! them of two documents.

mod interval;
mod recorder;
mod session_text;
mod sessions;
mod text;

pub use kumade_overlay_io::status::{
    HistogramBucket, PathState, RefusedTraffic, Resequencing, Traffic, Tunnel, TunnelPath, Waits,
};
pub use recorder::{blank_status, new_recorder};
pub(crate) use session_text::SESSION_COUNTERS;
pub use sessions::{NatSessionStatus, PhaseCounts, RemoteSessions, SessionPhase};

use kumade_probe_train::Estimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A gateway at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Status")]
pub struct GatewayStatus {
    /// The document's kind and version.
    #[schemars(extend("const" = GatewayStatus::SCHEMA))]
    pub schema: String,
    /// The gateway's name.
    pub name: String,
    /// How packets go from site to site.
    pub plane: PlaneKind,
    /// The moment: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// For how long the gateway has run.
    pub duration_seconds: f64,
    /// The length of the last interval, about which rates and shares are; null as long as there was none.
    pub interval_seconds: Option<f64>,
    /// The paths, in their order.
    pub paths: Vec<GatewayPathStatus>,
    /// The remote sites, in their order.
    pub remotes: Vec<RemoteSiteStatus>,
    /// The NAT sessions, in whatever phase: the first thousand.
    pub sessions: Vec<NatSessionStatus>,
    /// How many sessions there are.
    pub session_count: u64,
    /// What was refused; null in the direct plane without sessions, where the kernel does everything.
    pub refused: Option<RefusedTraffic>,
}

/// How packets go from site to site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneKind {
    /// As they are, but for addresses; forwarded by the kernel.
    Direct,
    /// Encrypted, and in order.
    Bonded,
}

/// A path, with what all remote sites together get of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Path")]
pub struct GatewayPathStatus {
    /// Its name.
    pub name: String,
    /// Where its packets leave.
    pub interface: String,
    /// Whether packets take it. In the direct plane: its interface is up and its routes are there. In the bonded plane: a
    /// remote gateway answers on it.
    pub up: bool,
    /// For how long that has been so.
    pub state_seconds: f64,
    /// In the direct plane: how often its interface or its routes were gone. The bonded plane counts it for each remote gateway.
    #[serde(default)]
    pub failures: u64,
    /// What left by it. In the bonded plane with all that encapsulation adds.
    pub sent: Traffic,
    /// Its part of the bytes that left by all paths in the last interval; null where none did.
    pub share_ratio: Option<f64>,
}

/// A remote site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Remote")]
pub struct RemoteSiteStatus {
    /// Its name.
    pub name: String,
    /// The paths that lead there, in their order.
    pub paths: Vec<RemotePath>,
    /// The tunnel to its gateway; null in the direct plane, which has none.
    pub tunnel: Option<Tunnel>,
    /// The NAT sessions with its gateway; null where it has none.
    pub sessions: Option<RemoteSessions>,
}

/// A path to a remote site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemotePath {
    /// Its name.
    pub name: String,
    /// Its part of the packets; null where they are not divided in the ratio of weights.
    pub weight: Option<u32>,
    /// What measurements tell of it; null where it is not measured.
    pub measured: Option<MeasuredStatus>,
}

/// What measurements tell of a path to a remote site.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Measured")]
pub struct MeasuredStatus {
    /// The rate by which it is weighed: what is available and what is carried; null before the first measurement.
    pub rate_bits_per_second: Option<f64>,
    /// The available bandwidth (RFC 5136) by the last measurement that has succeeded; null where none has.
    pub available_bits_per_second: Option<Estimate<f64>>,
    /// What carried traffic took of the path meanwhile.
    pub carried_bits_per_second: Option<f64>,
    /// The ratio of packets lost on the idle path.
    pub loss_ratio: Option<Estimate<f64>>,
    /// How long ago that was.
    pub age_seconds: Option<f64>,
    /// Why no measurement has succeeded since.
    pub error: Option<String>,
}

impl GatewayStatus {
    /// The name and version of the document.
    pub const SCHEMA: &str = "kumade.gateway/1";
    /// Of so many sessions the document tells more than their number.
    pub const MAX_SESSIONS: usize = 1000;

    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(GatewayStatus).to_value()
    }
}

#[cfg(test)]
mod tests;
