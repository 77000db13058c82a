//! What measurements of several paths come to: when which path is measured next, and in which ratio paths get packets.
//!
//! Nothing here measures. A gateway asks [`MeasuredPaths::start_measurement`] which path to measure, tells what came of it, and takes
//! the weights when they have changed.

mod paths;
mod ratio;
mod schedule;
mod steady_rate;

pub use paths::{MeasuredPaths, PathMeasurement};
pub use ratio::{MAX_RATIO_SUM, rates_to_ratio};
pub use schedule::{MeasurementSchedule, ScheduleConfig};
pub use steady_rate::SteadyRate;
