use kumade_multipath::measured::PathMeasurement;
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// What is known of a path to a remote site by measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPathStatus {
    /// The remote site's place in the configuration.
    pub remote: usize,
    /// The path's place in the configuration.
    pub path: usize,
    /// The rate by which it is weighed: available and carried; `None` before the first measurement.
    pub rate: Option<Rate>,
    /// Its weight by measurements; `None` until all paths of the remote site have been measured.
    pub weight: Option<u32>,
    /// The last measurement.
    pub last: Option<LastMeasurement>,
    /// Why no measurement has succeeded since.
    pub error: Option<String>,
}

/// A measurement of a path that has succeeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastMeasurement {
    /// What it has found.
    pub found: PathMeasurement,
    /// Ratio of packets lost on the idle path.
    pub loss: Option<Estimate<f64>>,
    /// How long ago.
    pub age: Span,
}
