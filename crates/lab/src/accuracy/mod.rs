//! Experiments on accuracy: estimates of a path beside the truth that the lab knows.
//!
//! An [`AccuracyExperiment`] consists of [`AccuracyScenario`]s: a path, its traffic, and what is measured on it. Each measurement is a run, in
//! real time or not, and gives a [`Row`]; a [`Report`] sums them up.

mod experiment;
mod file;
pub(crate) mod firewall;
pub(crate) mod full_measurement;
pub(crate) mod keywords;
pub(crate) mod observed_trains;
pub(crate) mod path;
mod path_checks;
mod plan;
pub(crate) mod published;
#[cfg(target_os = "linux")]
mod realtime;
mod report;
mod row;
#[cfg(test)]
mod sample_reports;
pub(crate) mod scenario;
mod study;
mod summary;
mod sweep;
mod virtual_time;

pub use experiment::AccuracyExperiment;
pub use firewall::FirewallRule;
pub use full_measurement::{AccuracyLimits, CapacitySummary, DelaySummary, FullSummary, ShaperSummary};
pub use keywords::{BottleneckKind, CrossKind, CrossSource, FirewallAction, Protocol, Transport};
pub use path::{Bottleneck, DownstreamHop, Shaper};
pub use published::PublishedResult;
pub use report::{BottleneckFacts, Report};
pub use row::{DelayRow, Row, TimelinePacket};
pub use scenario::{AccuracyPoint, AccuracyScenario, CrossTraffic};
pub use summary::{ByMethod, PublishedFigure, PublishedSummary, Summary};
