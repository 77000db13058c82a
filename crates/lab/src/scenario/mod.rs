//! Scenario files: read, validated, and turned into experiments, with what the command line replaces.
//!
//! [`load`] finds the file (the built-in ones are listed in `catalogue.rs`), [`Experiment::from_toml`](crate::Experiment::from_toml) reads
//! it as its kind has it (the kinds are listed in `kinds.rs`). An experiment holds everything that running it takes; nothing is read or
//! checked again later.

mod as_published;
mod catalogue;
#[cfg(test)]
mod dummy;
mod expansion;
mod kinds;
#[cfg(test)]
mod kinds_tests;
#[cfg(test)]
mod record_tests;
mod refusal;

pub use catalogue::{CatalogueEntry, built_in_file, catalogue, experiments, load, tables_named_in};
pub use kinds::read_runs;
