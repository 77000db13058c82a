//! The capacity of one direction in the document.

use super::figures::{Burst, Bytes, Confidence};
use crate::series::Cost;
use kumade_estimate::{Capacity, CapacityReason, ExcessAction, LinkState, Outcome, PolicerOrShaper, Shaper};
use kumade_probe_train::Estimate;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, mem};

/// The capacity of one direction: the rate of its narrow link without cross traffic (RFC 5136).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityReport {
    /// The sustained rate of the narrow link; behind a token bucket, its committed rate. Null if it could not be
    /// determined.
    pub bottleneck_bits_per_second: Option<Estimate<Rate>>,
    /// A lower bound of it; null if there is a value, or no bound.
    pub at_least_bits_per_second: Option<Rate>,
    /// Why there is no value, or no peak rate of a token bucket; null if there is.
    #[schemars(with = "Option<String>")]
    pub reason: Option<CapacityReason>,
    /// A token bucket on the path that delays what exceeds its rate; null if none was detected.
    pub shaper: Option<ShaperReport>,
    /// A policer on the path: a token bucket that drops what exceeds its rate; null if none was detected.
    pub policer: Option<PolicerReport>,
    /// Bursts of packets that were used.
    pub bursts: u32,
    /// Probe packets sent to measure the capacity.
    pub packets_sent: u64,
    /// Bytes of those packets, including IP headers.
    pub bytes_sent: u64,
    /// Time from the first train to the result.
    pub duration_seconds: f64,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShaperReport {
    /// Peak rate, at which a burst passes: the rate of the link; null if unknown.
    #[serde(rename = "link_bits_per_second")]
    pub peak_rate: Option<Estimate<Rate>>,
    /// Committed rate: the sustained rate.
    #[serde(rename = "rate_bits_per_second")]
    pub committed_rate: Estimate<Rate>,
    /// Whether it is the queue discipline of the sending host's own interface, as far as known: in direction down, servers
    /// of protocol version 3 do not say.
    #[serde(default)]
    pub at_sender: bool,
    /// Burst size: bytes that pass at the peak rate after an idle period. The interval reaches far up where earlier trains may have used up a
    /// part.
    pub burst_bytes: Estimate<u64>,
}

/// A policer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicerReport {
    /// Rate of the link, at which a burst passes; null if unknown.
    pub link_bits_per_second: Option<Estimate<Rate>>,
    /// Committed rate: packets beyond it are dropped; null if unknown.
    pub rate_bits_per_second: Option<Estimate<Rate>>,
    /// Burst size: bytes that pass after an idle period before packets are dropped; null if unknown.
    pub burst_bytes: Option<Estimate<u64>>,
}

impl CapacityReport {
    /// From an estimate and what it cost; `at_sender`: whether the sender's own interface held packets back.
    pub fn new(found: Capacity, at_sender: bool, cost: &Cost) -> Self {
        let is_coarse = matches!(found.reason, Some(CapacityReason::CoarseStamps(..)));
        let shaper = found.shaper.filter(|_| found.bottleneck_rate.is_some());
        let shaper = shaper.map(|shaper| Shaper { peak_rate: shaper.peak_rate.filter(|_| !is_coarse), ..shaper });
        CapacityReport {
            bottleneck_bits_per_second: found.bottleneck_rate,
            at_least_bits_per_second: found.lower_bound.filter(|_| !is_coarse),
            reason: found.reason,
            shaper: shaper.map(|shaper| ShaperReport::new(shaper, at_sender)),
            policer: None,
            bursts: found.bursts_used,
            packets_sent: cost.packets,
            bytes_sent: cost.bytes,
            duration_seconds: cost.duration.as_secs_f64(),
        }
    }

    /// Takes in what trains of bursts have shown, which are longer and faster than packets sent one by one can be: where they fill the
    /// path it is not faster than the sender, and where they do not they bound its capacity by what a whole train carried.
    pub(crate) fn warn_if_below_bursts(&mut self, outcome: &Outcome) {
        if self.bottleneck_bits_per_second.is_some() || self.has_coarse_stamps() {
            return;
        }
        let carried = outcome.bound.and_then(|bound| bound.lower_bound());
        self.at_least_bits_per_second = self.at_least_bits_per_second.and(carried);
        if let Some(rate) = outcome.capacity.filter(|_| outcome.available.is_some()) {
            self.reason = Some(CapacityReason::FasterInBursts(rate));
        } else if let Some(carried) = carried {
            self.reason = Some(CapacityReason::FasterThanSender(carried));
        }
    }

    /// Takes in what the method's trains have shown, which were sent after those that told the capacity: where a value rests on trains of a link
    /// of another rate, it is none any more.
    pub(crate) fn refuse_if_changed(&mut self, outcome: &Outcome) {
        let of_trains = outcome.capacity.filter(|_| outcome.available.is_some() && self.shaper.is_none());
        if let (Some(of_bursts), Some(of_trains)) = (self.bottleneck_bits_per_second, of_trains)
            && LinkState::from_rates(of_bursts.value, of_trains) == LinkState::Changed
        {
            self.bottleneck_bits_per_second = None;
            self.reason = Some(CapacityReason::TrainsDisagree(of_bursts.value, of_trains));
        }
    }

    fn has_coarse_stamps(&self) -> bool {
        matches!(self.reason, Some(CapacityReason::CoarseStamps(..)))
    }

    /// Takes in what longer trains have shown: what seemed to be the capacity passes for a burst only.
    pub(crate) fn set_limiter(&mut self, limiter: &PolicerOrShaper, at_sender: bool) {
        let PolicerOrShaper { excess_action: policing, delivered_rate: delivered, committed_rate, burst_bytes, .. } =
            *limiter;
        let of_link = mem::replace(&mut self.bottleneck_bits_per_second, committed_rate);
        if committed_rate.is_some() {
            self.reason = None;
        } else if of_link.is_some() || !self.has_coarse_stamps() {
            self.reason = Some(CapacityReason::FasterForBursts(delivered));
        }
        match (policing, committed_rate, burst_bytes) {
            (Some(ExcessAction::Drops), ..) => {
                let (link_bits_per_second, rate_bits_per_second) = (of_link, committed_rate);
                self.policer = Some(PolicerReport { link_bits_per_second, rate_bits_per_second, burst_bytes });
            }
            (_, Some(committed_rate), Some(burst_bytes)) if burst_bytes.low > 0 => {
                self.shaper = Some(ShaperReport { at_sender, peak_rate: of_link, committed_rate, burst_bytes });
            }
            _ => {}
        }
    }
}

impl ShaperReport {
    fn new(shaper: Shaper, at_sender: bool) -> Self {
        ShaperReport {
            at_sender,
            peak_rate: shaper.peak_rate,
            committed_rate: shaper.committed_rate,
            burst_bytes: shaper.burst_bytes,
        }
    }
}

impl fmt::Display for CapacityReport {
    /// One line: `bottleneck capacity 99.9 Mbit/s (95 %: 99.1 Mbit/s … 101 Mbit/s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.bottleneck_bits_per_second, &self.reason) {
            (Some(v), _) => {
                let Estimate { value, low, high, confidence } = *v;
                write!(f, "bottleneck capacity {value} ({}: {low} … {high})", Confidence(confidence))?;
            }
            (None, Some(reason)) => write!(f, "bottleneck capacity unknown: {reason}")?,
            (None, None) => f.write_str("bottleneck capacity unknown")?,
        }
        if let Some(shaper) = &self.shaper {
            match shaper.peak_rate {
                Some(peak) => write!(f, "; token bucket: peak rate {}", peak.value)?,
                None => f.write_str("; token bucket: peak rate unknown")?,
            }
            if let (None, Some(_), Some(reason)) = (shaper.peak_rate, self.bottleneck_bits_per_second, &self.reason) {
                write!(f, " ({reason})")?;
            }
            write!(f, ", committed rate {}, {}", shaper.committed_rate.value, Burst(shaper.burst_bytes))?;
            f.write_str(if shaper.at_sender { ", on the sender's own interface" } else { "" })?;
        }
        if let Some(policer) = &self.policer {
            f.write_str("; policed")?;
            if let Some(rate) = &policer.rate_bits_per_second {
                write!(f, ": committed rate {}", rate.value)?;
            }
            if let Some(burst) = policer.burst_bytes {
                write!(f, ", {}", Burst(burst))?;
            }
        }
        write!(f, " — {}, {:.1} s", Bytes(self.bytes_sent), self.duration_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_estimate::Reason;
    use kumade_units::Span;
    use std::collections::BTreeMap;

    fn estimate<T>(value: T, low: T, high: T) -> Estimate<T> {
        Estimate { value, low, high, confidence: 0.95 }
    }

    fn rates(value: u64, low: u64, high: u64) -> Estimate<Rate> {
        let rate = |kilobits| Rate::from_bits_per_second(kilobits * 1000);
        estimate(rate(value), rate(low), rate(high))
    }

    fn said(bottleneck: Option<Estimate<Rate>>, reason: Option<CapacityReason>, shaper: Option<Shaper>) -> String {
        capacity_report(bottleneck, reason, shaper).to_string()
    }

    fn capacity_report(
        bottleneck: Option<Estimate<Rate>>,
        reason: Option<CapacityReason>,
        shaper: Option<Shaper>,
    ) -> CapacityReport {
        let found = Capacity {
            bottleneck_rate: bottleneck,
            lower_bound: None,
            is_indefinite: false,
            reason,
            is_sender_limited: false,
            shaper,
            fastest_burst_rate: None,
            waiting_fraction: None,
            is_disordered: false,
            has_small_bucket: false,
            may_be_round_robin: true,
            fastest_long_train_rate: None,
            slowest_long_train_rate: None,
            median_burst_bits: 84e3,
            median_train_bits: 0.0,
            burst_rate_error: 0.0,
            bursts_used: 20,
            trains_rejected: BTreeMap::new(),
        };
        CapacityReport::new(found, false, &Cost { packets: 220, bytes: 330_000, duration: Span::from_millis(240) })
    }

    /// Of a link that had carried 30 Mbit/s when bursts passed, and 10 since, 30 were reported beside a value of the link as it was then.
    #[test]
    fn a_capacity_is_none_where_later_trains_show_another_one() {
        let report = |kilobits: u64, shaper| {
            let rate = Rate::from_bits_per_second(kilobits * 1000);
            let available = Some(rates(7_000, 6_900, 7_100));
            let of_trains =
                Outcome { available, capacity: Some(rate), ..Outcome::without_value(Reason::NoTrainArrived) };
            let mut report =
                CapacityReport { shaper, ..capacity_report(Some(rates(30_000, 29_900, 30_100)), None, None) };
            report.refuse_if_changed(&of_trains);
            report
        };
        let changed = report(10_000, None);
        let [before, since] = [30, 10].map(Rate::from_mbit);
        assert_eq!(changed.bottleneck_bits_per_second, None);
        assert_eq!(changed.reason, Some(CapacityReason::TrainsDisagree(before, since)));
        let bucket = ShaperReport {
            peak_rate: None,
            committed_rate: rates(30_000, 29_900, 30_100),
            at_sender: false,
            burst_bytes: estimate(9_990, 9_900, 10_100),
        };
        for kept in [report(29_000, None), report(10_000, Some(bucket))] {
            assert!(kept.bottleneck_bits_per_second.is_some() && kept.reason.is_none());
        }
    }

    #[test]
    fn a_capacity_is_summarised_on_one_line() {
        let plain = "bottleneck capacity 99.9 Mbit/s (95 %: 99.1 Mbit/s … 101 Mbit/s) — 330 kB, 0.2 s";
        assert_eq!(said(Some(rates(99_900, 99_100, 100_600)), None, None), plain);
        let rate = rates(10_000, 9_970, 10_020);
        let shaper = Shaper {
            peak_rate: Some(rates(1_000_000, 980_000, 1_020_000)),
            committed_rate: rate,
            burst_bytes: estimate(9_990, 9_900, 10_100),
        };
        let shaped = "bottleneck capacity 10 Mbit/s (95 %: 9.97 Mbit/s … 10 Mbit/s); \
            token bucket: peak rate 1 Gbit/s, committed rate 10 Mbit/s, burst 10 kB — 330 kB, 0.2 s";
        assert_eq!(said(Some(rate), None, Some(shaper)), shaped);
        let partly_used = Shaper { burst_bytes: estimate(9_990, 8_000, 1_900_000), ..shaper };
        assert!(said(Some(rate), None, Some(partly_used)).contains("10 Mbit/s, burst 8 kB … 1.9 MB"));
        let hidden = said(Some(rate), None, Some(Shaper { peak_rate: None, ..shaper }));
        assert!(hidden.contains("peak rate unknown, committed rate 10 Mbit/s"), "{hidden}");
        let unknown = "bottleneck capacity unknown: too many packets were lost — 330 kB, 0.2 s";
        assert_eq!(said(None, Some(CapacityReason::PacketsLost), None), unknown);
    }
}
