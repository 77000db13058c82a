//! What keeps an experiment's memory and time within what a machine has.

use kumade_units::{Rate, Span};

/// Runs of each point.
pub(crate) const MAX_RUNS: u32 = 10_000;
/// The slowest link.
pub(crate) const MIN_RATE: Rate = Rate::from_bits_per_second(100_000);
/// The fastest link.
pub(crate) const MAX_RATE: Rate = Rate::from_mbit(10_000);
/// One-way delay of a link.
pub(crate) const MAX_DELAY: Span = Span::from_secs(2);
