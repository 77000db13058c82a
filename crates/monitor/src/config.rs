//! The configuration file of a monitor.

mod access_section;
mod alert_sections;
mod changes;
mod file;
mod remote_write;
mod spanned;
mod types;

pub(crate) use changes::COMMAND;
pub use changes::FixedSetting;
pub use file::KeyReader;
pub use types::{LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget, TlsFiles};
