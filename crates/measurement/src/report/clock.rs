use super::figures::SecondsWithBounds;
use kumade_estimate::delay::ClockModel;
use kumade_probe_train::Estimate;
use kumade_units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The peer's clock relative to this host's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockReport {
    /// By how many seconds the peer's clock is ahead; negative if it is behind.
    pub offset_seconds: Estimate<f64>,
    /// By which fraction the peer's clock runs faster: 1e-6 is 1 ppm.
    pub skew: Estimate<f64>,
    /// Steps of either clock during the measurement.
    pub steps: Vec<StepReport>,
    /// Maximum error of this host's clock against UTC; null if unknown (the clock is unsynchronised).
    pub near_error_seconds: Option<f64>,
    /// Maximum error of the peer's clock against UTC, as the peer states it; null if unknown (the clock is unsynchronised).
    pub far_error_seconds: Option<f64>,
}

/// A step of one of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// Time from the first probe to the step.
    pub after_seconds: f64,
    /// Change of the offset: by how many seconds the peer's clock is further ahead than before.
    pub size_seconds: f64,
}

impl ClockReport {
    /// From a fitted clock model; times of steps are relative to `started`, by this host's clock.
    pub fn new(model: &ClockModel, started: Time, near_error: Option<Span>, far_error: Option<Span>) -> Self {
        let steps = model.steps().iter().map(|step| StepReport {
            after_seconds: (step.time - started).as_secs_f64(),
            size_seconds: step.size.as_secs_f64(),
        });
        ClockReport {
            offset_seconds: model.offset().map(Span::as_secs_f64),
            skew: model.skew(),
            steps: steps.collect(),
            near_error_seconds: near_error.map(Span::as_secs_f64),
            far_error_seconds: far_error.map(Span::as_secs_f64),
        }
    }
}

impl fmt::Display for ClockReport {
    /// `peer's clock: ahead by 87 ms ±2 ms, skew +50 ppm (+48 … +51); maximum error: peer …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, low, high, confidence } = self.offset_seconds;
        let (word, offset) = if value < 0.0 {
            ("behind", Estimate { value: -value, low: -high, high: -low, confidence })
        } else {
            ("ahead", self.offset_seconds)
        };
        let [skew, low, high] = [self.skew.value, self.skew.low, self.skew.high].map(|ratio| ratio * 1e6);
        write!(
            f,
            "peer's clock: {word} by {}, skew {skew:+.0} ppm ({low:+.0} … {high:+.0})",
            SecondsWithBounds(offset)
        )?;
        let maximum = |error: Option<f64>| match error {
            Some(seconds) => Span::from_secs_f64(seconds).to_string(),
            None => "unknown (clock unsynchronised)".to_owned(),
        };
        let [near, far] = [self.near_error_seconds, self.far_error_seconds].map(maximum);
        write!(f, "; maximum error: peer {far}, this host {near}")
    }
}
