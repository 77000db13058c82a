use crate::clock::HostClock;
use crate::named_client::NamedClient;
use crate::shared_usage::SharedUsage;
use kumade_units::Span;
use kumade_wire::{Limits, PresharedKey};
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Configuration of a server: address, keys and limits.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address and port for TCP and UDP; none means the default port on all addresses, IPv6 and IPv4.
    pub listen: Option<SocketAddr>,
    /// Pre-shared key: only clients that have it, or that are among [`clients`](Self::clients), may measure.
    pub key: Option<PresharedKey>,
    /// Clients that have keys of their own. If there are none, and there is no [`key`](Self::key), everybody may measure.
    pub clients: Vec<NamedClient>,
    /// What these clients use of their quotas, all together, and have used before; none to count for each by itself, from zero.
    pub usage: Option<SharedUsage>,
    /// Maximum number of clients at once, queued ones included. When they are that many, a client of the network (IPv4 /24,
    /// IPv6 /48) with most of them gives way to one of another network.
    pub max_clients: usize,
    /// Maximum number of connections at once that have not identified themselves. When they are that many, one of the network
    /// with most of them gives way.
    pub max_pending: usize,
    /// Limits of one client's turn.
    pub limits: Limits,
    /// File at whose end a line of JSON is written for each measurement and for refused keys ([`AccessRecord`](crate::AccessRecord));
    /// to be opened for appending.
    pub access_log: Option<Arc<File>>,
    /// The clock of the server's time stamps.
    pub clock: HostClock,
    /// Ports at which the client of a turn may have the server listen by TCP and UDP; empty for none but a port of the system's choice, by
    /// which clients look at address translation. With ranges, that is one of these as well.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Further addresses of this host, one of each version of IP, at which it listens at those ports, too: so that clients see whether
    /// address translation depends on the address.
    pub second_addresses: Vec<IpAddr>,
    /// Maximum time for which flows of a client are kept while they are idle, beyond its turn; zero to keep none.
    pub max_flow_idle: Span,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: None,
            key: None,
            clients: Vec::new(),
            usage: None,
            max_clients: 64,
            max_pending: 2048,
            limits: Limits { connections: 256, bytes: 4_000_000_000, packets: 10_000_000, turn: Span::from_secs(180) },
            access_log: None,
            clock: HostClock::System,
            ports: Vec::new(),
            second_addresses: Vec::new(),
            max_flow_idle: Span::from_secs(600),
        }
    }
}
