//! Experiments on contention: what senders that follow no rules, sparse flows and short flows get beside bulk transfers at one
//! bottleneck, with each queue discipline.
//!
//! A [`ContentionExperiment`] consists of [`ContentionCase`]s; each is run with each discipline and several seeds; each run
//! gives a [`ContentionRow`], and the rows a [`ContentionReport`]. Where the scenario asks for a [`SearchSettings`], the cases are the
//! worst patterns of an attacker that were found for each discipline.

mod attack;
mod file;
#[cfg(target_os = "linux")]
mod realtime;
mod report;
mod row;
mod scenario;
mod search;
mod study;
mod summary;
mod virtual_time;

pub use attack::{Attack, PulseTraffic};
pub use report::ContentionReport;
pub use row::{AttackShare, ContentionRow, ProbeDelays, ShortFlowTimes};
pub use scenario::{ContentionCase, ContentionExperiment, ContentionPoint, Probes, SearchSettings, ShortFlows};
pub use search::AttackGoal;
pub use summary::{ContentionSummary, Spread};
