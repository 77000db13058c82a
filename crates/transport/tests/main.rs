//! All tests of the built crate in one program, which runs them beside each other.

mod clock_steps;
mod transports;
