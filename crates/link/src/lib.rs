//! One direction of an emulated link: a policer, a queue in front of a rate, then loss, delay, jitter, reordering,
//! duplication and corruption.
//!
//! A [`Link`] is a calculation, not a device. It takes packets with their arrival times and says when each leaves at the
//! far end; a simulator drives it with a virtual clock, a packet loop with the real one, and both see the same
//! departures to the nanosecond. [`CrossTraffic`] shares its queue and its rate without a packet being sent, and the
//! [`Ledger`] records what measurements are later compared with. Which packets are queued, sent and dropped is decided by
//! a [`queue`] discipline. Instead of at a constant rate, packets can be transmitted by a [`Medium`]: a schedule of
//! rates, a token bucket, a trace recorded on a cellular network, or a wireless hop with aggregation. All settings can
//! change while packets are on the link, by [`Link::reconfigure`] and [`Link::replace_queue`].
//!
//! **Loop contract.** Hand over each packet by [`Link::offer`] in order of arrival; when time passes, call
//! [`Link::advance`], then [`Link::pop_due`] until it is empty, then sleep until [`Link::next_event`] or the next
//! arrival, whichever is first. Nothing happens between calls, and nothing depends on how often they are made:
//! departures follow from arrivals alone. A driver that learns of arrivals late (a real clock) advances the link to a
//! time in the past, `now − holdback`, and pops by the current one; this is exact as long as the link's delay is at least
//! that holdback. It changes settings at the time to which it advances, too.
//!
//! **Limits.** Memory is bounded by the queue's limit and by [`LinkConfig::in_flight_bytes`], time by what is offered:
//! each packet costs a bounded number of steps, and no allocation once the buffers have grown to the load
//! (a test in `examples/packets_per_second`, which tells the time, too).
//!
//! Sizes are IP packets with their headers, and rates count these bytes (RFC 5136) unless a [`Framing`] says what else they carry.
#![forbid(unsafe_code)]

mod config;
mod cross_traffic;
mod exact_time;
mod framing;
mod jitter;
mod ledger;
mod link;
mod loss;
mod medium;
pub mod queue;
mod random;
mod server;
mod sparse_table;
mod valid;

pub use config::{LinkConfig, Reordering};
pub use cross_traffic::{CrossArrival, CrossConfig, CrossKind, CrossTraffic, PeriodLengths, SizeMix};
pub use framing::{Cells, Framing};
pub use jitter::{Jitter, JitterDistribution, JitterTable, JitterTableError};
pub use ledger::{
    Counters, DropCause, Lateness, Ledger, LedgerEntry, PacketOrigin, PacketOutcome, Recording, TrafficCount,
};
pub use link::{Delivery, Link, MAX_UNDISTURBED_LATENESS, invert_bit};
pub use loss::Loss;
pub use medium::{Medium, RateSchedule, TokenBucket, Trace, TraceError, Wireless};
pub use queue::Label;
pub use sparse_table::SparseTable;
pub use valid::Valid;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
