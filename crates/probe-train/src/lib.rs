//! A probe train as planned ([`Train`]; [`MarkedTrain`] of small packets with marks; [`HopTrace`] of those that routers answer;
//! [`DsFieldTrain`] whose packets have a DSCP and ECN codepoint each), the record of its transfer ([`TrainRecord`]), and a value with its interval
//! ([`Estimate`]): the types shared by the crates that plan trains, carry them and report the results. A [`ClockError`]
//! bounds the error of a host's clock.
//!
//! Rates count IP-layer bits (RFC 5136): packet sizes include the IP header and everything behind it.
#![forbid(unsafe_code)]

mod clock;
mod ds_field_train;
mod estimate;
pub mod fit;
mod hop_trace;
mod marked;
mod order;
mod plan;
mod port;
mod record;
pub mod statistics;
mod transport;

pub use clock::ClockError;
pub use ds_field_train::{DsFieldArrival, DsFieldPacket, DsFieldRecord, DsFieldTrain};
pub use estimate::Estimate;
pub use hop_trace::{HopAnswer, HopProbe, HopTrace, HopTraceRecord};
pub use marked::{Mark, MarkedArrival, MarkedRecord, MarkedTrain};
pub use plan::{Burst, PlannedPacket, Segment, Train, TrainError};
pub use port::PortProtocol;
pub use record::{JoinedBursts, PacketRecord, TrainRecord};
pub use transport::Transport;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
