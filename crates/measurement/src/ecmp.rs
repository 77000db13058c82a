//! Load balancing by flow: several links side by side, of which each connection takes one (RFC 2991), as over equal-cost paths or
//! an aggregated link.
//!
//! The links differ in delay, and a connection keeps to its link. So connections whose least delays are the same again and again
//! fall into groups, one for each link. A train for one link has its packets on connections of that group; those of the other
//! connections, which carry every packet whose turn is theirs, are as small as possible.

mod ecmp_probe;
mod layout;
mod links;

pub(crate) use ecmp_probe::{EcmpProbe, EcmpProbeResult};
pub(crate) use layout::EcmpTrainLayout;
pub(crate) use links::EcmpLinks;

use kumade_units::Span;

/// One of several links side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EcmpLink {
    /// Whether a connection takes it, by the connection's number; false where that is not known.
    pub(crate) connections: Vec<bool>,
    /// By how much packets take longer than on the fastest one.
    pub(crate) extra_delay: Span,
}

impl EcmpLink {
    /// How many connections take it.
    pub(crate) fn connection_count(&self) -> u32 {
        self.connections.iter().filter(|takes_it| **takes_it).count() as u32
    }
}
