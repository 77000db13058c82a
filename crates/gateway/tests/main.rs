//! All tests of the built crate in one program, which runs them beside each other.

mod bonded;
mod bonded_config;
mod bonded_faults;
mod bonded_threads;
mod checks;
mod config;
mod config_changes;
mod corpus;
mod counter;
mod direct;
mod fast_path;
mod measured;
mod sessions;
mod sessions_config;
mod sites;
mod tunnel;
