//! All tests of the built crate in one program, which runs them beside each other.
#![cfg(target_os = "linux")]

mod replace_files;
