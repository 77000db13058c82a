//! A probe train as planned ([`Train`]), what became of it ([`TrainRecord`]), and the value with its interval that is
//! read from such records ([`Estimate`]): the words that those who plan trains, carry them and report on them share.
//! Trains cross between hosts whose clocks may be wrong, by a [`ClockError`].
//!
//! Rates count IP-layer bits (RFC 5136): packet sizes include the IP header and everything behind it.
#![forbid(unsafe_code)]

mod clock;
mod estimate;
mod plan;
mod record;
pub mod statistics;
mod transport;

pub use clock::ClockError;
pub use estimate::Estimate;
pub use plan::{PlannedPacket, Segment, Train, TrainError};
pub use record::{PacketRecord, TrainRecord};
pub use transport::Transport;
