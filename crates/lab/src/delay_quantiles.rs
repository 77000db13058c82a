use kumade_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quantiles of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(rename = "Delays")]
pub struct DelayQuantiles {
    /// Median.
    pub median_seconds: f64,
    /// 95th percentile.
    pub p95_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
}

/// Round trips of an echo.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EchoDelays {
    /// Of the packets that came back.
    pub round_trips: DelayQuantiles,
    /// Part of the packets that did not come back before the run ended.
    pub unanswered_ratio: f64,
}

impl DelayQuantiles {
    /// Of delays in seconds; none of none.
    pub(crate) fn from_seconds(mut delays: Vec<f64>) -> Option<Self> {
        delays.sort_unstable_by(f64::total_cmp);
        let last = delays.len().checked_sub(1)?;
        let at = |part: f64| delays.get(((delays.len() as f64 * part) as usize).min(last)).copied();
        Some(DelayQuantiles { median_seconds: at(0.5)?, p95_seconds: at(0.95)?, p99_seconds: at(0.99)? })
    }

    /// Of what is known by its quantiles; none of none.
    pub(crate) fn from_quantiles(count: u64, quantile: impl Fn(f64) -> Span) -> Option<Self> {
        let [median_seconds, p95_seconds, p99_seconds] = [0.5, 0.95, 0.99].map(|part| quantile(part).as_secs_f64());
        (count > 0).then_some(DelayQuantiles { median_seconds, p95_seconds, p99_seconds })
    }
}
