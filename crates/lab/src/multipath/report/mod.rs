//! The results of an experiment on several paths, as a document and as people read them.

mod blocks;
mod conclusions;
mod document;
mod fixed_ratios;
mod plots;
mod render;
mod setting;
mod tables;
mod trace;

pub use document::MultipathReport;
