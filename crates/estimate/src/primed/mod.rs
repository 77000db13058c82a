//! The default method: primed trains.
//!
//! A primed train is a preloaded train: a back-to-back preload, the *prime*, followed by a constant-rate train, the *body*.
//! The prime builds a short queue at the bottleneck; the body's rate is near the available bandwidth. As long as the queue
//! does not run empty, the link carries nothing but the train and cross traffic at its full capacity, so that over any
//! part of the body
//!
//! ```text
//! available · Δt = what the train carried − capacity · Δ(one-way delay)
//! ```
//!
//! exactly, however bursty the cross traffic is. The second term is small because the body's rate is kept near the
//! available bandwidth: an error of the capacity, which is taken from the prime's dispersion, has little effect. The prime
//! also empties a token bucket, which would otherwise hide the first excess. One train measures its own few milliseconds;
//! the mean of many trains, and their scatter, measure the available bandwidth over the whole time.
//!
//! All of that takes it that the queue grows at the link whose rate the prime shows. Two long trains a little below the value
//! then verify that no queue grows; where one does, another link is the tight one, and trains of many rates look for it.

mod bottleneck;
mod control;
mod floor;
mod interval;
mod method;
mod packets;
mod path_model;
mod sample;
mod state;
mod summary;
mod tight_link;
mod verification;

pub use method::Primed;
pub use state::PrimedConfig;
