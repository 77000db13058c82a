//! The configuration file of a monitor.

mod access_section;
mod changes;
mod file;
mod mesh;
mod remote_write;
mod types;
mod values;

pub use changes::FixedSetting;
pub use file::RoleConfig;
pub use types::{
    AgentConfig, LightProbes, MeasurementSchedule, MeshAgent, MeshConfig, MeshLink, MeshPair, MonitorConfig,
    MonitoredTarget, TlsFiles,
};
pub use values::KeyReader;
