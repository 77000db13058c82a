//! Whether a rate lasts: the sign of a policer, or of a token bucket too large for the trains of other estimators.
//!
//! Policers and shapers let a burst pass before they limit anything, so that an estimate from short trains holds for that
//! burst only. One longer train at the estimated rate tells: where its rate of arrival falls permanently, what was sent
//! before is the burst. Then a second train uses the burst up and goes on at several rates; where packets are dropped,
//! several trains do, of one rate each. With the bucket empty, a train of rate r shares
//! the committed rate c with cross traffic of rate x, and arrives at
//!
//! ```text
//! D = c · r / (r + x),   thus   r / D = (r + x) / c
//! ```
//!
//! whether the bucket's owner drops (a policer) or delays (a shaper) what exceeds it: the line through the ratios of
//! sending to arrival rate over the sending rate has the slope 1/c, and the available bandwidth c − x is where it reaches 1
//! (TOPP: Melander, Björkman, Gunningberg, GLOBECOM 2000). Random loss has the same ratio at every rate, and is so told from
//! a policer, by how probable the losses of all rates are behind either; loss without queueing delay tells a policer from a shaper.
//!
//! Where the bucket is nearly as fast as what was sent, no rates are far enough apart for a line: rates are then looked for that pass whole with
//! the bucket empty, which are available, while no more is than arrived of the one that fell. So is what a line does not tell closely.
//!
//! Behind a shaper, such trains are so short that its queue does not overflow: what waits in one queue leaves it in turn, so that the same line
//! goes through the growth of the delay, whatever comes with it, while a full queue drops packets, and a TCP connection shows nothing behind one.

mod bisection;
mod bucket_refill;
mod config;
mod fit;
mod growth_search;
mod loss_evidence;
mod plan;
mod probe;
mod queueing;
mod rate_drop;
mod result;
#[cfg(test)]
mod tests;
mod train_rates;
mod trend;

pub use config::PolicingConfig;
pub use probe::PolicingProbe;
pub use result::{ExcessAction, PolicerOrShaper, PolicingResult};
