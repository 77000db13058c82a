//! The far end of a measurement: `kumade serve`.
//!
//! One thread accepts: it holds connections that have not said what they are for, and answers the packets that open
//! UDP. Each client then has a thread of its own. Clients that want to measure take turns; probe connections and UDP exist
//! only during a turn, so what clients can cost is bounded by their number and by one client's limits.
//!
//! A [`Reflector`] answers STAMP (RFC 8762) besides, to any sender.

mod acceptor;
mod clock;
mod config;
mod error;
mod pending;
mod reflector;
mod server;
mod session;
mod shared;
mod sources;
mod turn;
mod turns;
mod udp;

pub use clock::HostClock;
pub use config::{DEFAULT_PORT, ServerConfig};
pub use error::ServeError;
pub use reflector::{Reflector, ReflectorConfig};
pub use server::Server;
pub use wire::stamp::PORT as STAMP_PORT;
