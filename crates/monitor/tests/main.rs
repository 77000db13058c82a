//! All tests of the built crate in one program, which runs them beside each other.

mod kills;
mod prometheus_files;
mod remote_write;
