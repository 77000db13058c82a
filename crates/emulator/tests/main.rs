//! All tests of the built crate in one program, which runs them beside each other.

mod checks;
mod common;
mod control;
mod corpus;
mod engine;
mod engine_faults;
mod engine_frames;
mod netem_kernel;
mod prometheus;
mod recorder;
