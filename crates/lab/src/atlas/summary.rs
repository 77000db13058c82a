use super::row::AtlasRow;
use kumade_sim::atlas::{KindResults, PathResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All runs summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtlasSummary {
    /// By kind and transport, in the order of running.
    pub kinds: Vec<KindSummary>,
}

/// The runs of one kind over one transport. Ratios are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindSummary {
    /// The kind of the paths.
    pub kind: String,
    /// What carried the trains.
    pub transport: String,
    /// How many were measured.
    pub runs: usize,
    /// Those that gave a value.
    pub values: usize,
    /// Coverage: part of the values whose interval contains the truth; null without values.
    pub coverage_ratio: Option<f64>,
    /// Mean absolute error relative to what the path carries without cross traffic; null without values.
    pub mean_absolute_error_ratio: Option<f64>,
    /// Median width of the intervals relative to the truth; null without values.
    pub median_width_ratio: Option<f64>,
    /// Runs with a statement that is wrong with confidence.
    pub wrong: usize,
    /// Runs whose report says that a proxy ends the TCP connections.
    #[serde(default)]
    pub proxies_named: usize,
    /// Runs without a value, by cause.
    pub refusals: BTreeMap<String, usize>,
    /// Mean IP bytes of a run.
    pub mean_bytes: f64,
    /// Mean duration of a run.
    pub mean_seconds: f64,
    /// Mean part of their goodput that a run took from TCP connections; null without such cross traffic.
    pub mean_goodput_lost_ratio: Option<f64>,
    /// The greatest part.
    pub max_goodput_lost_ratio: Option<f64>,
    /// By how much a run raised the 99th percentile of the queueing delay, on average; null without TCP connections.
    pub mean_added_queueing_seconds: Option<f64>,
    /// By how much at most.
    pub max_added_queueing_seconds: Option<f64>,
}

impl AtlasSummary {
    /// Of these rows and their verdicts.
    pub(super) fn from_rows(rows: &[(AtlasRow, PathResult)]) -> Self {
        let groups = rows.chunk_by(|(a, _), (b, _)| (&a.kind, &a.transport) == (&b.kind, &b.transport));
        AtlasSummary { kinds: groups.filter_map(KindSummary::from_group).collect() }
    }
}

impl KindSummary {
    fn from_group(group: &[(AtlasRow, PathResult)]) -> Option<Self> {
        let (first, _) = group.first()?;
        let verdicts: Vec<PathResult> = group.iter().map(|(_, verdict)| verdict.clone()).collect();
        let KindResults {
            runs,
            runs_with_value: values,
            coverage,
            mean_absolute_error: error,
            median_width,
            runs_with_fault: wrong,
            impact,
            runs_reporting_proxy: proxies_named,
            runs_reporting_absent_bucket: _,
            refusals,
            mean_bytes: bytes,
            mean_seconds: seconds,
        } = KindResults::from_results(&verdicts);
        let if_any = |figure| (values > 0).then_some(figure);
        Some(KindSummary {
            kind: first.kind.clone(),
            transport: first.transport.clone(),
            runs,
            values,
            coverage_ratio: if_any(coverage),
            mean_absolute_error_ratio: if_any(error),
            median_width_ratio: if_any(median_width),
            wrong,
            proxies_named,
            refusals,
            mean_bytes: bytes,
            mean_seconds: seconds,
            mean_goodput_lost_ratio: impact.map(|impact| impact.mean.goodput_loss_ratio),
            max_goodput_lost_ratio: impact.map(|impact| impact.max.goodput_loss_ratio),
            mean_added_queueing_seconds: impact.map(|impact| impact.mean.added_queueing_delay.as_secs_f64()),
            max_added_queueing_seconds: impact.map(|impact| impact.max.added_queueing_delay.as_secs_f64()),
        })
    }
}
