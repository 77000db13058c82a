//! The lab: the papers' experiments, run on a network of its own.
//!
//! A [`Scenario`] says what to build and what to measure on it; a [`Testbed`] builds it and carries out one measurement
//! at a time; [`run`] goes through all of them, repeats the runs in which the machine stalled and collects [`Row`]s; a
//! [`Report`] sums the rows up and writes them as a terminal table, HTML, CSV and JSON. The other kind of [`Experiment`]
//! is about [`fairness`].

mod catalogue;
mod experiment;
pub mod fairness;
mod observed;
mod path;
mod plan;
mod realtime;
mod report;
mod row;
mod runner;
mod scenario;
mod statistics;
mod summary;
mod sweep;
mod virtual_time;
mod whole;

pub use catalogue::{Overrides, ScenarioError};
pub use experiment::{Experiment, experiments, load};
pub use path::{Bottleneck, BottleneckKind, Later, Shaper};
pub use realtime::RealTime;
pub use report::{Document, Report, ReportError, now_utc, prepare};
pub use row::{DelayRow, Row, TimelinePacket};
pub use runner::{Attempt, Progress, RunError, Testbed, run};
pub use scenario::{
    Carrier, Cross, CrossKind, FirewallAction, FirewallRule, Method, Paper, Point, Protocol, Published, Scenario,
    Transport,
};
pub use summary::{ByMethod, Summary};
pub use sweep::{Also, Sweep};
pub use virtual_time::VirtualTime;
pub use whole::{CapacitySummary, DelaySummary, Limits, ShaperSummary, WholeSummary};
