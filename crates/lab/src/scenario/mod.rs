//! Scenario files: read, validated, and turned into experiments, with what the command line replaces.
//!
//! [`load`] finds the file (the built-in ones are listed in `catalogue.rs`), [`Experiment::from_toml`] reads it. An
//! [`Experiment`] holds everything that running it takes; nothing is read or checked again later.

mod accuracy;
mod atlas;
mod catalogue;
mod checks;
mod contention;
mod experiment;
mod fairness;
mod fast_links;
mod mixes;
mod monitor_mesh;
mod multipath;
mod multipath_draw;
mod nat_session;
mod overrides;
mod path_checks;
mod sweep;

pub use catalogue::{experiments, load};
pub use experiment::Experiment;
pub use overrides::Overrides;
