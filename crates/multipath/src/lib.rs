//! Several paths between two gateways as one: which path takes the next packet, how each path does, and in which order
//! packets come out at the far end.
//!
//! Nothing here sends or receives. A gateway that sends asks for a path for each packet and numbers it; one that receives
//! hands over what arrived, and is told what to deliver. Addresses, encryption and sockets are its own. A datagram
//! carries a path's number and a counter of that path outside of what is here, so that both ends count per path, too.
//!
//! **Loop contract.** Times come in with each call and never go back. Hand over each packet and each event when it
//! happened; then drain what came of it; then sleep until the earliest deadline that is told, or the next event. Nothing
//! happens between calls.
#![forbid(unsafe_code)]

pub mod message;
mod path_id;
mod predecessor;
pub mod resequencer;
mod sequencer;

pub use path_id::PathId;
pub use predecessor::Predecessor;
pub use resequencer::{Arrival, Resequencer, ResequencerConfig, ResequencerStatistics, WaitStatistics};
pub use sequencer::{Assignment, Sequencer};
