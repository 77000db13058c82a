use kumade_units::{Span, Time};
use serde::{Deserialize, Serialize};

/// A pair of hosts that is watched.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedPair {
    /// By which it is known after a restart.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Mean interval of its probes.
    pub interval: Span,
    /// How long an answer is waited for.
    pub lost_after: Span,
    /// From one full measurement to the next; none where there are none.
    pub period: Option<Span>,
    /// What it has in common with other pairs: its ends, and the declared links on its way.
    pub risks: Vec<SharedRisk>,
    /// Places of the agents at its ends, first the one that probes; none where this host probes.
    pub agents: Option<[usize; 2]>,
}

/// A host that probes, and tells what it finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedAgent {
    /// By which it is known after a restart.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whether it is another host: else nothing between both can fail.
    pub is_remote: bool,
}

/// What several pairs fail with at once: a shared risk group, as RFC 4202 calls that of links.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedRisk {
    /// What it is.
    pub kind: RiskKind,
    /// What people call it.
    pub name: String,
}

/// What pairs have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RiskKind {
    /// A declared link.
    Link,
    /// A host at either end, with its uplink.
    Host,
}

/// What is known of the probes of a pair. All times are of sending, by the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Probes without an answer since the last one that was answered.
    pub lost_in_a_row: u32,
    /// When the first and the last of these were sent.
    pub lost: Option<(Time, Time)>,
    /// When the latest probe that was answered had been sent.
    pub answered: Option<Time>,
}
