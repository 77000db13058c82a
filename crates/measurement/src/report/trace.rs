//! The routers on the way: what a trace has found.

use kumade_probe_train::PortProtocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The routers' own answers to packets whose TTL or hop limit ended there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceReport {
    /// The protocol of the packets, which went between the measurement's own hosts and to its port.
    pub protocol: PortProtocol,
    /// DSCP of the packets when they left.
    pub dscp: String,
    /// Their ECN codepoint.
    pub ecn: String,
    /// By the number of routers, from the sender on.
    pub hops: Vec<HopReport>,
    /// The paths that flows take, each with a port of its own: several where a load balancer (ECMP) spreads them. That of most flows comes first. Flows
    /// are compared at hops that answered all of them, or showed several routers; of these, only flows count that were answered at each of those
    /// hops. Empty where it is not known.
    pub paths: Vec<TracePathReport>,
    /// The probability with which one more router that answers would have been seen at any of the hops at which flows are compared, if it takes as many
    /// flows as each of those that were found there: that of the hop where it is least. Null where there is no such hop, or paths are not known.
    pub paths_confidence: Option<f64>,
    /// Hops at which packets of one flow met several routers, so that nothing can be said of paths: they are spread one by one, the route changed, or a
    /// router answers from several of its addresses.
    pub unsteady_hops: Vec<u8>,
    /// Hops that answered not all flows, or none: paths may differ there.
    pub unknown_hops: Vec<u8>,
    /// Packets with enough hops to reach the receiver; null over TCP.
    pub far_end: Option<FarEndMarkReport>,
    /// Where the DSCP or the ECN codepoint changes, as far as routers tell.
    pub changes: Vec<MarkChangeReport>,
}

/// A router, or several that share the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HopReport {
    /// Its number: 1 is next to the sender.
    pub hop: u8,
    /// Packets whose TTL or hop limit ended there.
    pub sent: u32,
    /// Those that were answered.
    pub answered: u32,
    /// Flows of which packets were answered.
    pub flows_answered: u32,
    /// Who answered, and how often.
    pub addresses: BTreeMap<String, u32>,
    /// Median of the round trips in seconds; null where none was answered.
    pub round_trip_seconds: Option<f64>,
    /// What was answered, by ICMP or ICMPv6, and how often.
    pub answers: BTreeMap<String, u32>,
    /// DSCPs of packets as they arrived there, which the answers quote; empty where they cannot be read.
    pub dscp: BTreeMap<String, u32>,
    /// ECN codepoints, likewise.
    pub ecn: BTreeMap<String, u32>,
}

/// Flows that met the same routers, at hops at which they can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracePathReport {
    /// How many.
    pub flows: u32,
    /// Who answered them at each hop, from the first on; null where they are not compared.
    pub addresses: Vec<Option<String>>,
}

/// Packets with enough hops to reach the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FarEndMarkReport {
    /// How many were sent.
    pub sent: u32,
    /// How many arrived.
    pub arrived: u32,
    /// With which DSCPs.
    pub dscp: BTreeMap<String, u32>,
    /// With which ECN codepoints.
    pub ecn: BTreeMap<String, u32>,
}

/// Where a mark changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkChangeReport {
    /// `DSCP` or `ECN`.
    pub field: String,
    /// What it was before.
    pub from: String,
    /// What it is afterwards.
    pub to: String,
    /// The last hop at which it is what it was; zero for the sender.
    pub after_hop: u8,
    /// The first hop at which it is another one; null for the receiver. The router at `after_hop` has changed it when it sent the packet on, or this
    /// one when it came, or one between them that does not tell.
    pub before_hop: Option<u8>,
}
