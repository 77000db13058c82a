//! Instants, spans, rates and sizes: the words that every other crate speaks; and the token bucket, by which many of them limit.
//!
//! All of them are integers (nanoseconds, bits per second, bytes), so that a simulation gives the same run
//! everywhere. A [`Time`] belongs to whichever clock its maker read; only differences have a meaning across crates.
//! [`parse`] reads them as `tc` writes them (`100mbit`, `20ms`, `0.1%`, `64kb`), and [`exact_text`] writes them so.
#![forbid(unsafe_code)]

mod config_error;
mod digits;
mod direction;
pub mod exact_text;
pub mod parse;
mod rate;
mod time;
mod token_bucket;

pub use config_error::ConfigError;
pub use direction::Direction;
pub use rate::Rate;
pub use time::{Span, Time};
pub use token_bucket::{RateLimiter, TokenBucket, TokenRate};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
