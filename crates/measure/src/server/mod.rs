//! The far end of a measurement: `kumade serve`.
//!
//! One thread accepts: it holds connections that have not said what they are for, and answers the packets that open
//! UDP. Each client then has a thread of its own. Whoever wants to measure takes turns; probe connections and UDP exist
//! only during a turn, so what clients can cost is bounded by their number and by one client's limits.

mod acceptor;
mod session;
mod shared;
mod strangers;
mod turn;
mod turns;
mod udp;

use crate::clocks::HostClock;
use crate::server::acceptor::Acceptor;
use crate::server::shared::Shared;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thiserror::Error;
use units::Span;
use wire::{Key, Limits};

/// The port that `serve` listens on and `measure` connects to unless told otherwise.
pub const DEFAULT_PORT: u16 = 7272;

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
    pub max_strangers: usize,
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
            max_strangers: 2048,
            limits: Limits { connections: 256, bytes: 4_000_000_000, packets: 10_000_000, turn: Span::from_secs(180) },
            clock: HostClock::System,
        }
    }
}

/// Why the server cannot listen.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The address is in use, not this host's, or not allowed.
    #[error("cannot listen on {address} ({protocol}): {cause}{}", listen_hint(cause))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// TCP or UDP.
        protocol: &'static str,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// Waiting for clients failed.
    #[error("cannot wait for clients: {0}")]
    Wait(#[source] io::Error),
}

/// A server that listens.
pub struct Server {
    address: SocketAddr,
    acceptor: Acceptor,
}

impl Server {
    /// Binds both protocols to one port number.
    ///
    /// # Errors
    /// The address is taken or not available.
    pub fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let (address, listener) = match config.listen {
            Some(address) => (address, listen(address)),
            None => listen_everywhere(),
        };
        let failed = |protocol, address| move |cause| ServerError::Listen { address, protocol, cause };
        let listener = listener.map_err(failed("TCP", address))?;
        let address = listener.local_addr().map_err(failed("TCP", address))?;
        let udp = bind_udp(address).map_err(failed("UDP", address))?;
        let shared = Arc::new(Shared::new(config));
        Ok(Server { address, acceptor: Acceptor::new(listener, udp, shared).map_err(ServerError::Wait)? })
    }

    /// Where it listens; tells the port where zero was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers clients until `stop` is set (which is noticed within a tenth of a second), then ends their sessions and
    /// returns once all of them have ended.
    ///
    /// # Errors
    /// Where the system refuses to wait for sockets.
    pub fn run(self, stop: &AtomicBool) -> Result<(), ServerError> {
        self.acceptor.run(stop).map_err(ServerError::Wait)
    }
}

/// IPv6 and IPv4 on one socket; IPv4 alone where the system has no IPv6.
fn listen_everywhere() -> (SocketAddr, io::Result<TcpListener>) {
    let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
    match listen(both) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
            (v4, listen(v4))
        }
        result => (both, result),
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Only lets a restarted server bind while old connections linger; a port with a listener stays taken.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    let listener = socket.into();
    net::tcp::prepare_listener(&listener)?;
    Ok(listener)
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Each client's connected socket shares the port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn listen_hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program (or another `kumade serve`) uses that port: choose one with --listen"
        }
        io::ErrorKind::AddrNotAvailable => "; this host does not have that address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges: choose a higher one",
        _ => "",
    }
}
