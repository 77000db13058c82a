//! All tests of the built crate in one program, which runs them beside each other.

mod coordinator;
mod cycles;
mod lower_bound;
mod overlaps;
mod simulation;
