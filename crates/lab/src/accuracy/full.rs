//! What measurements of everything come to besides the available bandwidth: capacity, token buckets, delay.

use crate::accuracy::row::{DelayRow, Row};
use crate::statistics::{mean, median, range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an experiment is to reach; what is not named has no limit. A ratio is that of an error to the truth.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of the available bandwidth, in the median.
    pub available_median_error_ratio: Option<f64>,
    /// Of the capacity, in the median.
    pub capacity_median_error_ratio: Option<f64>,
    /// Of the capacity, in the worst run.
    pub capacity_worst_error_ratio: Option<f64>,
    /// Of a token bucket's rate, in the worst run.
    pub shaped_rate_worst_error_ratio: Option<f64>,
    /// Of a token bucket's size, in the worst run.
    pub burst_worst_error_ratio: Option<f64>,
    /// Of the one-way delay, in the worst run.
    pub delay_worst_error_ratio: Option<f64>,
    /// How long everything takes, in the mean.
    pub mean_whole_seconds: Option<f64>,
}

/// What measurements of everything came to over one transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WholeSummary {
    /// How right the capacity was.
    pub capacity: CapacitySummary,
    /// How right token buckets were.
    pub shaper: ShaperSummary,
    /// How right the idle one-way delay was, both ways together.
    pub delay: DelaySummary,
}

/// Capacity against that of the bottleneck. A figure is null where no run gave what it is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacitySummary {
    /// Runs that looked for it.
    pub runs: u32,
    /// Those among them that refused to say; they are in no other figure.
    pub refusals: u32,
    /// Median of |value − truth| / truth.
    pub median_error_ratio: Option<f64>,
    /// The greatest of them.
    pub worst_error_ratio: Option<f64>,
    /// Share of the values whose interval holds the truth.
    pub interval_coverage_ratio: Option<f64>,
}

/// Token buckets against what they were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShaperSummary {
    /// Runs behind one that looked for it.
    pub runs: u32,
    /// Those among them that saw none.
    pub unseen: u32,
    /// Runs that saw one where there was none.
    pub false_alarms: u32,
    /// The greatest |rate − truth| / truth.
    pub worst_rate_error_ratio: Option<f64>,
    /// The greatest |burst − truth| / truth.
    pub worst_burst_error_ratio: Option<f64>,
}

/// Least one-way delays of the idle path against what they were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelaySummary {
    /// Values.
    pub values: u32,
    /// Median of |value − truth| / truth.
    pub median_error_ratio: Option<f64>,
    /// The greatest of them.
    pub worst_error_ratio: Option<f64>,
    /// Share of the values whose bound holds the truth.
    pub bound_coverage_ratio: Option<f64>,
    /// Median of the bounds' width.
    pub median_bound_width_seconds: Option<f64>,
}

impl WholeSummary {
    /// Of these rows; none where none of them is of a measurement of everything.
    pub(crate) fn of(rows: &[&Row]) -> Option<Self> {
        let delays: Vec<_> = rows.iter().flat_map(|row| row.delays()).collect();
        let whole = rows.iter().any(|row| row.sought_capacity()) || !delays.is_empty();
        whole.then(|| WholeSummary {
            capacity: CapacitySummary::of(rows),
            shaper: ShaperSummary::of(rows),
            delay: DelaySummary::of(&delays),
        })
    }
}

impl CapacitySummary {
    /// Of those among these rows that looked for it.
    pub(crate) fn of(rows: &[&Row]) -> Self {
        let rows: Vec<_> = rows.iter().filter(|row| row.sought_capacity()).collect();
        let errors: Vec<_> = rows.iter().filter_map(|row| row.capacity_error()).collect();
        let held = rows.iter().filter_map(|row| row.capacity_bits_per_second?.covers(row.bottleneck_bits_per_second));
        CapacitySummary {
            runs: rows.len() as u32,
            refusals: (rows.len() - errors.len()) as u32,
            median_error_ratio: median(&errors),
            worst_error_ratio: worst(&errors),
            interval_coverage_ratio: share(held),
        }
    }
}

impl ShaperSummary {
    /// Of those among these rows that looked for one.
    pub(crate) fn of(rows: &[&Row]) -> Self {
        let rows = || rows.iter().filter(|row| row.sought_capacity());
        let (rates, bursts): (Vec<_>, Vec<_>) = rows().filter_map(|row| row.shaper_errors()).unzip();
        let runs = rows().filter(|row| row.burst_bytes.is_some()).count();
        ShaperSummary {
            runs: runs as u32,
            unseen: (runs - rates.len()) as u32,
            false_alarms: rows().filter(|row| row.burst_bytes.is_none() && row.shaper.is_some()).count() as u32,
            worst_rate_error_ratio: worst(&rates),
            worst_burst_error_ratio: worst(&bursts),
        }
    }
}

impl DelaySummary {
    /// Of these.
    pub(crate) fn of(delays: &[DelayRow]) -> Self {
        let errors: Vec<_> = delays.iter().map(DelayRow::error).collect();
        DelaySummary {
            values: delays.len() as u32,
            median_error_ratio: median(&errors),
            worst_error_ratio: worst(&errors),
            bound_coverage_ratio: share(delays.iter().map(DelayRow::holds)),
            median_bound_width_seconds: median(&delays.iter().map(|d| d.high - d.low).collect::<Vec<_>>()),
        }
    }
}

fn worst(errors: &[f64]) -> Option<f64> {
    range(errors).map(|(_, worst)| worst)
}

fn share(held: impl Iterator<Item = bool>) -> Option<f64> {
    mean(&held.map(|held| f64::from(u8::from(held))).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::samples::full_row as whole;
    use crate::accuracy::words::Transport;
    use measurement::report::ShaperReport;
    use units::Rate;

    fn close(value: Option<f64>, expected: f64) -> bool {
        (value.unwrap() - expected).abs() < 1e-9
    }

    #[test]
    fn a_refusal_is_counted_and_spoils_no_figure() {
        let rows = [whole(1, Some(1.01)), whole(2, Some(0.97)), whole(3, None)];
        let summary = WholeSummary::of(&rows.each_ref()).unwrap();
        assert_eq!((summary.capacity.runs, summary.capacity.refusals), (3, 1));
        assert!(close(summary.capacity.median_error_ratio, 0.02) && close(summary.capacity.worst_error_ratio, 0.03));
        // The samples' intervals reach two percent to each side.
        assert!(close(summary.capacity.interval_coverage_ratio, 0.5));
        assert_eq!((summary.shaper.runs, summary.shaper.worst_rate_error_ratio), (0, None));
    }

    #[test]
    fn a_bucket_is_unseen_or_seen_where_there_is_none() {
        let (mut seen, mut unseen, mut alarm) = (whole(1, Some(1.0)), whole(2, Some(1.0)), whole(3, Some(1.0)));
        let rate = seen.capacity_bits_per_second.unwrap();
        let burst = train::Estimate { value: 9_000, low: 8_000, high: 9_500, confidence: 0.95 };
        let rate = rate.map(Rate::from_bits_per_second);
        let found = ShaperReport { link_bits_per_second: None, rate_bits_per_second: rate, burst_bytes: burst };
        (seen.burst_bytes, seen.shaper) = (Some(10_000), Some(found));
        unseen.burst_bytes = Some(10_000);
        alarm.shaper = Some(found);
        let shaper = ShaperSummary::of(&[&seen, &unseen, &alarm]);
        assert_eq!((shaper.runs, shaper.unseen, shaper.false_alarms), (2, 1, 1));
        assert!(close(shaper.worst_burst_error_ratio, 0.1) && close(shaper.worst_rate_error_ratio, 0.0));
    }

    #[test]
    fn delays_of_both_ways_count() {
        let delay = WholeSummary::of(&[&whole(1, None)]).unwrap().delay;
        // 5 ms were 5.05 up and 5.2 down, within ± 5 ms.
        assert_eq!((delay.values, delay.bound_coverage_ratio), (2, Some(1.0)));
        assert!(close(delay.worst_error_ratio, 0.04) && close(delay.median_bound_width_seconds, 0.01));
    }

    #[test]
    fn measurements_of_the_available_bandwidth_alone_have_none_of_this() {
        let (transport, method) = (Transport::Udp, "primed");
        assert_eq!(WholeSummary::of(&[&crate::accuracy::samples::measured(transport, method, 0, 1, 0.1)]), None);
    }
}
