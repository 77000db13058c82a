use crate::acceptor::Acceptor;
use crate::client_table::ClientChanges;
use crate::config::ServerConfig;
use crate::error::ServeError;
use crate::named_client::NamedClient;
use crate::server_state::ServerState;
use kumade_net::listener;
use kumade_net::waker::Waker;
use kumade_wire::DEFAULT_PORT;
use socket2::Type;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Replaces the clients of a server while it runs.
#[derive(Clone)]
pub struct ClientReplacer(Arc<ServerState>);

impl ClientReplacer {
    /// These [`ServerConfig::clients`] are served from now on. A turn goes on to its end, also of a client that is there no more; what a client has used of its quota remains with its name.
    ///
    /// If there are none, and the server has no key, everybody may measure from now on.
    pub fn replace(&self, clients: &[NamedClient]) -> ClientChanges {
        self.0.replace_clients(clients)
    }
}

/// A listening server.
pub struct Server {
    address: SocketAddr,
    shared: Arc<ServerState>,
    acceptor: Acceptor,
}

impl Server {
    /// Binds TCP and UDP to one port number.
    ///
    /// # Errors
    /// If the address is in use, not available, or requires privileges.
    pub fn bind(config: ServerConfig) -> Result<Self, ServeError> {
        let address = config.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into());
        let failed = |protocol, address| move |cause| ServeError::Listen { address, protocol, cause };
        let listener = listen(address).map_err(failed("TCP", address))?;
        let address = listener.local_addr().map_err(failed("TCP", address))?;
        let udp = bind_udp(address).map_err(failed("UDP", address))?;
        let shared = Arc::new(ServerState::new(config));
        let acceptor = Acceptor::new(listener, udp, Arc::clone(&shared)).map_err(ServeError::Wait)?;
        Ok(Server { address, shared, acceptor })
    }

    /// The address it listens on, with the actual port if zero was configured.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What replaces its clients while it runs.
    pub fn client_replacer(&self) -> ClientReplacer {
        ClientReplacer(Arc::clone(&self.shared))
    }

    /// What wakes the server after `stop` of [`run`](Self::run) was set. Whoever has this has to: a server without clients does not look
    /// at the flag by itself any more.
    pub fn stop_waker(&mut self) -> Arc<Waker> {
        self.acceptor.stop_waker()
    }

    /// Serves clients until `stop` is set (which is noticed within 100 ms, or where [woken](Self::stop_waker)), then ends their sessions and
    /// returns once all of them have ended.
    ///
    /// # Errors
    /// If the sockets can't be polled.
    pub fn run(self, stop: &AtomicBool) -> Result<(), ServeError> {
        self.acceptor.run(stop).map_err(ServeError::Wait)
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    // Lets a restarted server bind despite connections in TIME_WAIT; a port with a listener remains in use.
    let socket = listener::bind(address, Type::STREAM, |socket| socket.set_reuse_address(true))?;
    socket.set_nonblocking(true)?;
    socket.listen(1024)?;
    let listener = socket.into();
    kumade_net::tcp::prepare_listener(&listener)?;
    save_syns(&listener);
    Ok(listener)
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    // Alone on its port at first: a port that anybody shares is an error.
    let socket = listener::bind(address, Type::DGRAM, |_| Ok(()))?;
    socket.set_nonblocking(true)?;
    // Each client's connected socket shares the port: with this option, only sockets of the same user may.
    socket.set_reuse_port(true)?;
    let socket = socket.into();
    if let Err(error) = kumade_net::udp::report_marks(&socket, true) {
        tracing::debug!("what clients' packets look like when they arrive is not told: {error}");
    }
    Ok(socket)
}

/// So that clients can be told how theirs arrived.
fn save_syns(listener: &TcpListener) {
    if let Err(error) = kumade_net::tcp::save_syns(listener) {
        tracing::debug!("what clients' SYNs look like when they arrive is not told: {error}");
    }
}
