use kumade_probe_train::Estimate;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Load balancing by flow: several links side by side, of which each flow takes one (RFC 2991).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadBalancingReport {
    /// By how much packets take longer on each link than on the fastest one, in rising order.
    pub delays_seconds: Vec<f64>,
    /// What many flows can have together: the sum over the links. Null if not every link could be measured.
    pub many_flows_bits_per_second: Option<Estimate<Rate>>,
}

impl fmt::Display for LoadBalancingReport {
    /// `of each of 2 links side by side (load balancing); many flows: 99.8 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flows take one of {} links side by side (load balancing)", self.delays_seconds.len())?;
        match self.many_flows_bits_per_second {
            Some(Estimate { value, low, high, .. }) => write!(f, "; many flows: {value} ({low} … {high})"),
            None => Ok(()),
        }
    }
}
