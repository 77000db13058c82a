//! A mesh of `kumade monitor` between hosts on emulated links: what it finds beside the truth, and its page.

mod directory_watch;
mod file;
mod mesh_hosts;
mod report;
mod row;
mod runner;
mod scenario;
mod status;
mod study;

pub use report::MonitorMeshReport;
pub use row::MeshRow;
pub use runner::{MeshRunSettings, run};
pub use scenario::{MeshSite, MonitorMeshExperiment};
