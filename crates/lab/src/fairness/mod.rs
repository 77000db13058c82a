//! Experiments on fairness: groups of TCP connections compete for a bottleneck, and queue disciplines are compared by the
//! shares that come of it.
//!
//! A [`Fairness`] scenario unfolds into [`Case`]s (networks with their connections); each is run with each
//! [`DisciplineChoice`] and several seeds, in virtual time or over the kernel's TCP; each run gives a [`FairnessRow`], and
//! the rows a [`FairnessReport`].

mod comparison;
mod discipline;
mod path;
mod plots;
mod realtime;
mod report;
mod row;
mod runner;
mod scenario;
mod summary;
mod tables;
mod virtual_time;

pub use comparison::compare;
pub use discipline::{DisciplineChoice, Surroundings};
pub use report::FairnessReport;
pub use row::{Delays, DropCounts, FairnessRow, FlowShare, GroupShare};
pub use runner::{FairnessProgress, expected_time, run};
pub use scenario::{AccessHop, Buffer, Case, Fairness, FairnessPoint, Group, SharedLink, Statement};
pub use summary::{DisciplineSummary, FairnessSummary, GroupSummary, MeanWithMargin, PointSummary, PublishedStatement};
