use serde::{Deserialize, Serialize};

/// The number of a host. It is never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub u32);

/// The number of a pair, below 2^24. It is never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PairId(pub u32);

impl PairId {
    /// Pairs have numbers up to this: what engines make keys of.
    pub const MAX: PairId = PairId((1 << 24) - 1);
}

/// Version of IP. The two are measured apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A host that measures, or a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number here.
    pub id: HostId,
    /// What the configuration knows it by, whatever it is called or wherever it is.
    pub stable_id: String,
    /// What people call it.
    pub name: String,
    /// Where it is reached now.
    pub address: String,
    /// Other properties that the program keeps: a JSON document, or empty.
    pub properties: String,
}

/// What is to be known of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewHost<'a> {
    /// What the configuration knows it by.
    pub stable_id: &'a str,
    /// What people call it.
    pub name: &'a str,
    /// Where it is reached now.
    pub address: &'a str,
    /// Other properties, or empty.
    pub properties: &'a str,
}

/// A host that sends probes and one that answers them. The direction "up" is from source to target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Its number here.
    pub id: PairId,
    /// Sends the probes.
    pub source: HostId,
    /// Answers them.
    pub target: HostId,
    /// By which version of IP.
    pub family: Family,
}
