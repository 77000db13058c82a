//! Links of gigabits per second: the kernel's HTB between real hosts, in real time. How far off measurements are, how often they refuse and
//! why, and where this machine itself is the limit.

mod file;
mod realtime;
mod report;
mod row;
mod scenario;
mod study;
mod summary;

pub use report::FastLinksReport;
pub use row::FastLinkRow;
pub use scenario::{FastLinkPath, FastLinkPoint, FastLinksExperiment};
pub use summary::{FastLinksSummary, PathSummary};
