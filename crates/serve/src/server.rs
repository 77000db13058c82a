use crate::acceptor::Acceptor;
use crate::config::ServerConfig;
use crate::error::ServeError;
use crate::server_state::ServerState;
use kumade_wire::DEFAULT_PORT;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A listening server.
pub struct Server {
    address: SocketAddr,
    acceptor: Acceptor,
}

impl Server {
    /// Binds TCP and UDP to one port number.
    ///
    /// # Errors
    /// If the address is in use, not available, or requires privileges.
    pub fn bind(config: ServerConfig) -> Result<Self, ServeError> {
        let (address, listener) = match config.listen {
            Some(address) => (address, listen(address)),
            None => listen_on_all_addresses(),
        };
        let failed = |protocol, address| move |cause| ServeError::Listen { address, protocol, cause };
        let listener = listener.map_err(failed("TCP", address))?;
        let address = listener.local_addr().map_err(failed("TCP", address))?;
        let udp = bind_udp(address).map_err(failed("UDP", address))?;
        let shared = Arc::new(ServerState::new(config));
        Ok(Server { address, acceptor: Acceptor::new(listener, udp, shared).map_err(ServeError::Wait)? })
    }

    /// The address it listens on, with the actual port if zero was configured.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients until `stop` is set (which is noticed within 100 ms), then ends their sessions and returns once all
    /// of them have ended.
    ///
    /// # Errors
    /// If the sockets can't be polled.
    pub fn run(self, stop: &AtomicBool) -> Result<(), ServeError> {
        self.acceptor.run(stop).map_err(ServeError::Wait)
    }
}

/// IPv6 and IPv4 on one socket; IPv4 only if the system has no IPv6.
fn listen_on_all_addresses() -> (SocketAddr, io::Result<TcpListener>) {
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
    // Lets a restarted server bind despite connections in TIME_WAIT; a port with a listener remains in use.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    let listener = socket.into();
    kumade_net::tcp::prepare_listener(&listener)?;
    Ok(listener)
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    // Alone on its port at first: a port that anybody shares is an error.
    socket.bind(&address.into())?;
    // Each client's connected socket shares the port: with this option, only sockets of the same user may.
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}
