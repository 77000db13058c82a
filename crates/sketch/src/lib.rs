//! Probes of years: what is kept of each, of minutes, hours and days, in few bytes, without I/O.
//!
//! A [`Sample`] is one light probe. [`PairFloors`] puts its delays into logarithmic buckets *above a floor* of the pair, so
//! that 1.5 ms of queue on a path of 150 ms is told from 1.6 ms. What is stored of a sample is its bucket: from there on all is
//! integers, so that any order of merging gives the same bits.
//!
//! | kept | as | for |
//! | --- | --- | --- |
//! | [`ChunkWriter`] | about 3 bytes a sample, appended to | the open hour, what is not yet rolled up |
//! | [`encode_packets`] | about 2 bytes a sample | each packet of an hour |
//! | [`Block`] of [`Layer::Minutes`], [`Layer::Hours`], [`Layer::Days`] | the sum of its parts, and each part given the sum | years |
//!
//! A [`Summary`] is what minutes, hours and days consist of: counts, and a [`Sketch`] of the delays, apart for probes that
//! were sent while an exclusive run used the path. Minimum, mean, maximum and quantiles are read from the sketch, each with
//! the bounds within which the truth lies.
//!
//! ```
//! use kumade_sketch::{Lane, Outcome, PairFloors, Sample, Summary};
//! use kumade_units::{Span, Time};
//!
//! let mut floors = PairFloors::default();
//! let mut minute = Summary::default();
//! for i in 0..60 {
//!     let outcome = Outcome::Answered { up: Span::from_micros(75_000 + i * 10), down: Span::from_micros(76_000) };
//!     let sent = Time::from_nanos(1_800_000_000_000_000_000 + i * 1_000_000_000);
//!     minute.add_sample(&floors.quantise(&Sample::new(sent, outcome)));
//! }
//! let up = &minute[Lane::Up].idle;
//! assert_eq!((up.sent(), up.lost), (60, 0));
//! let median = up.delays.quantile(0.5).unwrap();
//! assert!(median.low <= Span::from_micros(75_290) && Span::from_micros(75_290) <= median.high);
//! assert!(median.high - median.low < Span::from_micros(20));
//! ```
#![forbid(unsafe_code)]

mod block;
mod buckets;
mod chunk;
mod error;
mod floor;
mod layer;
mod packets;
mod range_coder;
mod sample;
#[allow(clippy::module_inception)]
mod sketch;
mod summary;
mod varint;

pub use block::{Block, MAX_BLOCK_BUCKETS};
pub use buckets::{MAX_RELATIVE_ERROR, QUANTUM_NANOS};
pub use chunk::{ChunkReader, ChunkWriter};
pub use error::DecodeError;
pub use floor::{FloorTracker, PairFloors};
pub use layer::{HOUR_NANOS, Layer, MINUTE_NANOS};
pub use packets::{PacketReader, encode_packets};
pub use sample::{BucketedDelay, Lane, LostIn, Outcome, Sample, TICK_NANOS};
pub use sketch::{Quantile, Sketch};
pub use summary::{LaneSummary, Summary, Tally};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
