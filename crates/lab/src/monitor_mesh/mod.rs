//! A mesh of `kumade monitor` between hosts on emulated links: what it finds beside the truth, and its page.

mod directory_watch;
mod mesh_hosts;
mod report;
mod row;
mod runner;
mod scenario;
mod status;

pub use report::MonitorMeshReport;
pub use row::MeshRow;
pub use runner::{MeshProgress, MeshRunSettings, expected_time, run};
pub use scenario::{MeshSite, MonitorMeshExperiment};
