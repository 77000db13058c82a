//! The lab: experiments, most of them published ones, on an emulated network on this machine or in virtual time.
//!
//! [`load`] reads an [`Experiment`] of any kind, built in or from a scenario file; its runs ([`Experiment::run`]) come to a
//! [`ReportDocument`]. What one kind has of its own is a [`Study`]: points, a run, a row, a report.
//!
//! The modules:
//!
//! | module | holds |
//! | --- | --- |
//! | `study` | what all kinds have in common: the trait, the runner, progress, options of the command line |
//! | [`scenario`] | scenario files: the list of kinds, the list of built-in ones |
//! | [`accuracy`] | estimates beside the truth: path, traffic, firewall, measurement in real and in virtual time, summary, report |
//! | [`fairness`] | shares of competing TCP connections: disciplines, runs in real and in virtual time, summary, report, comparison |
//! | [`contention`] | attackers, sparse and short flows beside bulk transfers: disciplines, a search for attacks, summary, report |
//! | [`multipath`] | what one flow gets of several paths: gateways, traffic, runs, summary, report |
//! | [`atlas`] | measurements of paths of many kinds, drawn at random: runs in real and in virtual time, summary, report |
//! | [`fast_links`] | measurements of links of gigabits per second by the kernel's HTB: runs, summary, report |
//! | [`kernel_paths`] | measurements of the kernel's shapers, on paths drawn at random: draw, runs, judgement, report |
//! | [`monitor_mesh`] | a mesh of `kumade monitor` on emulated links: hosts, programs, page, report |
//! | [`nat_session`] | when the sessions of two gateways begin and end: real ones and in virtual time, summary, report |
//! | [`path_treatment`] | what middleboxes do to packets, beside what reports say of it: cases, truth, judgement, report |
//! | `report` | what all reports share: document, terminal, HTML, files, tables, plots |
//! | `error` | all error types and their messages |
//!
//! A new experiment is a file in `scenarios/` and a line in `scenario/catalogue.rs`; a new kind a file that implements [`Study`] and a
//! line in `scenario/kinds.rs`.

// Elsewhere, experiments in real time are described and not run.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

pub mod accuracy;
pub mod atlas;
mod buffer_size;
mod comparison;
pub mod contention;
mod delay_quantiles;
mod error;
pub mod fairness;
#[cfg(target_os = "linux")]
pub mod fast_links;
#[cfg(target_os = "linux")]
mod gateway_side;
#[cfg(target_os = "linux")]
mod host_settings;
#[cfg(target_os = "linux")]
pub mod kernel_paths;
#[cfg(target_os = "linux")]
pub mod monitor_mesh;
pub mod multipath;
#[cfg(target_os = "linux")]
pub mod nat_session;
mod nearest_name;
mod paper;
pub mod path_treatment;
mod report;
#[cfg(target_os = "linux")]
mod running_server;
pub mod scenario;
mod statistics;
mod study;
#[cfg(target_os = "linux")]
mod upward_measurement;
mod values;

pub use buffer_size::BufferSize;
pub use comparison::compare_reports;
pub use delay_quantiles::{DelayQuantiles, EchoDelays};
pub use error::{RecordError, ReportError, RunError, ScenarioError};
pub use nearest_name::nearest_choice;
pub use paper::Paper;
pub use report::{
    Condition, Divisor, Interruption, NumberRange, ReplacedOption, ReportDocument, Scalar, Statement, StatementResult,
    now_utc, prepare_directory, printable,
};
pub use scenario::{CatalogueEntry, built_in_file, catalogue, experiments, load, read_runs, tables_named_in};
pub use study::{
    AnyScenario, Exclusion, Experiment, Head, Observer, Outcome, Overrides, Progress, ReportWithRuns, RunOutcome,
    RunRecord, RunRow, Scenario, Shard, Study, run,
};
