//! Measures available bandwidth, capacity, one-way delay and loss between this host and one that runs `kumade serve`
//! (crate `serve`), or delay and loss to a STAMP reflector.
//!
//! [`measure`] opens a control connection, waits for its turn, and drives a [`Measurement`] over real sockets: UDP if it
//! passes, otherwise many TCP connections. [`MeasureConfig`] says what to measure, and from which source address,
//! interface and firewall mark. A measurement ends by itself, at a deadline, or when another thread
//! [cancels](CancelToken) it.
//!
//! Progress comes as [`Event`]s, the result as a [`Report`] that can be serialised and deserialised, and failures as
//! [`Error`]s with a [`Hint`], for which the program chooses the wording.
//!
//! ```
//! use kumade_client::{Directions, Event, MeasureConfig, measure};
//! use std::time::Duration;
//!
//! # let server = kumade_serve::Server::bind(kumade_serve::ServerConfig { listen: Some(([127, 0, 0, 1], 0).into()), ..Default::default() })?;
//! # let (host, port) = ("127.0.0.1", server.local_addr().port());
//! # static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
//! # let serving = std::thread::spawn(move || server.run(&STOP));
//! let mut config = MeasureConfig::new(host, port);
//! config.plan.directions = Directions::Up;
//! config.plan.budget.time = Some(Duration::from_secs(2).into());
//! config.binding.source = Some("127.0.0.1".parse()?);
//! config.deadline = Some(Duration::from_secs(60).into());
//!
//! let report = measure(&config, &mut |event| {
//!     if let Event::Train { number, .. } = event {
//!         eprintln!("train {number}");
//!     }
//! })?;
//! let up = report.up.expect("it was asked for");
//! match (up.available_bits_per_second, up.reason) {
//!     (Some(rate), _) => println!("{} ({} … {})", rate.value, rate.low, rate.high),
//!     (None, Some(reason)) => println!("not known: {reason}"),
//!     (None, None) => println!("not known"),
//! }
//! # STOP.store(true, std::sync::atomic::Ordering::Relaxed);
//! # serving.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cancel;
mod client;
mod clocks;
mod config;
mod ds_fields;
mod error;
mod exchange;
mod family;
mod hint;
mod hop_trace;
mod host_claim;
mod idle_flows;
mod load;
mod mapping;
mod open;
mod path;
mod port_probe;
mod ports;
mod queue_watch;
mod resolve;
mod running_measurement;
mod server_connection;
mod stamp;
mod udp_nonce;

pub use cancel::CancelToken;
pub use client::measure;
pub use clocks::NtpServer;
pub use config::MeasureConfig;
pub use error::{DEADLINE_EXCEEDED, Error, HOST_IN_USE};
pub use family::Family;
pub use hint::Hint;
pub use host_claim::{HostClaimConfig, IfHeld};
pub use kumade_measurement::report;
pub use kumade_measurement::{
    Directions, Event, Measurement, MeasurementPlan, MethodSettings, Report, RequestedBudget, TransportChoice,
};
pub use kumade_net::SocketBinding;
pub use kumade_probe_train::Transport;
pub use kumade_units::{Direction, Rate, Span};
pub use kumade_wire::{DEFAULT_PORT, PresharedKey};
pub use running_measurement::{EndedMeasurement, RunningMeasurement};
pub use stamp::{DsField, Dscp, Ecn, STAMP_PORT, StampConfig, measure_stamp};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
