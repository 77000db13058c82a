//! Emulates a link between two interfaces, or two TUN devices, in real time.
//!
//! An [`Engine`] takes the packets of either side with the kernel's stamps, lets the pure [`kumade_link`] of the direction decide
//! on each, and sends those that are due to the other side. It runs on [`kumade_packet_loop`]'s packet loop. Departures are computed
//! from the stamps, not from when the thread ran: nothing is early, and the [`statistics`] say how late packets were.
//!
//! A [`session::LinkSession`] is an engine with a name and [`settings`], which [`control`] changes, a [`schedule`] too, and
//! [`report`] and [`prometheus`] show. Several share a packet thread; a [`links_file`] lists them.
#![forbid(unsafe_code)]

mod config;
pub mod control;
mod engine;
mod error;
mod frame;
pub mod links_file;
mod offload_guard;
mod port;
pub mod prometheus;
pub mod report;
pub mod schedule;
pub mod session;
pub mod settings;
pub mod statistics;

pub use config::DirectionConfig;
pub use engine::{Engine, EngineConfig};
pub use error::EmulatorError;
pub use port::{Port, PortSpec};
