//! Ports at which the server listens for the client of a turn, so that the client learns what a path does to packets for them.
//!
//! Nobody else is answered, and nothing is sent but an answer that is shorter than its question, or eight packets to an address that has
//! proved to receive. All of it ends with the turn.

use crate::config::ServerConfig;
use crate::udp::to_canonical_address;
use kumade_net::listener::is_out_of_resources;
use kumade_net::readiness::EpollSet;
use kumade_probe_train::PortProtocol;
use kumade_wire::{
    Credential, CredentialBearer, FIRST_SECOND_ADDRESS_INDEX, OpenedPort, PACKETS_PER_SEND_REQUEST, PortAnswer,
    PortArrival, PortProbe, PortStatus, SessionEndpoint, Version,
};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Maximum number of ports at once: each takes one or two descriptors.
pub(super) const MAX_PORTS: usize = 64;
/// Maximum number of ports in a turn.
const MAX_TURN_PORTS: usize = 1024;
/// Maximum number of open connections at these ports; the oldest gives way.
const MAX_CONNECTIONS: usize = 128;
/// Maximum number of answers in a turn: a dozen to each port.
const MAX_ANSWERS: usize = 12 * MAX_TURN_PORTS;
/// Maximum number of arrivals that are kept until the client asks: what a message has room for.
const MAX_ARRIVALS: usize = 4096;
/// Maximum number of requests to send packets in a turn.
const MAX_SEND_REQUESTS: usize = 8;
/// Packets or connections that are taken from a socket at once, so that nobody keeps the session from its client.
const MAX_TAKEN_AT_ONCE: usize = 64;
/// How many ports of the configured ranges are tried where the client asks for any.
const MAX_PORT_TRIES: usize = 16;

/// The ports of a turn.
pub(super) struct TurnPorts {
    /// At which addresses it listens: that of the control connection first.
    addresses: Vec<SocketAddr>,
    client: IpAddr,
    credential: Credential,
    version: Version,
    sockets: Vec<ListeningSocket>,
    connections: Vec<ProbeConnection>,
    arrivals: Vec<PortArrival>,
    opened: usize,
    answers: usize,
    send_requests: usize,
}

struct ListeningSocket {
    port: u16,
    kind: SocketKind,
}

enum SocketKind {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

/// A connection of the client at one of the ports.
struct ProbeConnection {
    stream: TcpStream,
    port: u16,
    received: Vec<u8>,
    is_answered: bool,
}

impl TurnPorts {
    /// None yet, of the client whose control connection is between these addresses.
    pub(super) fn new(
        [local, peer]: [SocketAddr; 2],
        config: &ServerConfig,
        credential: Credential,
        version: Version,
    ) -> Self {
        let local = to_canonical_address(local);
        let second = config.second_addresses.iter().map(IpAddr::to_canonical);
        let second = second.filter(|ip| ip.is_ipv4() == local.is_ipv4() && *ip != local.ip()).take(1);
        TurnPorts {
            addresses: [local].into_iter().chain(second.map(|ip| SocketAddr::new(ip, 0))).collect(),
            client: peer.ip().to_canonical(),
            credential,
            version,
            sockets: Vec::new(),
            connections: Vec::new(),
            arrivals: Vec::new(),
            opened: 0,
            answers: 0,
            send_requests: 0,
        }
    }

    /// The second address at which it listens.
    pub(super) fn second_address(&self) -> Option<IpAddr> {
        self.addresses.get(1).map(SocketAddr::ip)
    }

    /// Listens at these ports, and no longer at those before; `readiness` reports what happens there as `event`.
    pub(super) fn open(
        &mut self,
        ports: &[(PortProtocol, u16)],
        config: &ServerConfig,
        (readiness, event): (&EpollSet, u32),
    ) -> Vec<OpenedPort> {
        self.sockets.clear();
        self.connections.clear();
        self.arrivals.clear();
        let mut opened = Vec::new();
        for (place, &(protocol, wanted)) in ports.iter().enumerate() {
            let is_allowed = wanted == 0 || config.ports.iter().any(|range| range.contains(&wanted));
            let result = match (is_allowed, place < MAX_PORTS && self.opened < MAX_TURN_PORTS) {
                (false, _) => Err(PortStatus::NotAllowed),
                (_, false) => Err(PortStatus::TooMany),
                _ => self.listen(protocol, wanted, config).map_err(status_of_error),
            };
            let (port, status) = match result {
                Ok(sockets) => {
                    let port = sockets.first().map_or(wanted, |socket| socket.port);
                    let watch = |socket: &ListeningSocket| match &socket.kind {
                        SocketKind::Udp(socket) => readiness.add_reader(socket, event),
                        SocketKind::Tcp(listener) => readiness.add_reader(listener, event),
                    };
                    match sockets.iter().try_for_each(watch) {
                        Ok(()) => {
                            self.opened += 1;
                            self.sockets.extend(sockets);
                            (port, PortStatus::Listening)
                        }
                        Err(error) => (port, PortStatus::Failed(error.to_string())),
                    }
                }
                Err(status) => (wanted, status),
            };
            opened.push(OpenedPort { protocol, port, status });
        }
        opened
    }

    /// A socket at each address with this port, or with the same one of those that may be used.
    fn listen(&self, protocol: PortProtocol, port: u16, config: &ServerConfig) -> io::Result<Vec<ListeningSocket>> {
        let bind_all = |port: u16| {
            let mut sockets: Vec<ListeningSocket> = Vec::new();
            for mut address in self.listening_addresses(protocol) {
                address.set_port(sockets.first().map_or(port, |socket| socket.port));
                sockets.push(listen_at(protocol, address)?);
            }
            Ok(sockets)
        };
        if port != 0 || config.ports.is_empty() {
            return bind_all(port);
        }
        let mut outcome = Err(io::ErrorKind::AddrInUse.into());
        for _ in 0..MAX_PORT_TRIES {
            outcome = bind_all(any_port(config)?);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// TCP has one socket: of a port of the system's choice, a confined server gets no second one. Answers by UDP leave from the address of
    /// their socket.
    fn listening_addresses(&self, protocol: PortProtocol) -> Vec<SocketAddr> {
        let anywhere = |address: &SocketAddr| match address.is_ipv4() {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        match (protocol, &self.addresses[..]) {
            (PortProtocol::Tcp, [first, _, ..]) => vec![anywhere(first)],
            (_, addresses) => addresses.to_vec(),
        }
    }

    /// Takes what has come.
    pub(super) fn advance(&mut self, (readiness, event): (&EpollSet, u32)) {
        let sockets = std::mem::take(&mut self.sockets);
        for ListeningSocket { port, kind } in &sockets {
            for _ in 0..MAX_TAKEN_AT_ONCE {
                let is_taken = match kind {
                    SocketKind::Udp(socket) => self.take_packet(socket, *port),
                    SocketKind::Tcp(listener) => self.take_connection(listener, *port, (readiness, event)),
                };
                if is_taken.is_err() {
                    break;
                }
            }
        }
        self.sockets = sockets;
        let mut connections = std::mem::take(&mut self.connections);
        connections.retain_mut(|connection| self.read_connection(connection).is_ok());
        self.connections = connections;
    }

    /// Takes a packet, and answers it if it is one of the client's.
    fn take_packet(&mut self, socket: &UdpSocket, port: u16) -> io::Result<()> {
        let mut payload = [0; PortProbe::SIZE + 1];
        let (length, source) = match socket.recv_from(&mut payload) {
            // An ICMP error for an earlier answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
            received => received?,
        };
        let source = to_canonical_address(source);
        if source.ip() == self.client
            && let Some(answer) = self.answer(PortProtocol::Udp, port, &payload[..length], source)
        {
            // What does not leave is lost, like any packet.
            let _ = socket.send_to(&answer, source);
        }
        Ok(())
    }

    /// Takes a connection of the client; others are closed at once.
    fn take_connection(
        &mut self,
        listener: &TcpListener,
        port: u16,
        (readiness, event): (&EpollSet, u32),
    ) -> io::Result<()> {
        let (stream, source) = match listener.accept() {
            Err(error) if is_out_of_resources(&error) => return self.free_descriptor(listener, readiness, error),
            accepted => accepted?,
        };
        // The listener may be at all addresses of this host.
        let local = stream.local_addr().map(|local| to_canonical_address(local).ip());
        let is_here = local.is_ok_and(|local| self.addresses.iter().any(|address| address.ip() == local));
        if is_here && to_canonical_address(source).ip() == self.client {
            stream.set_nonblocking(true)?;
            readiness.add_reader(&stream, event)?;
            if self.connections.len() == MAX_CONNECTIONS {
                self.connections.remove(0);
            }
            self.connections.push(ProbeConnection { stream, port, received: Vec::new(), is_answered: false });
        }
        Ok(())
    }

    /// Drops the oldest connection, so that another one can be accepted.
    ///
    /// # Errors
    /// This one, where there is none. `listener` is not waited for any more then: it would be reported again and again while nothing can be
    /// accepted.
    fn free_descriptor(&mut self, listener: &TcpListener, readiness: &EpollSet, error: io::Error) -> io::Result<()> {
        if self.connections.is_empty() {
            tracing::warn!("cannot accept connections at a port of the turn: {error}; not waiting for them any more");
            // It may have been removed before.
            let _ = readiness.remove(listener);
            return Err(error);
        }
        self.connections.remove(0);
        Ok(())
    }

    /// Reads from a connection, and answers once the question is there.
    ///
    /// # Errors
    /// It is to be closed.
    fn read_connection(&mut self, connection: &mut ProbeConnection) -> io::Result<()> {
        let mut bytes = [0; PortProbe::SIZE];
        let missing = PortProbe::SIZE - connection.received.len();
        let room = if connection.is_answered { &mut bytes[..1] } else { &mut bytes[..missing] };
        match (&connection.stream).read(room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if connection.is_answered => return Err(io::ErrorKind::InvalidData.into()),
            Ok(length) => connection.received.extend_from_slice(&bytes[..length]),
            Err(error) => return Err(error),
        }
        if connection.received.len() < PortProbe::SIZE {
            return Ok(());
        }
        let source = to_canonical_address(connection.stream.peer_addr()?);
        let answer = self.answer(PortProtocol::Tcp, connection.port, &connection.received, source);
        let answer = answer.ok_or(io::ErrorKind::InvalidData)?;
        connection.is_answered = true;
        (&connection.stream).write_all(&answer)
    }

    /// Notes down what the client has sent; the answer, or none to anything else.
    fn answer(
        &mut self,
        protocol: PortProtocol,
        port: u16,
        question: &[u8],
        source: SocketAddr,
    ) -> Option<[u8; PortAnswer::SIZE]> {
        let (PortProbe { authenticator, index }, _) = PortProbe::decode(question).ok()?;
        let bearer = |sender| CredentialBearer::Port { sender, protocol, port, index };
        if !self.credential.is_authenticator_of(bearer(SessionEndpoint::Client), &authenticator)
            || self.answers == MAX_ANSWERS
        {
            return None;
        }
        self.answers += 1;
        if self.arrivals.len() < MAX_ARRIVALS {
            self.arrivals.push(PortArrival { protocol, port, index, source });
        }
        let authenticator = self.credential.authenticator_for(bearer(SessionEndpoint::Server));
        Some(PortAnswer { authenticator, index }.encode(self.version))
    }

    /// What has arrived since the last call.
    pub(super) fn take_arrivals(&mut self) -> Vec<PortArrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// Sends eight packets from a UDP port at each address to `client`, which has proved to receive there.
    ///
    /// # Errors
    /// The reason for a refusal: it was asked for too often.
    pub(super) fn send_from(&mut self, port: u16, client: SocketAddr) -> Result<(), String> {
        if self.send_requests == MAX_SEND_REQUESTS {
            return Err(format!("packets from other ports: the limit is {MAX_SEND_REQUESTS} requests in a turn"));
        }
        self.send_requests += 1;
        let udp = self.sockets.iter().filter_map(|socket| match &socket.kind {
            SocketKind::Udp(udp) if socket.port == port => Some(udp),
            _ => None,
        });
        for (socket, first) in udp.zip([0, FIRST_SECOND_ADDRESS_INDEX]) {
            for index in first..first + PACKETS_PER_SEND_REQUEST {
                let (sender, protocol) = (SessionEndpoint::Server, PortProtocol::Udp);
                let bearer = CredentialBearer::Port { sender, protocol, port, index };
                let packet = PortAnswer { authenticator: self.credential.authenticator_for(bearer), index };
                // What does not leave is lost, like any packet.
                let _ = socket.send_to(&packet.encode(self.version), client);
            }
        }
        Ok(())
    }
}

/// One of the ports of the configured ranges.
fn any_port(config: &ServerConfig) -> io::Result<u16> {
    let count: usize = config.ports.iter().map(ExactSizeIterator::len).sum();
    let random = getrandom::u64().map_err(io::Error::other)?;
    let place = (random % count.max(1) as u64) as usize;
    config.ports.iter().cloned().flatten().nth(place).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn listen_at(protocol: PortProtocol, address: SocketAddr) -> io::Result<ListeningSocket> {
    let kind = if protocol == PortProtocol::Udp { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A port whose last connections are in TIME_WAIT is free.
    socket.set_reuse_address(protocol == PortProtocol::Tcp)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    let kind = match protocol {
        PortProtocol::Udp => SocketKind::Udp(socket.into()),
        PortProtocol::Tcp => {
            socket.listen(MAX_TAKEN_AT_ONCE as i32)?;
            SocketKind::Tcp(socket.into())
        }
    };
    let address = match &kind {
        SocketKind::Udp(socket) => socket.local_addr()?,
        SocketKind::Tcp(listener) => listener.local_addr()?,
    };
    Ok(ListeningSocket { port: address.port(), kind })
}

fn status_of_error(error: io::Error) -> PortStatus {
    match error.kind() {
        io::ErrorKind::AddrInUse => PortStatus::InUse,
        io::ErrorKind::PermissionDenied => PortStatus::Failed(
            "the server may not listen there (below 1024, that takes CAP_NET_BIND_SERVICE)".to_owned(),
        ),
        _ => PortStatus::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Time;
    use kumade_wire::Token;

    #[test]
    fn without_descriptors_the_oldest_connection_gives_way_and_then_nobody_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let credential = Credential::new(Token([7; 16]), Version::NEWEST, false);
        let mut ports = TurnPorts::new([address; 2], &ServerConfig::default(), credential, Version::NEWEST);
        let readiness = EpollSet::new().unwrap();
        readiness.add_reader(&listener, 0).unwrap();
        let stream = connect();
        ports.connections.push(ProbeConnection { stream, port: 1, received: Vec::new(), is_answered: false });
        let events = || {
            let mut events = Vec::new();
            readiness.wait(&mut events, Time::ZERO).unwrap();
            events.len()
        };
        let mut free = || ports.free_descriptor(&listener, &readiness, io::ErrorKind::Other.into());
        assert!(free().is_ok());
        assert_eq!(events(), 1, "the connection that has not been accepted");
        assert!(free().is_err());
        assert_eq!(events(), 0);
        assert!(free().is_err());
    }
}
