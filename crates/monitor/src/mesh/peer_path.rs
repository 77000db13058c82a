//! A path to a peer: one, or one over each version of IP. Pure.

use kumade_net::interface::Family;
use kumade_planner::AddressFamily;
use serde::{Deserialize, Serialize};

/// Whom an agent probes or measures, and over which version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct PeerPath {
    /// The peer's number, which no other ever has.
    pub(crate) peer: u32,
    /// None for whichever its name leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) family: Option<AddressFamily>,
}

impl PeerPath {
    pub(crate) fn new(peer: u32, family: Option<Family>) -> Self {
        let family = family.map(|family| match family {
            Family::V4 => AddressFamily::Ipv4,
            Family::V6 => AddressFamily::Ipv6,
        });
        PeerPath { peer, family }
    }

    /// As names are looked up.
    pub(crate) fn family(self) -> Option<Family> {
        self.family.map(net_family)
    }
}

/// The same version of IP.
pub(crate) fn net_family(family: AddressFamily) -> Family {
    match family {
        AddressFamily::Ipv4 => Family::V4,
        AddressFamily::Ipv6 => Family::V6,
    }
}
