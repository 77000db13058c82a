//! The configuration file of a monitor.

mod file;
mod mesh;
mod types;
mod values;

pub use file::RoleConfig;
pub use types::{
    AgentConfig, LightProbes, MeasurementSchedule, MeshAgent, MeshConfig, MeshLink, MeshPair, MonitorConfig,
    MonitoredTarget,
};
pub use values::KeyReader;
