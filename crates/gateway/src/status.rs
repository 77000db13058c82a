//! What is seen of a gateway from outside: the document `kumade.gateway/1`, on which other programs may rely, and the same
//! for people. Its JSON Schema is `schemas/kumade.gateway.1.json`.
//!
//! Counts are totals since the start. Rates and shares are about the last interval: [`Status::since`] makes them of two
//! documents.

mod interval;
mod recorder;
mod session_text;
mod sessions;
mod table;
mod text;
mod traffic;

pub use recorder::{LatestStatus, StatusRecorder};
pub use sessions::{PhaseCounts, RemoteSessions, Session, SessionCounters, SessionPhase, SessionRole};
pub use table::{age, percent};
pub use traffic::Traffic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use train::Estimate;

/// A gateway at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The document's kind and version.
    #[schemars(extend("const" = Status::SCHEMA))]
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
    pub paths: Vec<Path>,
    /// The remote sites, in their order.
    pub remotes: Vec<Remote>,
    /// The NAT sessions, in whatever phase: the first thousand.
    pub sessions: Vec<Session>,
    /// How many sessions there are.
    pub session_count: u64,
    /// What was refused; null in the direct plane without sessions, where the kernel does everything.
    pub refused: Option<Refused>,
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
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Its name.
    pub name: String,
    /// Where its packets leave.
    pub interface: String,
    /// Whether packets take it. In the direct plane: its interface is up and its routes are there. In the bonded plane: a
    /// remote gateway answers on it.
    pub up: bool,
    /// For how long that has been so.
    pub state_seconds: f64,
    /// What left by it. In the bonded plane with all that encapsulation adds.
    pub sent: Traffic,
    /// Its part of the bytes that left by all paths in the last interval; null where none did.
    pub share_ratio: Option<f64>,
}

/// A remote site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
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
    pub measured: Option<Measured>,
}

/// What measurements tell of a path to a remote site.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measured {
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

/// The tunnel to a remote gateway. What is counted of its paths, queue and order begins anew when that gateway restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The remote gateway's public key.
    pub public_key: String,
    /// Whether both have agreed on keys that are still valid.
    pub connected: bool,
    /// For how long that has been so.
    pub state_seconds: f64,
    /// How often keys have changed since the first were agreed on.
    pub key_changes: u64,
    /// How often the remote gateway has restarted.
    pub restarts: u64,
    /// Its paths, in their order.
    pub paths: Vec<TunnelPath>,
    /// The longest packet of hosts that all paths pass; null while that is not known.
    pub mtu_bytes: Option<u32>,
    /// Packets that wait until a path has room.
    pub queued_packets: u64,
    /// Packets that the queue discipline has dropped.
    pub dropped_packets: u64,
    /// How the order of what arrives is restored.
    pub resequencing: Resequencing,
    /// Of a gateway with several threads, how many carry packets to the remote gateway: fewer than there are where that one
    /// has fewer, or where a firewall does not pass all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// A path to a remote gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunnelPath {
    /// Its name.
    pub name: String,
    /// The remote gateway's address on it; null until that gateway writes first.
    pub address: Option<String>,
    /// The longest packet that it passes, with all headers on it; null while that is not known.
    pub mtu_bytes: Option<u32>,
    /// Whether it is used.
    pub state: PathState,
    /// For how long that has been so.
    pub state_seconds: f64,
    /// What the path carries, as far as its traffic has shown.
    pub rate_bits_per_second: f64,
    /// Smoothed round-trip time (RFC 6298); null until it was measured.
    pub round_trip_seconds: Option<f64>,
    /// Least round-trip time of the last 10 to 20 s.
    pub min_round_trip_seconds: Option<f64>,
    /// How long packets wait in the path's own queue, behind this gateway.
    pub queue_seconds: f64,
    /// Packets that are lost, but for those lost because too much was sent.
    pub loss_ratio: f64,
    /// Packets that did not arrive, for whatever cause.
    pub lost_packets: u64,
    /// What left by it, probes included.
    pub sent: Traffic,
    /// What of that arrived, as the remote gateway reports it.
    pub delivered: Traffic,
    /// What came over it.
    pub received: Traffic,
    /// Its part of the bytes that left for this remote gateway in the last interval; null where none did.
    pub share_ratio: Option<f64>,
}

/// Whether a path to a remote gateway is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// It is not known yet whether it carries packets. Only probes are sent.
    Probing,
    /// It carries packets both ways.
    Up,
    /// Packets are not answered.
    Down,
}

/// How the order of packets is restored that arrive over several paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resequencing {
    /// Packets that wait for earlier ones now.
    pub waiting_packets: u64,
    /// The most packets that waited at once in one part of the flows: the reorder depth.
    pub max_depth_packets: u64,
    /// Packets delivered in order, at once or after waiting.
    pub in_order_packets: u64,
    /// Packets delivered at once, as flows that prefer speed to order want it.
    pub unordered_packets: u64,
    /// Packets declared lost: later ones were delivered before them.
    pub lost_packets: u64,
    /// Packets delivered although later ones had been.
    pub late_packets: u64,
    /// Copies that were dropped.
    pub duplicate_packets: u64,
    /// Waits that ended by the timer, and not because each path had come further.
    pub expired_waits: u64,
    /// Waits that ended because memory was needed.
    pub evicted_waits: u64,
    /// How long packets waited for earlier ones; null where none did.
    pub waits: Option<Waits>,
    /// The histogram of that; a bucket does not include the one before it.
    pub waits_histogram: Vec<Bucket>,
}

/// How long packets waited: those that did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    /// How many waited.
    pub packets: u64,
    /// All their waits together.
    pub total_seconds: f64,
    /// The median, at most a quarter too long.
    pub p50_seconds: f64,
    /// The 99th percentile, at most a quarter too long.
    pub p99_seconds: f64,
    /// The longest wait.
    pub maximum_seconds: f64,
}

/// A bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The upper bound; null for the last bucket, which has none.
    pub up_to_seconds: Option<f64>,
    /// How many.
    pub packets: u64,
}

/// Packets and datagrams that were not carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// Packets of local hosts to no network of a remote site.
    pub unroutable_packets: u64,
    /// Packets from a remote gateway whose source is in no network of its site.
    pub foreign_source_packets: u64,
    /// Datagrams that are not authentic, of no session, copies, or no message.
    pub datagrams: u64,
    /// Handshake messages that were not taken.
    pub handshakes: u64,
    /// Datagrams and packets that the system did not take.
    pub output_packets: u64,
}

impl Status {
    /// The name and version of the document.
    pub const SCHEMA: &str = "kumade.gateway/1";
    /// Of so many sessions the document tells more than their number.
    pub const MAX_SESSIONS: usize = 1000;

    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Status).to_value()
    }
}

#[cfg(test)]
mod tests;
