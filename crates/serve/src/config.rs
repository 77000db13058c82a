use crate::clock::HostClock;
use std::net::SocketAddr;
use units::Span;
use wire::{Key, Limits};

/// The port that a server listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = wire::DEFAULT_PORT;

/// How a server listens, and what it grants.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where to listen, by TCP and by UDP; none means the default port on every address, IPv6 and IPv4.
    pub listen: Option<SocketAddr>,
    /// Only clients that hold this key may measure.
    pub key: Option<Key>,
    /// Clients at once, those that wait for their turn included; a quarter of them from one address, or one IPv6 network
    /// of 64 bits.
    pub max_clients: usize,
    /// Connections at once that have not said what they are for.
    pub max_pending: usize,
    /// What one client may use in one turn.
    pub limits: Limits,
    /// The clock of the server's stamps.
    pub clock: HostClock,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: None,
            key: None,
            max_clients: 64,
            max_pending: 2048,
            limits: Limits { connections: 256, bytes: 4_000_000_000, packets: 10_000_000, turn: Span::from_secs(180) },
            clock: HostClock::System,
        }
    }
}
