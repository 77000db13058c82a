//! All tests of the built crate in one program, which runs them beside each other.

mod causes;
mod simulation;
mod virtual_time;
