//! The results of an experiment on fairness, as a document and as people read them.

mod comparison;
mod conclusions;
mod document;
mod plots;
mod render;
mod setting;
mod tables;

pub use comparison::compare;
pub use document::FairnessReport;
