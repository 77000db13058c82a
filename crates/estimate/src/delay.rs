//! One-way delay (RFC 7679) between two clocks that are not synchronised, with bounds that always hold.
//!
//! A packet's two stamps come from two clocks, so their difference is the delay plus the far clock's offset. From the
//! packets alone, the offset cannot be told from an asymmetric path: all that is certain is that no packet arrives before
//! it was given to the sender's kernel (which stamps it later, and late where the host is busy). [`ClockModel`] keeps exactly that: every course of the offset over time (a
//! straight line between two steps of a clock) under which no packet of either direction arrives too early. Each figure is
//! then stated with the least and the greatest value that any of these courses gives it. What is known of the clocks from
//! elsewhere ([`ClockReference`]) excludes some of them, and so narrows the interval.
//!
//! The clocks' relative skew is the slope that leaves the widest gap between the lower hulls of both directions' delays
//! over time (after Moon, Skelly, Towsley: Estimation and Removal of Clock Skew from Network Delay Measurements, 1999,
//! who have one direction only).

mod deliveries;
mod event;
mod feasible_lines;
mod lines;
mod model;
mod pieces;
mod sample;
mod steps;
mod summary;

pub use deliveries::{Deliveries, loss_ratio};
pub use model::{ClockModel, ClockModelError, ClockStep};
pub use sample::{ClockReference, OneWaySample};
pub use summary::{Delays, RoundTrip, round_trips};
