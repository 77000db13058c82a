//! The lab: experiments, most of them published ones, on an emulated network on this machine or in virtual time.
//!
//! [`load`] reads an [`Experiment`], built in or from a scenario file. One on [`accuracy`] is run on a
//! [`Testbed`](accuracy::Testbed), one on several paths on a [`MultipathTestbed`](multipath::MultipathTestbed), one on
//! [`fairness`] by [`fairness::run`], one on contention by [`contention::run`], one on NAT sessions by [`nat_session::run`], one on paths of many kinds by [`atlas::run`], one on
//! fast links by [`fast_links::run`], one of a monitored mesh by [`monitor_mesh::run`]; the rows become a [`ReportDocument`].
//!
//! The modules:
//!
//! | module | holds |
//! | --- | --- |
//! | [`scenario`] | scenario files: read, validated, turned into experiments; the list of built-in ones |
//! | [`accuracy`] | estimates beside the truth: path, traffic, firewall, measurement in real and in virtual time, summary, report |
//! | [`fairness`] | shares of competing TCP connections: disciplines, runs in real and in virtual time, summary, report, comparison |
//! | [`contention`] | attackers, sparse and short flows beside bulk transfers: disciplines, a search for attacks, summary, report |
//! | [`multipath`] | what one flow gets of several paths: gateways, traffic, runs, summary, report |
//! | [`atlas`] | measurements of paths of many kinds, drawn at random: runs in real and in virtual time, summary, report |
//! | [`fast_links`] | measurements of links of gigabits per second by the kernel's HTB: runs, summary, report |
//! | [`monitor_mesh`] | a mesh of `kumade monitor` on emulated links: hosts, programs, page, report |
//! | [`nat_session`] | when the sessions of two gateways begin and end: real ones and in virtual time, summary, report |
//! | `report` | what all reports share: terminal, HTML, files, tables, plots |
//! | `error` | all error types and their messages |
//!
//! and single files for what several kinds of experiment use: `bounds`, `buffer`, `delays`, `hosts`, `paper`, `parallel`,
//! `repeat`, `serving`, `side`, `statistics`, `values`.
//!
//! A new experiment is a file in `scenarios/` and a line in `scenario/catalogue.rs`.

pub mod accuracy;
pub mod atlas;
mod bounds;
mod buffer_size;
pub mod contention;
mod delay_quantiles;
mod error;
pub mod fairness;
pub mod fast_links;
mod gateway_side;
mod host_settings;
pub mod monitor_mesh;
pub mod multipath;
pub mod nat_session;
mod paper;
mod parallel;
mod report;
mod run_repetition;
mod running_server;
pub mod scenario;
mod statistics;
mod values;

pub use buffer_size::BufferSize;
pub use delay_quantiles::{DelayQuantiles, EchoDelays};
pub use error::{ReportError, RunError, ScenarioError};
pub use paper::Paper;
pub use report::{ReportDocument, now_utc, prepare_directory, printable};
pub use scenario::{Experiment, Overrides, experiments, load};
