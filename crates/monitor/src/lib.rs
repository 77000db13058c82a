//! Monitors paths for years: light probes all day, full measurements on a schedule, an archive, a page.
//!
//! A [`Monitor`] is three threads and one more for each measurement. The *prober* sends light probes to all targets; the *recorder*
//! takes their results, starts measurements, and is the only one that writes the archive; the *page* answers browsers from what the
//! recorder publishes and from the archive.
#![forbid(unsafe_code)]

pub mod access;
pub mod alerts;
pub mod config;
mod estimate;
mod export;
pub mod light;
mod metrics;
mod monitor;
mod monitor_error;
mod page;
mod pair_recorder;
mod pair_state;
mod recorder;
mod run_document;
mod schedule;
pub mod status;

pub use estimate::{CostEstimate, Overloaded};
pub use export::{ArchiveExport, ProbeLine, RunLine};
pub use monitor::Monitor;
pub use monitor_error::MonitorError;
pub use page::{PageError, TlsError};
pub use status::{MonitorProtocol, MonitorStatus, Reply, Request};
