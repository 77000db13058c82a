//! The configuration file of a monitor.

mod file;
mod remote_write;
mod types;

pub use file::KeyReader;
pub use types::{LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget};
