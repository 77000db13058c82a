//! All tests of the built crate in one program, which runs them beside each other.

mod control;
mod exporter;
mod journal;
mod namespace_claim;
