//! Links of gigabits per second: the kernel's HTB between real hosts, in real time. How far off measurements are, how often they refuse and
//! why, and where this machine itself is the limit.

mod realtime;
mod report;
mod row;
mod runner;
mod scenario;
mod summary;

pub use report::FastLinksReport;
pub use row::FastLinkRow;
pub use runner::{FastLinksOutcome, FastLinksProgress, expected_time, run};
pub use scenario::{FastLinkPath, FastLinkPoint, FastLinksExperiment};
pub use summary::{FastLinksSummary, PathSummary};
