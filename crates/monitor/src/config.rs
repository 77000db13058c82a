//! The configuration file of a monitor.

mod access_section;
mod alert_sections;
mod changes;
mod file;
mod mesh;
mod mesh_pairs;
mod remote_write;
mod types;
mod unknown_name;
mod values;

pub(crate) use changes::COMMAND;
pub use changes::FixedSetting;
pub use file::RoleConfig;
pub use types::{
    AgentConfig, LightProbes, MeasurementSchedule, MeshAgent, MeshConfig, MeshLink, MeshPair, MonitorConfig,
    MonitoredTarget, OwnAgentConfig, TlsFiles,
};
pub use values::KeyReader;
