//! All tests of the built crate in one program, which runs them beside each other.

mod disciplines;
mod every_discipline;
mod impairments;
mod media;
mod netem;
mod properties;
mod reconfigure;
