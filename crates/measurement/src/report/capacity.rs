//! The narrowest link of one direction, as the document states it.

use super::figures::{Bytes, Confidence};
use crate::series::Cost;
use estimate::{Capacity, Shaper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use train::Estimate;
use units::Rate;

/// How fast the narrowest link is when nobody else sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityReport {
    /// The rate that the path carries for long; a shaper's where there is one. Null where it could not be told.
    pub bottleneck_bits_per_second: Option<Estimate<Rate>>,
    /// Why there is no value; null where there is one.
    pub reason: Option<String>,
    /// A token bucket on the path; null where none showed. Buckets of more than about 150 kB do not show.
    pub shaper: Option<ShaperReport>,
    /// Bursts of packets that could be read.
    pub bursts: u32,
    /// Probe packets sent for it.
    pub packets_sent: u64,
    /// Bytes of them, IP headers included.
    pub bytes_sent: u64,
    /// From the first train to the value.
    pub duration_seconds: f64,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShaperReport {
    /// The rate at which a burst passes; null where it is not known.
    pub link_bits_per_second: Option<Estimate<Rate>>,
    /// The rate in the long run.
    pub rate_bits_per_second: Estimate<Rate>,
    /// What passes beyond it after a pause.
    pub burst_bytes: Estimate<u64>,
}

impl CapacityReport {
    /// Of what was found at this cost.
    pub fn new(found: Capacity, cost: &Cost) -> Self {
        CapacityReport {
            bottleneck_bits_per_second: found.bottleneck,
            reason: found.reason,
            shaper: found.shaper.map(ShaperReport::from),
            bursts: found.bursts_used,
            packets_sent: cost.packets,
            bytes_sent: cost.bytes,
            duration_seconds: cost.duration.as_secs_f64(),
        }
    }
}

impl From<Shaper> for ShaperReport {
    fn from(shaper: Shaper) -> Self {
        ShaperReport {
            link_bits_per_second: shaper.peak_rate,
            rate_bits_per_second: shaper.committed_rate,
            burst_bytes: shaper.burst_bytes,
        }
    }
}

impl fmt::Display for CapacityReport {
    /// In plain language on one line: `bottleneck capacity 99.9 Mbit/s (95 %: 99.1 Mbit/s … 101 Mbit/s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.bottleneck_bits_per_second, &self.reason) {
            (Some(v), _) => {
                let Estimate { value, low, high, confidence } = *v;
                write!(f, "bottleneck capacity {value} ({}: {low} … {high})", Confidence(confidence))?;
            }
            (None, reason) => write!(f, "bottleneck capacity unknown: {}", reason.as_deref().unwrap_or("no reason"))?,
        }
        if let Some(shaper) = &self.shaper {
            match shaper.link_bits_per_second {
                Some(link) => write!(f, "; link {}", link.value)?,
                None => f.write_str("; link of unknown rate")?,
            }
            let burst = Bytes(shaper.burst_bytes.value);
            write!(f, ", shaped to {} after a burst of {burst}", shaper.rate_bits_per_second.value)?;
        }
        write!(f, " — {}, {:.1} s", Bytes(self.bytes_sent), self.duration_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use units::Span;

    fn estimate<T>(value: T, low: T, high: T) -> Estimate<T> {
        Estimate { value, low, high, confidence: 0.95 }
    }

    fn rates(value: u64, low: u64, high: u64) -> Estimate<Rate> {
        let rate = |kilobits| Rate::from_bits_per_second(kilobits * 1000);
        estimate(rate(value), rate(low), rate(high))
    }

    fn said(bottleneck: Option<Estimate<Rate>>, reason: Option<&str>, shaper: Option<Shaper>) -> String {
        let reason = reason.map(str::to_owned);
        let found = Capacity { bottleneck, reason, shaper, bursts_used: 20, trains_rejected: BTreeMap::new() };
        CapacityReport::new(found, &Cost { packets: 220, bytes: 330_000, duration: Span::from_millis(240) }).to_string()
    }

    #[test]
    fn the_verdict_is_one_plain_line() {
        let plain = "bottleneck capacity 99.9 Mbit/s (95 %: 99.1 Mbit/s … 101 Mbit/s) — 330 kB, 0.2 s";
        assert_eq!(said(Some(rates(99_900, 99_100, 100_600)), None, None), plain);
        let rate = rates(10_000, 9_970, 10_020);
        let shaper = Shaper {
            peak_rate: Some(rates(1_000_000, 980_000, 1_020_000)),
            committed_rate: rate,
            burst_bytes: estimate(9_990, 9_900, 10_100),
        };
        let shaped = "bottleneck capacity 10 Mbit/s (95 %: 9.97 Mbit/s … 10 Mbit/s); \
            link 1 Gbit/s, shaped to 10 Mbit/s after a burst of 10 kB — 330 kB, 0.2 s";
        assert_eq!(said(Some(rate), None, Some(shaper)), shaped);
        let hidden = said(Some(rate), None, Some(Shaper { peak_rate: None, ..shaper }));
        assert!(hidden.contains("link of unknown rate, shaped to 10 Mbit/s"), "{hidden}");
        let unknown = "bottleneck capacity unknown: the path is too busy — 330 kB, 0.2 s";
        assert_eq!(said(None, Some("the path is too busy"), None), unknown);
    }
}
