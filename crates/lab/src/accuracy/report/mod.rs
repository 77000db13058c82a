//! The results of an experiment on accuracy, as a document and as people read them.

mod case;
mod case_plots;
mod case_tables;
mod conclusions;
mod document;
mod format;
mod full_tables;
mod plots;
mod render;
mod setting;
mod summary_table;
mod tables;

pub use document::{BottleneckFacts, Report};
