//! One-way delay between two clocks that nobody has compared, with bounds that always hold.
//!
//! A packet's two stamps come from two clocks, so their difference is the delay plus the far clock's offset. From the
//! packets alone, the offset can't be told from a path that is longer one way than the other: all that is certain is
//! that no packet arrives before it was sent. [`ClockModel`] keeps exactly that: every course of the offset (a straight
//! line between two steps of a clock) that lets no packet of either direction arrive too early. Each figure is then
//! stated with the least and the greatest value that any of these courses gives it. What is known of the clocks
//! ([`Reference`]) leaves fewer of them, and so narrows the interval.
//!
//! The clocks' relative skew is the slope that leaves the widest gap between the lower hulls of both directions' delays
//! over time (after Moon, Skelly, Towsley: Estimation and Removal of Clock Skew from Network Delay Measurements, 1999,
//! who have one direction only).

mod deliveries;
mod lines;
mod model;
mod steps;
mod summary;

pub use deliveries::Deliveries;
pub use model::{ClockModel, ClockStep, NoModel};
pub use summary::{Delays, round_trips};

use train::ClockError;
use units::{Span, Time};

/// Which way a packet went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the far end.
    Forward,
    /// From there.
    Backward,
}

/// One packet that arrived. Each stamp is by the clock of the end where it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// Which way it went.
    pub way: Way,
    /// When it left.
    pub sent: Time,
    /// When it arrived.
    pub received: Time,
}

/// What is known of the clocks from elsewhere: at one moment, the far clock is ahead of the near one by at least `low`
/// and at most `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// When this is so, by the near clock.
    pub at: Time,
    /// The least that the far clock may be ahead.
    pub low: Span,
    /// The most.
    pub high: Span,
}

impl Reference {
    /// From the errors of both clocks at one moment.
    pub fn between(at: Time, near: ClockError, far: ClockError) -> Self {
        Reference { at, low: far.low - near.high, high: far.high - near.low }
    }
}
