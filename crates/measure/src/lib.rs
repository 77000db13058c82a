//! Measuring a path between two hosts: both ends of it, over real sockets.
//!
//! [`server`] answers (`kumade serve`), [`measure()`] asks (`kumade measure`) and comes back with a [`Report`]. The
//! estimators (`estimate`) and the protocol (`wire`) are pure and live elsewhere; [`transport`] carries their trains.

mod client;
mod clocks;
mod control;
pub mod report;
pub mod server;
pub mod stamp;
pub mod transport;

pub use client::{Direction, Directions, Error, Event, Family, MeasureConfig, TransportChoice, measure};
pub use clocks::{HostClock, NtpServer};
pub use estimate::MethodSettings;
pub use report::Report;
pub use server::{DEFAULT_PORT, Server, ServerConfig, ServerError};
pub use wire::{Key, TransportKind};
