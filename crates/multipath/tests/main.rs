//! All tests of the built crate in one program, which runs them beside each other.

mod allocations;
mod available;
mod bursts;
mod carrier_choice;
mod carriers;
mod checks;
mod choice;
mod corpus;
mod dataplane;
mod health;
mod judge;
mod measured;
mod model;
mod nat_checks;
mod nat_sessions;
mod nat_world;
mod rate;
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod resequencing;
mod world;
