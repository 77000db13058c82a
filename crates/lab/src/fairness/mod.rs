//! Experiments on fairness: groups of TCP connections compete for a bottleneck, and queue disciplines are compared by the
//! shares that result.
//!
//! A [`FairnessExperiment`] consists of [`FairnessCase`]s (networks with their connections); each is run with each
//! [`DisciplineChoice`] and several seeds, in virtual time or over the kernel's TCP; each run gives a [`FairnessRow`], and
//! the rows a [`FairnessReport`].

mod access_path;
mod discipline;
mod file;
#[cfg(target_os = "linux")]
mod kernel_network;
mod mixes;
mod published;
#[cfg(target_os = "linux")]
mod realtime;
mod report;
mod row;
mod scenario;
mod study;
mod summary;
mod virtual_time;

#[cfg(target_os = "linux")]
pub(crate) use kernel_network::{
    BottleneckLink, CounterSnapshot, KernelControllers, RECEIVER_HOST, build_network, sender_host_name,
};
pub(crate) use scenario::connections;
pub(crate) use study::SETUP_TIME;

pub use discipline::{DisciplineChoice, LinkContext};
pub use published::{PublishedMix, PublishedShare};
pub use report::{FairnessReport, compare};
pub use row::{DropCounts, FairnessRow, FlowShare, GroupShare};
pub use scenario::{
    AccessHop, ConnectionGroup, FairnessCase, FairnessExperiment, FairnessPoint, SharedLink, SharedNetwork,
};
pub use summary::{DisciplineSummary, FairnessSummary, GroupSummary, PointSummary};
