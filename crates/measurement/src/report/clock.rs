use super::figures::Bounded;
use estimate::delay::ClockModel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use train::Estimate;
use units::{Span, Time};

/// The peer's clock against this host's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockReport {
    /// What the peer's is ahead.
    pub offset_seconds: Estimate<f64>,
    /// How much faster it runs: 1e-6 is a part in a million.
    pub skew: Estimate<f64>,
    /// When a clock was set meanwhile.
    pub steps: Vec<StepReport>,
    /// By how much this host's clock may be wrong; null where nothing is known.
    pub near_error_seconds: Option<f64>,
    /// By how much the peer's clock may be wrong, by its own word; null where it does not know.
    pub far_error_seconds: Option<f64>,
}

/// A clock that was set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// When, counted from the first probe.
    pub after_seconds: f64,
    /// By how much the peer's clock is further ahead.
    pub size_seconds: f64,
}

impl ClockReport {
    /// What a model says; steps are told from `started` on, by the near clock.
    pub fn new(model: &ClockModel, started: Time, near_error: Option<Span>, far_error: Option<Span>) -> Self {
        let steps = model.steps().iter().map(|step| StepReport {
            after_seconds: (step.at - started).as_secs_f64(),
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
    /// `peer's clock: ahead by 87 ms (wrong by at most 2 ms: 85 ms … 89 ms), drifting by +50 ppm (+48 … +51); …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, low, high, confidence } = self.offset_seconds;
        let (word, offset) = if value < 0.0 {
            ("behind", Estimate { value: -value, low: -high, high: -low, confidence })
        } else {
            ("ahead", self.offset_seconds)
        };
        let [skew, least, most] = [self.skew.value, self.skew.low, self.skew.high].map(|part| part * 1e6);
        write!(
            f,
            "peer's clock: {word} by {}, drifting by {skew:+.0} ppm ({least:+.0} … {most:+.0})",
            Bounded(offset)
        )?;
        let own_word = |error: Option<f64>| match error {
            Some(seconds) => format!("right within {}", Span::from_secs_f64(seconds)),
            None => "kept by nobody".to_owned(),
        };
        let [near, far] = [self.near_error_seconds, self.far_error_seconds].map(own_word);
        write!(f, "; by its own word it is {far}, this host's is {near}")
    }
}
