//! Monitors paths for years: light probes all day, full measurements on a schedule, an archive, a page.
//!
//! A [`Monitor`] is three threads and one more for each measurement. The *prober* sends light probes to all targets; the *recorder*
//! takes their results, starts measurements, and is the only one that writes the archive; the *page* answers browsers from what the
//! recorder publishes and from the archive.
//!
//! In a mesh, the probers are those of the [agents](MeshAgentRun), each on a host of its own, and one more thread takes what they deliver. Between them
//! are frames over connections that show who each is.
#![forbid(unsafe_code)]

pub mod access;
pub mod alerts;
mod archive_engine;
pub mod config;
mod estimate;
mod export;
mod host_use;
mod https;
mod leadership;
pub mod light;
mod mesh;
mod metrics;
mod monitor;
mod monitor_error;
mod page;
mod pair_recorder;
mod pair_state;
pub mod psconfig;
mod recorder;
pub mod remote_write;
mod run_document;
mod schedule;
mod standby;
pub mod status;

pub use estimate::{CostEstimate, MeshLoad, Overloaded};
pub use export::{ArchiveExport, ProbeLine, RunLine};
pub use https::AuthoritiesError;
pub use leadership::Leadership;
pub use mesh::agent::MeshAgentRun;
pub use monitor::Monitor;
pub use monitor_error::MonitorError;
pub use page::{PageError, TlsError};
pub use standby::Standby;
pub use status::{MonitorProtocol, MonitorStatus, Reply, Request};
