//! What an experiment on accuracy came to, as a document and as people read it.

mod case;
mod case_plots;
mod case_tables;
mod csv;
mod document;
mod format;
mod full_tables;
mod plots;
mod render;
mod setting;
mod summary_table;
mod tables;
mod verdicts;

pub use document::{BottleneckFacts, Report};
