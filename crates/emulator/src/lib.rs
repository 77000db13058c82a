//! Joins two interfaces, or two TUN devices, through a `link` each way, in real time.
//!
//! An [`Engine`] takes the packets of either side with the kernel's stamps, lets the pure [`link`] decide what becomes
//! of each, and writes what is due to the other side. One thread does all of it, from a packet's arrival to its
//! departure; the departures follow from the stamps, not from when the thread ran.
#![forbid(unsafe_code)]

mod config;
pub mod control;
mod engine;
mod error;
mod frame;
mod offload_guard;
mod port;
pub mod prometheus;
pub mod report;
pub mod schedule;
pub mod session;
pub mod settings;
pub mod statistics;
mod text_file;

pub use config::DirectionConfig;
pub use engine::Engine;
pub use error::EmulatorError;
pub use port::{Port, PortSpec};
