use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets, and their bytes at the IP layer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// How many, since the start.
    pub packets: u64,
    /// Their IP packets' bytes.
    pub bytes: u64,
    /// In the last interval; null as long as there was none.
    pub bits_per_second: Option<f64>,
}

impl Traffic {
    /// Those of a counter.
    pub fn new(packets: u64, bytes: u64) -> Self {
        Traffic { packets, bytes, bits_per_second: None }
    }

    /// Both together.
    pub fn merge(&mut self, other: &Traffic) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// Enters the rate of the interval of so many seconds since an earlier count.
    pub fn set_rate_since(&mut self, earlier: &Traffic, seconds: f64) {
        self.bits_per_second = Some(self.bytes_since(earlier) as f64 * 8.0 / seconds);
    }

    /// The part of `total` bytes that has come since an earlier count; none where there are none.
    pub fn share_since(&self, earlier: &Traffic, total: u64) -> Option<f64> {
        (total > 0).then(|| self.bytes_since(earlier) as f64 / total as f64)
    }

    /// Bytes of the interval. A count that has become less began anew in it.
    pub fn bytes_since(&self, earlier: &Traffic) -> u64 {
        self.bytes.checked_sub(earlier.bytes).unwrap_or(self.bytes)
    }
}
