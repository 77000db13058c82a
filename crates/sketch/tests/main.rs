//! All tests of the built crate in one program, which runs them beside each other.

mod checks;
mod corpus;
mod properties;
#[path = "../../../fuzz/replay.rs"]
mod replay;
