//! Which packets the queue of the narrow link marks with CE, and from which queueing delay on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the queue of the narrow link does to packets of each ECN codepoint while short trains fill it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueMarkingReport {
    /// What kind of queue that is.
    pub kind: QueueMarkingKind,
    /// What became of each codepoint; those that do not arrive as they were sent are left out.
    pub codepoints: Vec<CodepointMarkingReport>,
}

/// Kinds of queues, by how they mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueMarkingKind {
    /// ECT(1) is marked at short delays, where ECT(0) is not (RFC 9331, RFC 9332).
    L4s,
    /// ECT(0) and ECT(1) are both marked at delays of up to 5 ms (as in data centres: RFC 8257).
    Shallow,
    /// ECT(0) is marked at delays above 5 ms, and ECT(1) no earlier (RFC 3168).
    Classic,
    /// None came with CE, up to the delays that the codepoints have. Classic AQMs mark what waits for long, which these trains do not: see
    /// [`LastingQueueReport`].
    NoneSeen,
    /// No queue built up.
    NoQueue,
    /// Packets were marked, but not as any of these do, or too few.
    NotSure,
}

/// Packets of one codepoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodepointMarkingReport {
    /// The codepoint with which they were sent.
    pub mark: String,
    /// Packets that were sent.
    pub sent: u32,
    /// Packets that arrived, with a stamp of their own.
    pub arrived: u32,
    /// Those that arrived with CE.
    pub marked: u32,
    /// The queueing delay that at least three of them came to; null if fewer arrived.
    pub max_queueing_delay_seconds: Option<f64>,
    /// From which queueing delay on they are marked; null if none is, or marks do not depend on the delay.
    pub marked_from: Option<MarkingThresholdReport>,
}

/// A queueing delay from which on packets are marked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MarkingThresholdReport {
    /// It is no less.
    pub low_seconds: f64,
    /// It is no more.
    pub high_seconds: f64,
    /// Whether only some are marked at first, and more where the delay is longer.
    pub is_gradual: bool,
    /// Packets that waited at least `high_seconds`.
    pub packets_above: u32,
    /// Those of them that were marked.
    pub marked_above: u32,
}

/// What the queue of the narrow link does to packets that have waited for long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastingQueueReport {
    /// What that is.
    pub kind: LastingQueueKind,
    /// The codepoint with which packets were sent.
    pub mark: String,
    /// Packets that were sent.
    pub sent: u32,
    /// Packets that arrived, with a stamp of their own.
    pub arrived: u32,
    /// Those that waited for more than 5 ms and arrived with CE.
    pub marked: u32,
    /// Those that waited for less than 1 ms and arrived with CE: not by this queue.
    pub marked_without_queue: u32,
    /// The longest time in which all packets waited for more than 5 ms: from the first one to the last.
    pub duration_seconds: f64,
    /// Median of the queueing delays of these; null if there are none.
    pub median_queueing_delay_seconds: Option<f64>,
    /// The first packet that waited for more than that and arrived with CE; null if none did.
    pub first_mark: Option<FirstMarkReport>,
}

/// Whether packets are marked that have waited for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LastingQueueKind {
    /// At least two were, and none that had not waited.
    Marked,
    /// None was, and CoDel and PIE, with the parameters of their RFCs, would have marked several that waited like that.
    NotMarked,
    /// One was, or some that had not waited, or the queue did not last, or was too short.
    NotSure,
}

/// The first packet that was marked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirstMarkReport {
    /// When it was sent, from the first packet on since which all waited for more than 5 ms.
    pub after_seconds: f64,
    /// How long it waited.
    pub queueing_delay_seconds: f64,
}

impl fmt::Display for QueueMarkingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueMarkingKind::L4s => "L4S",
            QueueMarkingKind::Shallow => "shallow for all of ECT",
            QueueMarkingKind::Classic => "classic",
            QueueMarkingKind::NoneSeen => "none seen",
            QueueMarkingKind::NoQueue => "no queue built up",
            QueueMarkingKind::NotSure => "not sure",
        })
    }
}
