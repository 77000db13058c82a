//! The configuration file of a monitor.

mod alert_sections;
mod file;
mod spanned;
mod types;

pub use file::KeyReader;
pub use types::{LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget};
