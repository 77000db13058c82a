//! What is seen of one end of a tunnel from outside: the document `kumade.tunnel/1`, on which other programs may rely, and the
//! same for people. Its JSON Schema is `schemas/kumade.tunnel.1.json`.
//!
//! Counts are totals since the start. Rates are about the last interval.

mod fill;
mod interval_rates;
mod text;

use crate::config::{TunnelConfig, TunnelEnd};
use crate::peer::PeerConfig;
use kumade_overlay_io::status::Recorder;
pub use kumade_overlay_io::status::{
    OuterTransport, PathState, RefusedTraffic, Resequencing, Traffic, Tunnel, TunnelPath,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One end of a tunnel at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The document's kind and version.
    #[schemars(extend("const" = Status::SCHEMA))]
    pub schema: String,
    /// The tunnel's name at this end.
    pub name: String,
    /// The moment: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// For how long this end has run.
    pub duration_seconds: f64,
    /// The length of the last interval, about which rates are; null as long as there was none.
    pub interval_seconds: Option<f64>,
    /// Which end this is.
    pub end: EndKind,
    /// Where it listens, or where it connects to.
    pub address: String,
    /// The TUN device; null where no packets are carried.
    pub device: Option<String>,
    /// What carries packets, as set: `auto`, `udp`, `tcp`, `rake` or `relay`.
    pub carrier: String,
    /// The other ends, in their order.
    pub peers: Vec<PeerStatus>,
    /// TCP connections that are carried as streams; null where none can be.
    pub relayed: Option<RelayedConnections>,
    /// Packets that were not carried; null where none can be.
    pub refused: Option<RefusedTraffic>,
}

/// Which end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// It waits for others.
    Listens,
    /// It connects to the one that waits.
    Connects,
}

/// Another end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Peer")]
pub struct PeerStatus {
    /// What it is called in this end's configuration file; null where it has no name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its public key.
    pub public_key: String,
    /// The networks that are reached there.
    pub networks: Vec<String>,
    /// How packets are carried to it and from it; null where none are.
    pub packets: Option<PacketCarriage>,
}

/// How packets are carried to another end and from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Packets")]
pub struct PacketCarriage {
    /// Its address, as its paths have it; null while it is not there.
    pub address: Option<String>,
    /// What carries them now; null while no path is up.
    pub carrier: Option<OuterTransport>,
    /// Paths that are up: TCP connections, and the one by UDP.
    pub paths_up: u64,
    /// The minimum smoothed round-trip time of these.
    pub round_trip_seconds: Option<f64>,
    /// Packets that are lost on these, but for those lost because too much was sent.
    pub loss_ratio: Option<f64>,
    /// What left by all paths, with all that encapsulation adds.
    pub sent: Traffic,
    /// What came over all paths.
    pub received: Traffic,
    /// Packets that were not sent, since TCP connections that carry still had their data.
    #[serde(rename = "repeated_packets")]
    pub suppressed_retransmissions: u64,
    /// Session, paths, queue and order. A path is a TCP connection or UDP; there are those that have been used.
    pub tunnel: Tunnel,
}

/// TCP connections that are ended at both ends of a tunnel and carried as streams.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Relayed")]
pub struct RelayedConnections {
    /// Those that are carried now.
    pub connections: u64,
    /// Those that were opened since the start.
    pub opened: u64,
    /// Those that were not carried since then: to what is not allowed, or not reached.
    pub refused: u64,
    /// Their bytes that have gone to the other end.
    pub sent_bytes: u64,
    /// In the last interval.
    pub sent_bits_per_second: Option<f64>,
    /// Their bytes that have come from there.
    pub received_bytes: u64,
    /// In the last interval.
    pub received_bits_per_second: Option<f64>,
}

impl Status {
    /// The name and version of the document.
    pub const SCHEMA: &str = "kumade.tunnel/1";

    /// Renews the status of an end that starts now, under this name. Until then, nobody is there.
    pub fn recorder(config: &TunnelConfig, name: &str) -> Recorder<Status> {
        Recorder::new(Status::initial(config, name))
    }

    fn initial(config: &TunnelConfig, name: &str) -> Self {
        let (end, address) = match &config.end {
            TunnelEnd::Listen(address) => (EndKind::Listens, *address),
            TunnelEnd::Connect(host) => (EndKind::Connects, host.address()),
        };
        Status {
            schema: Status::SCHEMA.to_owned(),
            name: name.to_owned(),
            time: kumade_overlay_io::status::utc_timestamp(),
            duration_seconds: 0.0,
            interval_seconds: None,
            end,
            address: address.to_string(),
            device: config.has_device().then(|| config.device.clone()),
            carrier: config.transport.name().to_owned(),
            peers: config.peers.iter().map(PeerStatus::new).collect(),
            relayed: None,
            refused: None,
        }
    }

    /// Has these peers from now on.
    pub fn set_peers(&mut self, peers: &[PeerConfig]) {
        self.peers = peers.iter().map(PeerStatus::new).collect();
    }

    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Status).to_value()
    }
}

impl PeerStatus {
    fn new(peer: &PeerConfig) -> Self {
        PeerStatus {
            name: peer.name.clone(),
            public_key: peer.key.to_string(),
            networks: peer.networks.iter().map(ToString::to_string).collect(),
            packets: None,
        }
    }

    /// Its name, or the key's first digits, enough to tell peers apart.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.public_key.get(..8).unwrap_or(&self.public_key))
    }
}

#[cfg(test)]
mod tests;
