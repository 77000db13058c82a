//! All tests of the built crate in one program, which runs them beside each other.

mod network;
mod sites;
mod star;
mod traffic;
mod treatments;
