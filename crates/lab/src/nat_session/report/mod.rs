//! The report of an experiment on NAT sessions.

mod conclusions;
mod document;
mod plots;
mod render;
mod setting;
mod tables;

pub use document::NatSessionReport;
