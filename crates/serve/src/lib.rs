//! The server of measurements, `kumade serve`, and a STAMP reflector.
//!
//! One thread accepts connections, holds them until they have identified themselves (with a key: proved that they have it),
//! and answers the requests that open UDP. Each client then has its own thread. Clients measure in turns; probe connections
//! and UDP exist only during a turn, so the resources that clients use are bounded by their number and by the limits of one
//! client. Turns go round by network (IPv4 /24, IPv6 /48), and where there is no more room, the network that uses most of it
//! gives way, so that strangers, however many, keep nobody else from measuring.
//!
//! Clients may have keys of their own, with quotas. A line of the log tells of each measurement, and of clients without a valid key.
//!
//! A [`Reflector`] answers STAMP (RFC 8762) test packets of any sender.

mod acceptor;
mod access_log;
mod client_table;
mod clients_file;
mod clock;
mod config;
mod error;
mod idle_flows;
mod measurement_turn;
mod named_client;
mod path_view;
mod pending;
mod quota;
mod reflector;
mod server;
mod server_state;
mod session;
mod shared_usage;
mod source_limits;
mod stop_waker;
mod turn_limits;
mod turn_ports;
mod turn_queue;
mod udp;
mod unidentified_connection;

pub use access_log::{AccessEvent, AccessRecord, KeyRefusal, MeasurementRecord, MeasurementResult, RefusedKey};
pub use client_table::ClientChanges;
pub use clients_file::{ClientsFileError, MAX_NAMED_CLIENTS, parse_clients};
pub use clock::HostClock;
pub use config::ServerConfig;
pub use error::ServeError;
pub use kumade_wire::DEFAULT_PORT;
pub use kumade_wire::stamp::PORT as STAMP_PORT;
pub use named_client::{NamedClient, Quota};
pub use reflector::{Reflector, ReflectorConfig};
pub use server::{ClientReplacer, Server};
pub use shared_usage::SharedUsage;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
