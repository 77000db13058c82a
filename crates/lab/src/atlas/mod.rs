//! Paths of many kinds, drawn at random with known truth: how far off measurements are, how often their intervals hold the
//! truth, how often they refuse and why, and how often they are wrong with confidence.
//!
//! The paths are those of [`kumade_sim::atlas`]. In virtual time all of them are measured; in real time a few of each kind that can be
//! built of emulated links between real hosts.

mod buildable;
mod file;
#[cfg(target_os = "linux")]
mod realtime;
mod report;
mod row;
mod scenario;
mod study;
mod summary;

pub use kumade_sim::atlas::PathKind;
pub use report::PathAtlasReport;
pub use row::{AtlasRow, FaultKind};
pub use scenario::{AtlasPoint, PathAtlas, SeedChoice};
pub use summary::{AtlasSummary, KindSummary};
