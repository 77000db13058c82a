//! The accuracy of what full measurements give besides the available bandwidth: capacity, token buckets, delay.

use crate::accuracy::row::{DelayRow, Row};
use crate::statistics::{mean, median, min_and_max};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The errors and times that an experiment must not exceed; what is not named has no limit. A ratio is that of an error to
/// the truth.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[serde(rename = "Limits")]
pub struct AccuracyLimits {
    /// Median error of the available bandwidth.
    pub available_median_error_ratio: Option<f64>,
    /// Median error of the capacity.
    pub capacity_median_error_ratio: Option<f64>,
    /// Error of the capacity in the worst run.
    pub capacity_worst_error_ratio: Option<f64>,
    /// Error of a token bucket's rate in the worst run.
    pub shaped_rate_worst_error_ratio: Option<f64>,
    /// Error of a token bucket's size in the worst run.
    pub burst_worst_error_ratio: Option<f64>,
    /// Error of the one-way delay in the worst run.
    pub delay_worst_error_ratio: Option<f64>,
    /// Mean duration of a full measurement.
    pub mean_full_seconds: Option<f64>,
}

/// The results of full measurements over one transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullSummary {
    /// Capacity beside the truth.
    pub capacity: CapacitySummary,
    /// Token buckets beside the truth.
    pub shaper: ShaperSummary,
    /// One-way delay of the idle path beside the truth, both directions together.
    pub delay: DelaySummary,
}

/// Capacity beside that of the bottleneck. A figure is null where no run contributes to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacitySummary {
    /// Runs that measured it.
    pub runs: u32,
    /// Those among them without a result; they are in no other figure.
    pub refusals: u32,
    /// Median of |value − truth| / truth.
    pub median_error_ratio: Option<f64>,
    /// The largest of them.
    pub worst_error_ratio: Option<f64>,
    /// Coverage: share of the values whose interval covers the truth.
    pub interval_coverage_ratio: Option<f64>,
}

/// Token buckets beside the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShaperSummary {
    /// Runs behind one that measured capacity.
    pub runs: u32,
    /// Those among them that did not detect it.
    pub undetected: u32,
    /// Runs that detected one where there was none.
    pub false_positives: u32,
    /// The largest |rate − truth| / truth.
    pub worst_rate_error_ratio: Option<f64>,
    /// The largest |burst − truth| / truth.
    pub worst_burst_error_ratio: Option<f64>,
}

/// Minimum one-way delays of the idle path beside the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelaySummary {
    /// Number of values.
    pub values: u32,
    /// Median of |value − truth| / truth.
    pub median_error_ratio: Option<f64>,
    /// The largest of them.
    pub worst_error_ratio: Option<f64>,
    /// Coverage: share of the values whose bounds cover the truth.
    pub bound_coverage_ratio: Option<f64>,
    /// Median distance between the bounds.
    pub median_bound_width_seconds: Option<f64>,
}

impl FullSummary {
    /// Of these rows; none where none of them is a full measurement.
    pub(crate) fn from_rows(rows: &[&Row]) -> Option<Self> {
        let delays: Vec<_> = rows.iter().flat_map(|row| row.delay_rows()).collect();
        let full = rows.iter().any(|row| row.has_capacity_measurement()) || !delays.is_empty();
        full.then(|| FullSummary {
            capacity: CapacitySummary::from_rows(rows),
            shaper: ShaperSummary::from_rows(rows),
            delay: DelaySummary::from_delays(&delays),
        })
    }
}

impl CapacitySummary {
    /// Of those among these rows that measured it.
    pub(crate) fn from_rows(rows: &[&Row]) -> Self {
        let rows: Vec<_> = rows.iter().filter(|row| row.has_capacity_measurement()).collect();
        let errors: Vec<_> = rows.iter().filter_map(|row| row.capacity_error()).collect();
        let covered =
            rows.iter().filter_map(|row| row.capacity_bits_per_second?.covers(row.bottleneck_bits_per_second));
        CapacitySummary {
            runs: rows.len() as u32,
            refusals: (rows.len() - errors.len()) as u32,
            median_error_ratio: median(&errors),
            worst_error_ratio: worst_error(&errors),
            interval_coverage_ratio: covered_share(covered),
        }
    }
}

impl ShaperSummary {
    /// Of those among these rows that measured capacity.
    pub(crate) fn from_rows(rows: &[&Row]) -> Self {
        let rows = || rows.iter().filter(|row| row.has_capacity_measurement());
        let (rates, bursts): (Vec<_>, Vec<_>) = rows().filter_map(|row| row.shaper_errors()).unzip();
        let runs = rows().filter(|row| row.burst_bytes.is_some()).count();
        ShaperSummary {
            runs: runs as u32,
            undetected: (runs - rates.len()) as u32,
            false_positives: rows().filter(|row| row.burst_bytes.is_none() && row.shaper.is_some()).count() as u32,
            worst_rate_error_ratio: worst_error(&rates),
            worst_burst_error_ratio: worst_error(&bursts),
        }
    }
}

impl DelaySummary {
    /// Of these.
    pub(crate) fn from_delays(delays: &[DelayRow]) -> Self {
        let errors: Vec<_> = delays.iter().map(DelayRow::relative_error).collect();
        DelaySummary {
            values: delays.len() as u32,
            median_error_ratio: median(&errors),
            worst_error_ratio: worst_error(&errors),
            bound_coverage_ratio: covered_share(delays.iter().map(DelayRow::covers_truth)),
            median_bound_width_seconds: median(&delays.iter().map(|d| d.high - d.low).collect::<Vec<_>>()),
        }
    }
}

fn worst_error(errors: &[f64]) -> Option<f64> {
    min_and_max(errors).map(|(_, worst)| worst)
}

fn covered_share(covered: impl Iterator<Item = bool>) -> Option<f64> {
    mean(&covered.map(|covered| f64::from(u8::from(covered))).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::keywords::Transport;
    use crate::accuracy::sample_reports::full_row;
    use kumade_measurement::report::ShaperReport;
    use kumade_units::Rate;

    fn close(value: Option<f64>, expected: f64) -> bool {
        (value.unwrap() - expected).abs() < 1e-9
    }

    #[test]
    fn a_run_without_a_capacity_is_counted_and_affects_no_figure() {
        let rows = [full_row(1, Some(1.01)), full_row(2, Some(0.97)), full_row(3, None)];
        let summary = FullSummary::from_rows(&rows.each_ref()).unwrap();
        assert_eq!((summary.capacity.runs, summary.capacity.refusals), (3, 1));
        assert!(close(summary.capacity.median_error_ratio, 0.02) && close(summary.capacity.worst_error_ratio, 0.03));
        // The samples' intervals reach two percent to each side.
        assert!(close(summary.capacity.interval_coverage_ratio, 0.5));
        assert_eq!((summary.shaper.runs, summary.shaper.worst_rate_error_ratio), (0, None));
    }

    #[test]
    fn a_bucket_is_undetected_or_detected_where_there_is_none() {
        let (mut seen, mut undetected, mut alarm) =
            (full_row(1, Some(1.0)), full_row(2, Some(1.0)), full_row(3, Some(1.0)));
        let rate = seen.capacity_bits_per_second.unwrap();
        let burst = kumade_probe_train::Estimate { value: 9_000, low: 8_000, high: 9_500, confidence: 0.95 };
        let rate = rate.map(Rate::from_bits_per_second);
        let found = ShaperReport { at_sender: false, peak_rate: None, committed_rate: rate, burst_bytes: burst };
        (seen.burst_bytes, seen.shaper) = (Some(10_000), Some(found));
        undetected.burst_bytes = Some(10_000);
        alarm.shaper = Some(found);
        let shaper = ShaperSummary::from_rows(&[&seen, &undetected, &alarm]);
        assert_eq!((shaper.runs, shaper.undetected, shaper.false_positives), (2, 1, 1));
        assert!(close(shaper.worst_burst_error_ratio, 0.1) && close(shaper.worst_rate_error_ratio, 0.0));
    }

    #[test]
    fn delays_of_both_directions_count() {
        let delay = FullSummary::from_rows(&[&full_row(1, None)]).unwrap().delay;
        // 5 ms were 5.05 up and 5.2 down, within ± 5 ms.
        assert_eq!((delay.values, delay.bound_coverage_ratio), (2, Some(1.0)));
        assert!(close(delay.worst_error_ratio, 0.04) && close(delay.median_bound_width_seconds, 0.01));
    }

    #[test]
    fn measurements_of_the_available_bandwidth_alone_have_no_such_summary() {
        let (transport, method) = (Transport::Udp, "primed");
        assert_eq!(
            FullSummary::from_rows(&[&crate::accuracy::sample_reports::measured_row(transport, method, 0, 1, 0.1)]),
            None
        );
    }
}
