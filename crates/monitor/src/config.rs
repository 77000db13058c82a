//! The configuration file of a monitor.

mod access_section;
mod changes;
mod file;
mod remote_write;
mod types;
mod values;

pub use changes::FixedSetting;
pub use types::{LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget, TlsFiles};
pub use values::KeyReader;
