//! What a network path is, from facts of its probe trains.
//!
//! 1. **Facts** ([`TrainFacts`]): one small vector a train, a pure function of its record. Packets of a train are never independent
//!    observations.
//! 2. **Path models** ([`MODELS`], a file each below `models`): each says by how much the delay grows over a train, and how much that
//!    scatters, as a function of two to four parameters. "Other" is a model, too.
//! 3. **Posterior** ([`Evidence`]): the mass of each model, and quantiles of the available bandwidth over all of them.
//! 4. **Verdict** ([`Verdict`]): a value where the answer is narrow enough and no prior decides it, else a reason.
//!
//! All delays are in seconds up to a constant, all rates in bits per second of IP packets (RFC 5136), inside as `f64`. Integrals are sums over
//! grids that close in on the mass, so that the same trains always give the same evidence.
#![forbid(unsafe_code)]

mod assumptions;
mod collector;
mod facts;
mod fit;
mod grid;
mod hosts;
mod model;
mod models;
mod noise;
mod observations;
mod posterior;
mod quantiles;
#[cfg(test)]
mod self_calibration;
mod student;
mod verdict;

pub use collector::EvidenceCollector;
pub use facts::{SegmentFacts, TrainFacts};
pub use model::{PathModel, Tells};
pub use models::MODELS;
pub use observations::Fact;
pub use posterior::Evidence;
pub use quantiles::{ModelMass, NOMINAL_COVERAGE, PROBABILITIES, Quantiles};
pub use verdict::{Refusal, Verdict};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
