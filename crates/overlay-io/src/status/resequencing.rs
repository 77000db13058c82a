use kumade_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

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
    pub waits_histogram: Vec<HistogramBucket>,
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
#[serde(deny_unknown_fields, rename = "Bucket")]
pub struct HistogramBucket {
    /// The upper bound; null for the last bucket, which has none.
    pub up_to_seconds: Option<f64>,
    /// How many.
    pub packets: u64,
}

impl Display for Resequencing {
    /// Three lines, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Resequencing { waiting_packets, max_depth_packets, waits, .. } = self;
        writeln!(
            f,
            "resequencing: {waiting_packets} packets wait, {max_depth_packets} at most in one part of the flows"
        )?;
        match waits {
            Some(waits) => {
                let span = Span::from_secs_f64;
                let (median, most) = (span(waits.p50_seconds), span(waits.p99_seconds));
                let longest = span(waits.maximum_seconds);
                writeln!(f, "{} have waited: median {median}, p99 {most}, maximum {longest}", waits.packets)?;
            }
            None => writeln!(f, "none has waited yet")?,
        }
        let Resequencing { lost_packets, late_packets, duplicate_packets, expired_waits, .. } = self;
        write!(f, "declared lost {lost_packets}, late {late_packets}, copies dropped {duplicate_packets}, ")?;
        write!(f, "released by the timer {expired_waits}")
    }
}
