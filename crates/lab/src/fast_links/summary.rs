use super::row::FastLinkRow;
use crate::statistics::{mean, median};
use kumade_sim::atlas::refusal_cause;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All runs summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastLinksSummary {
    /// By bottleneck, cross traffic and transport, in the order of running.
    pub paths: Vec<PathSummary>,
    /// Median of the errors of all values over UDP, relative to the truth; null without values.
    pub udp_median_error_ratio: Option<f64>,
    /// Runs with a statement that is wrong with confidence.
    pub wrong: usize,
}

/// The runs on one path over one transport. Ratios are from 0 to 1; those of values are null without any.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSummary {
    /// The bottleneck's rate.
    pub bottleneck_bits_per_second: Rate,
    /// Of all devices.
    pub mtu_bytes: u16,
    /// Mean rate of the cross traffic.
    pub cross_bits_per_second: Rate,
    /// What carried the trains.
    pub transport: String,
    /// How many.
    pub runs: usize,
    /// Those whose last repetition was disturbed; they count in none of the figures below.
    pub disturbed: usize,
    /// Those that gave a value.
    pub values: usize,
    /// Median of |value − truth| / truth.
    pub median_error_ratio: Option<f64>,
    /// Coverage: part of the values whose interval contains the truth.
    pub coverage_ratio: Option<f64>,
    /// Runs with a statement that is wrong with confidence.
    pub wrong: usize,
    /// Median of the lower bounds in place of values; null without any.
    pub median_at_least_bits_per_second: Option<Rate>,
    /// Runs whose report says that the sender was the limit.
    pub limited_by_sender: usize,
    /// Runs without a value, by cause.
    pub refusals: BTreeMap<String, usize>,
    /// Mean IP bytes of a run; null where all were disturbed.
    pub mean_bytes: Option<f64>,
    /// Mean duration of a run; null where all were disturbed.
    pub mean_seconds: Option<f64>,
}

impl FastLinksSummary {
    /// Of these rows.
    pub(super) fn from_rows(rows: &[FastLinkRow]) -> Self {
        let path = |row: &FastLinkRow| (row.bottleneck_bits_per_second, row.mtu_bytes, row.cross_bits_per_second);
        let groups = rows.chunk_by(|a, b| path(a) == path(b) && a.transport == b.transport);
        let udp = undisturbed_rows(rows).filter(|row| row.transport == "udp");
        FastLinksSummary {
            paths: groups.filter_map(PathSummary::from_path_rows).collect(),
            udp_median_error_ratio: median(&udp.filter_map(|row| row.error_ratio).collect::<Vec<_>>()),
            wrong: undisturbed_rows(rows).filter(|row| row.fault.is_some()).count(),
        }
    }
}

impl PathSummary {
    fn from_path_rows(rows: &[FastLinkRow]) -> Option<Self> {
        let first = rows.first()?;
        let all =
            |figure: fn(&FastLinkRow) -> Option<f64>| undisturbed_rows(rows).filter_map(figure).collect::<Vec<_>>();
        let count = |what: fn(&FastLinkRow) -> bool| undisturbed_rows(rows).filter(|row| what(row)).count();
        let mut refusals = BTreeMap::new();
        for reason in undisturbed_rows(rows).filter_map(|row| row.reason.as_deref()) {
            *refusals.entry(refusal_cause(reason)).or_default() += 1;
        }
        let bounds = all(|row| row.at_least_bits_per_second.map(Rate::as_f64));
        Some(PathSummary {
            bottleneck_bits_per_second: first.bottleneck_bits_per_second,
            mtu_bytes: first.mtu_bytes,
            cross_bits_per_second: first.cross_bits_per_second,
            transport: first.transport.clone(),
            runs: rows.len(),
            disturbed: rows.len() - undisturbed_rows(rows).count(),
            values: count(|row| row.available_bits_per_second.is_some()),
            median_error_ratio: median(&all(|row| row.error_ratio)),
            coverage_ratio: mean(&all(|row| row.covers_truth.map(|covers| f64::from(u8::from(covers))))),
            wrong: count(|row| row.fault.is_some()),
            median_at_least_bits_per_second: median(&bounds).map(Rate::from_f64),
            limited_by_sender: count(FastLinkRow::is_limited_by_sender),
            refusals,
            mean_bytes: mean(&all(|row| Some(row.bytes_sent as f64))),
            mean_seconds: mean(&all(|row| Some(row.duration_seconds))),
        })
    }
}

/// Those that show the link, not this machine.
pub(super) fn undisturbed_rows(rows: &[FastLinkRow]) -> impl Iterator<Item = &FastLinkRow> {
    rows.iter().filter(|row| !row.disturbed)
}
