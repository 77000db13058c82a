use crate::clock::HostClock;
use kumade_units::Span;
use kumade_wire::{Limits, PresharedKey};
use std::net::SocketAddr;

/// Configuration of a server: address, key and limits.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address and port for TCP and UDP; none means the default port on all addresses, IPv6 and IPv4.
    pub listen: Option<SocketAddr>,
    /// Pre-shared key: only clients that have it may measure.
    pub key: Option<PresharedKey>,
    /// Maximum number of clients at once, queued ones included. When they are that many, a client of the network (IPv4 /24,
    /// IPv6 /48) with most of them gives way to one of another network.
    pub max_clients: usize,
    /// Maximum number of connections at once that have not identified themselves. When they are that many, one of the network
    /// with most of them gives way.
    pub max_pending: usize,
    /// Limits of one client's turn.
    pub limits: Limits,
    /// The clock of the server's time stamps.
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
