//! The lab: the papers' experiments, run on a network of its own.
//!
//! A [`Scenario`] says what to build and what to measure on it; a [`Testbed`] builds it and carries out one measurement
//! at a time; [`run`] goes through all of them, repeats the runs in which the machine stalled and collects [`Row`]s; a
//! [`Report`] sums the rows up and writes them as a terminal table, HTML, CSV and JSON. The other kind of [`Experiment`]
//! is about [`fairness`].

pub mod accuracy;
pub mod fairness;
pub mod scenario;
mod statistics;

pub use accuracy::{
    Attempt, Bottleneck, BottleneckKind, ByMethod, CapacitySummary, Carrier, Cross, CrossKind, DelayRow, DelaySummary,
    Document, FirewallAction, FirewallRule, Later, Limits, Method, Paper, Point, Progress, Protocol, Published,
    RealTime, Report, ReportError, Row, RunError, Scenario, Shaper, ShaperSummary, Summary, Testbed, TimelinePacket,
    Transport, VirtualTime, WholeSummary, now_utc, prepare, run,
};
pub use scenario::{Also, Experiment, Overrides, ScenarioError, Sweep, experiments, load};
