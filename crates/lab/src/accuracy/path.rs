//! The links of an experiment's path.

use super::keywords::{BottleneckKind, CrossKind};
use crate::values::{optional_rate, optional_size, rate, ratio, size, span};
use kumade_units::Direction;
use kumade_units::{Rate, Span};
use serde::Deserialize;

/// The link that limits the path, the same in both directions unless a rate down is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// What implements it.
    #[serde(default)]
    pub kind: BottleneckKind,
    /// Its capacity, counted in IP packets; of a token bucket, the sustained rate.
    #[serde(deserialize_with = "rate")]
    pub rate: Rate,
    /// Its capacity towards the host that measures, where it differs.
    #[serde(default, deserialize_with = "optional_rate")]
    pub down_rate: Option<Rate>,
    /// The size of a token bucket: what passes at the peak rate after an idle period. Both are given, or neither.
    #[serde(default, deserialize_with = "optional_size")]
    pub burst: Option<u64>,
    /// The rate at which a burst passes.
    #[serde(default, deserialize_with = "optional_rate")]
    pub peak_rate: Option<Rate>,
    /// Propagation delay in one direction.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// Its queue's capacity in bytes.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
}

/// A token bucket in front of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// What passes at the line rate after an idle period.
    pub burst_bytes: u64,
    /// The line rate.
    pub peak_rate: Rate,
}

/// A link behind the bottleneck, the same in both directions, with cross traffic in the one that is measured, which is
/// computed inside the link.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DownstreamHop {
    /// How many times as fast as the bottleneck it is.
    pub rate_ratio: f64,
    /// Its propagation delay.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// Its queue's capacity in bytes.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
    /// How the packets of its cross traffic follow each other.
    pub kind: CrossKind,
    /// Their mean rate, as a part of the link's rate.
    #[serde(deserialize_with = "ratio")]
    pub load: f64,
}

impl Bottleneck {
    /// Its capacity in this direction.
    pub fn rate_in(&self, direction: Direction) -> Rate {
        self.down_rate.filter(|_| direction == Direction::Down).unwrap_or(self.rate)
    }

    /// The token bucket, if it is one.
    pub fn shaper(&self) -> Option<Shaper> {
        Some(Shaper { burst_bytes: self.burst?, peak_rate: self.peak_rate? })
    }

    /// The rate at which a packet passes that finds an empty queue and a full bucket.
    pub fn line_rate_in(&self, direction: Direction) -> Rate {
        self.shaper().map_or(self.rate_in(direction), |shaper| shaper.peak_rate)
    }
}

impl DownstreamHop {
    /// Its rate behind a bottleneck of that rate.
    pub fn rate(&self, bottleneck: Rate) -> Rate {
        Rate::from_f64(bottleneck.as_f64() * self.rate_ratio)
    }

    /// The mean rate of its cross traffic behind a bottleneck of that rate.
    pub fn cross_traffic_rate(&self, bottleneck: Rate) -> Rate {
        Rate::from_f64(self.rate(bottleneck).as_f64() * self.load)
    }
}
