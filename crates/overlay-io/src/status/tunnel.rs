use crate::status::resequencing::Resequencing;
use crate::status::traffic::Traffic;
use kumade_multipath::OuterTransport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// What joins this end to a far end: to a remote gateway, or the other end of a tunnel. What is counted of its paths, queue and
/// order begins anew when the far end restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The far end's public key.
    pub public_key: String,
    /// Whether both have agreed on keys that are still valid, and the far end answers on a path.
    pub connected: bool,
    /// For how long that has been so; where the far end was lost, since it was heard last.
    pub state_seconds: f64,
    /// How long ago anything authentic came from the far end; null if nothing has.
    #[serde(default)]
    pub last_heard_seconds: Option<f64>,
    /// How often the far end was lost: it had been connected, and answered on no path any longer.
    #[serde(default)]
    pub losses: u64,
    /// How often keys have changed since the first were agreed on.
    pub key_changes: u64,
    /// How often the far end has restarted.
    pub restarts: u64,
    /// Its paths, in their order.
    pub paths: Vec<TunnelPath>,
    /// The longest packet of hosts that all paths pass; null while that is not known.
    pub mtu_bytes: Option<u32>,
    /// Packets that wait until a path has room.
    pub queued_packets: u64,
    /// Packets that the queue discipline has dropped.
    pub dropped_packets: u64,
    /// Bytes by which packets to the far end were shorter, since their headers were compressed.
    #[serde(default)]
    pub saved_header_bytes: u64,
    /// Packets from there that were dropped, since they were compressed by headers that are not known here: the first ones after
    /// one end has lost its state, and those that are very late.
    #[serde(default)]
    pub undecompressed_packets: u64,
    /// How the order of what arrives is restored.
    pub resequencing: Resequencing,
    /// Of several threads, how many carry packets to the far end: fewer than there are where that has fewer, or where a firewall
    /// does not pass all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// A path to a far end: by UDP, or a TCP connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunnelPath {
    /// Its name.
    pub name: String,
    /// What carries packets on it.
    pub carrier: OuterTransport,
    /// The far end's address on it; null until that writes first.
    pub address: Option<String>,
    /// The longest packet that it passes, with all headers on it; null while that is not known.
    pub mtu_bytes: Option<u32>,
    /// Whether it is used.
    pub state: PathState,
    /// For how long that has been so.
    pub state_seconds: f64,
    /// How often the path has failed after it had carried packets, or its TCP connection ended.
    #[serde(default)]
    pub failures: u64,
    /// What the path carries, as far as its traffic has shown.
    pub rate_bits_per_second: f64,
    /// Smoothed round-trip time (RFC 6298); null until it was measured.
    pub round_trip_seconds: Option<f64>,
    /// Minimum round-trip time of the last 10 to 20 s.
    pub min_round_trip_seconds: Option<f64>,
    /// How long packets wait in the path's own queue, behind this end.
    pub queue_seconds: f64,
    /// Packets that are lost, but for those lost because too much was sent.
    pub loss_ratio: f64,
    /// Packets that did not arrive, for whatever cause.
    pub lost_packets: u64,
    /// What left by it, probes included.
    pub sent: Traffic,
    /// What of that arrived, as the far end reports it.
    pub delivered: Traffic,
    /// What came over it.
    pub received: Traffic,
    /// Its part of the bytes that left for this far end in the last interval; null where none did.
    pub share_ratio: Option<f64>,
}

/// Whether a path to a far end is used.
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

impl Display for PathState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathState::Probing => "probing",
            PathState::Up => "up",
            PathState::Down => "down",
        })
    }
}
