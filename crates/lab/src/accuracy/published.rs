//! What was published about an experiment that the lab repeats.

use super::keywords::Transport;
use crate::values::optional_rate;
use kumade_estimate::MethodSettings;
use kumade_units::Rate;
use serde::Deserialize;

/// A published figure, and what it is about: what is not named was the same for all, or is not known.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedResult {
    /// What the paper calls it.
    pub series: String,
    /// What carried the trains there.
    pub transport: Option<Transport>,
    /// The estimator.
    pub method: Option<MethodSettings>,
    /// The cross traffic.
    #[serde(default, deserialize_with = "optional_rate")]
    pub cross: Option<Rate>,
    /// Mean of |estimate − truth| over all runs.
    #[serde(default, deserialize_with = "optional_rate")]
    pub mean_absolute_error: Option<Rate>,
    /// The estimate.
    #[serde(default, deserialize_with = "optional_rate")]
    pub available: Option<Rate>,
    /// What was available, where the paper knows.
    #[serde(default, deserialize_with = "optional_rate")]
    pub truth: Option<Rate>,
    /// How long that took.
    pub seconds: Option<f64>,
    /// Whether the time is that of a full measurement, and not of the available bandwidth alone.
    #[serde(default)]
    pub full: bool,
}
