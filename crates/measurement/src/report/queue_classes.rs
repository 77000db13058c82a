//! Whether the narrow link has queues of its own for some DSCPs, or for ECT(1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Queues of the narrow link by DSCP and ECN codepoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueClassesReport {
    /// How many there are.
    pub queues: QueueCount,
    /// What each codepoint meets beside best effort.
    pub classes: Vec<ClassQueueReport>,
}

/// How many queues a link has for codepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueCount {
    /// One for all that were sent.
    One,
    /// More than one.
    Several,
    /// One as far as is known, but not all is.
    NotSure,
}

/// What packets with a DSCP, or ECT(1), meet beside best effort.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassQueueReport {
    /// The name of the DSCP, or its number; `ECT(1)` with DSCP zero.
    pub mark: String,
    /// Packets that were sent between those of best effort.
    pub sent: u32,
    /// Those that arrived.
    pub arrived: u32,
    /// What their waiting times say.
    pub queue: ClassQueue,
    /// Median of their queueing delays, where best effort waited meanwhile; null if it hardly did.
    pub queueing_delay_seconds: Option<f64>,
    /// Median of what best effort waited at the same time; null as above.
    pub best_effort_queueing_delay_seconds: Option<f64>,
    /// What the link carries of both if each would fill it alone; null if they have one queue, or that was not looked at.
    pub served: Option<ServedPackets>,
}

/// Whether packets wait as long as those of best effort that are sent at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClassQueue {
    /// As long: nothing points to another queue.
    AsBestEffort,
    /// Less, beyond chance: they have another queue. It need not have more of the link: a queue that is given little waits for little while
    /// little is sent to it.
    WaitsLess,
    /// Longer, beyond chance: they have another queue.
    WaitsLonger,
    /// Best effort hardly waited, too few arrived, or some wait otherwise and others do not.
    NotSure,
}

/// Packets that arrived before all of either kind had, of as many of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServedPackets {
    /// With the codepoint.
    pub packets: u32,
    /// Of best effort.
    pub best_effort_packets: u32,
}

impl fmt::Display for ClassQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClassQueue::AsBestEffort => "as best effort",
            ClassQueue::WaitsLess => "another queue, waits less",
            ClassQueue::WaitsLonger => "another queue, waits longer",
            ClassQueue::NotSure => "not sure",
        })
    }
}
