//! The configuration file of a monitor.

mod access_section;
mod changes;
mod file;
mod remote_write;
mod types;

pub use changes::FixedSetting;
pub use file::KeyReader;
pub use types::{LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget, TlsFiles};
