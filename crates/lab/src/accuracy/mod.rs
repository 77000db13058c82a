//! Experiments on accuracy: estimates of a path beside the truth that the lab knows.
//!
//! An [`AccuracyExperiment`] consists of [`AccuracyScenario`]s: a path, its traffic, and what is measured on it. A [`Testbed`]
//! builds the path and carries out one measurement at a time, in real time ([`RealTime`]) or not ([`VirtualTime`]);
//! [`run`] goes through all of them, repeats disturbed runs and collects [`Row`]s; a [`Report`] sums them up.

mod experiment;
pub(crate) mod firewall;
pub(crate) mod full_measurement;
pub(crate) mod keywords;
pub(crate) mod observed_trains;
pub(crate) mod path;
mod plan;
pub(crate) mod published;
mod realtime;
mod report;
mod row;
mod runner;
#[cfg(test)]
mod sample_reports;
pub(crate) mod scenario;
mod summary;
mod virtual_time;

pub use experiment::AccuracyExperiment;
pub use firewall::FirewallRule;
pub use full_measurement::{AccuracyLimits, CapacitySummary, DelaySummary, FullSummary, ShaperSummary};
pub use keywords::{BottleneckKind, CrossKind, CrossSource, FirewallAction, Protocol, Transport};
pub use path::{Bottleneck, DownstreamHop, Shaper};
pub use published::PublishedResult;
pub use realtime::RealTime;
pub use report::{BottleneckFacts, Report};
pub use row::{DelayRow, Row, TimelinePacket};
pub use runner::{AccuracyProgress, MeasurementAttempt, Testbed, run};
pub use scenario::{AccuracyPoint, AccuracyScenario, CrossTraffic};
pub use summary::{ByMethod, PublishedFigure, PublishedSummary, Summary};
pub use virtual_time::VirtualTime;
