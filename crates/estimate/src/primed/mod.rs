//! The default method: primed trains.
//!
//! A short back-to-back burst, the *prime*, fills the bottleneck's queue a little; the *body* then goes on at a
//! constant rate near the available bandwidth. As long as the queue does not run empty, every bit of the link's
//! capacity is spent on the train or on others, so that over any stretch of the body
//!
//! ```text
//! available · Δt = what the train carried − capacity · Δ(one-way delay)
//! ```
//!
//! exactly, however bursty the others are. The second term is small because the body's rate is kept near the
//! available bandwidth: an error in the capacity, which the prime's dispersion gives, hardly enters. The prime also
//! uses up a token bucket, which would hide the first excess. One train is right about its own milliseconds; the
//! mean of many, and their scatter, tell about the measurement's whole time.

mod bottleneck;
mod control;
mod floor;
mod knowledge;
mod method;
mod packets;
mod reading;
mod state;
mod summary;

pub use method::Primed;
pub use state::PrimedConfig;
