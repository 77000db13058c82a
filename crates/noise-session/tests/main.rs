//! All tests of the built crate in one program, which runs them beside each other.

mod checks;
mod corpus;
mod data_path;
mod hosts;
mod network;
#[path = "../../../fuzz/replay.rs"]
mod replay;
