//! The report of an experiment on NAT sessions.

mod csv;
mod document;
mod plots;
mod render;
mod setting;
mod tables;
mod verdicts;

pub use document::NatSessionReport;
