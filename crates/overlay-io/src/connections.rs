use crate::config::{ConnectionConfig, ConnectionRole};
use crate::connection::{Connection, ConnectionEnd, MIN_READ_BYTES, connection_route, is_connection_route};
use crate::dialer::{CONNECTING_NUMBER, Dialer};
use crate::overhead_watch::OverheadWatch;
use crate::receive_turn::{FinishedRead, ReadAmount, Sender, Source, SourceSocket};
use kumade_daemon::{FairAdmission, Network, TimeBudget};
use kumade_multipath::dataplane::{Node, Outbound};
use kumade_multipath::{PathId, StreamWriter};
use kumade_net::readiness::{EpollSet, Event};
use kumade_net::{SetupError, clock, congestion, listener, tcp};
use kumade_noise_session::{Route, channel};
use kumade_packet::Dscp;
use kumade_packet_loop::Buffer;
use kumade_units::{Span, Time};
use socket2::{SockRef, Socket, TcpKeepalive, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Paths by TCP: the connections of all remotes.
pub(crate) struct Connections {
    config: ConnectionConfig,
    readiness: EpollSet,
    events: Vec<Event>,
    listener: Option<TcpListener>,
    dialer: Option<Dialer>,
    /// By their numbers in the set.
    connections: BTreeMap<u32, Connection>,
    number_by_route: BTreeMap<(u8, SocketAddr), u32>,
    /// By remote and path.
    number_by_owner: BTreeMap<(usize, u8), u32>,
    /// Connections to this end that have not shown yet whose they are.
    unauthenticated: FairAdmission<u32>,
    /// Whether any is held back.
    has_held_back: bool,
    /// For those who have not shown to be peers, and whether further connections wait in the kernel's queue, since it is used up.
    stranger_time: TimeBudget,
    is_accepting: bool,
    next_number: u32,
}

/// The listener's number in the set.
const LISTENER_NUMBER: u32 = 0;
/// Behind that of connections that are [being opened](CONNECTING_NUMBER).
const FIRST_CONNECTION_NUMBER: u32 = CONNECTING_NUMBER + 1;
const BACKLOG: i32 = 1024;
/// As in Happy Eyeballs (RFC 8305), where 250 ms are for two versions of IP; here both are tried in any case.
const DATAGRAM_HEAD_START: Span = Span::from_millis(20);
const MAX_READ_BYTES: usize = 80_000;
/// Connections accepted in a turn.
const MAX_ACCEPTS: usize = 16;
/// Who accepts connections, and hears those who have not shown to be peers, takes a tenth of this thread's time for it at most: some
/// 3000 in a second. Further ones wait in the kernel's queue.
const STRANGER_TIME_DIVISOR: u32 = 10;
const STRANGER_TIME_BURST: Span = Span::from_millis(20);
/// Who has not shown to be a peer for so long is left.
const AUTHENTICATION_TIMEOUT: Span = Span::from_secs(10);
/// So many are waited for at a time; for a further one, the oldest of the network with most of them is left.
const MAX_UNAUTHENTICATED_CONNECTIONS: usize = 256;
/// A peer opens several at once, and is not to be the busiest among strangers of many networks.
const CONNECTIONS_PER_PEER: usize = 8;
/// A connection whose far end is gone is noticed after 30 s.
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

impl Connections {
    /// The first of their paths has this number, where this end opens them.
    pub(crate) fn open(config: &ConnectionConfig, first: usize) -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("wait for TCP connections", error);
        let set = EpollSet::new().map_err(failed)?;
        let (listener, dialer) = match &config.role {
            ConnectionRole::Listen { address, .. } => (Some(listen(config, *address)?), None),
            ConnectionRole::Connect { address, binding, connections } => {
                let paths = first..(first + connections).min(PathId::MAX_PATHS);
                // Datagrams have a head start, so that an answer to them is not outrun by one that costs a round trip more.
                let start = clock::monotonic() + if first > 0 { DATAGRAM_HEAD_START } else { Span::ZERO };
                (None, Some(Dialer::new(*address, binding.clone(), paths, start)))
            }
        };
        listener.iter().try_for_each(|listener| set.add_reader(listener, LISTENER_NUMBER)).map_err(failed)?;
        Ok(Connections {
            config: config.clone(),
            readiness: set,
            events: Vec::new(),
            listener,
            dialer,
            connections: BTreeMap::new(),
            number_by_route: BTreeMap::new(),
            number_by_owner: BTreeMap::new(),
            unauthenticated: FairAdmission::default(),
            has_held_back: false,
            stranger_time: TimeBudget::new(STRANGER_TIME_DIVISOR, STRANGER_TIME_BURST),
            is_accepting: true,
            next_number: FIRST_CONNECTION_NUMBER,
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }

    /// The connections on which something has arrived, and the listener, where somebody wants to connect; where the
    /// [descriptor](Self::descriptor) `is_ready`.
    ///
    /// # Errors
    /// The system refuses to wait for sockets.
    pub(crate) fn waiting_sources(&mut self, is_ready: bool, now: Time) -> Result<Vec<Source>, SetupError> {
        self.events.clear();
        if is_ready {
            let waited = self.readiness.wait(&mut self.events, Time::ZERO);
            waited.map_err(|error| SetupError::new("wait for TCP connections", error))?;
        }
        for event in self.events.iter().filter(|event| event.is_writable) {
            let connection = self.connections.get_mut(&event.number);
            connection.into_iter().for_each(|connection| connection.mark_writable(now));
        }
        // Those that are being opened, the dialer looks at in each turn.
        let is_readable = |event: &&Event| event.number != CONNECTING_NUMBER && (event.is_readable || event.has_error);
        let readable = self.events.iter().filter(is_readable);
        let mut sources: Vec<_> = readable.map(|event| self.source(event.number)).collect();
        if self.has_held_back {
            let held_back = self.connections.iter().filter(|(_, connection)| connection.is_held_back);
            sources.extend(held_back.map(|(number, _)| self.source(*number)));
        }
        Ok(sources)
    }

    fn source(&self, number: u32) -> Source {
        let connection = self.connections.get(&number);
        let owner = connection.and_then(|connection| connection.owner);
        Source {
            sender: owner.map_or(Sender::Stranger, |(remote, _)| Sender::Peer(remote)),
            socket: SourceSocket::Connection(number),
            limit: connection.map_or(MIN_READ_BYTES, |connection| connection.read_limit),
            limits: (MIN_READ_BYTES, MAX_READ_BYTES),
            is_held_back: connection.is_some_and(|connection| connection.is_held_back),
        }
    }

    /// From now on, reads connections of peers that take too much time within the time that those have.
    pub(crate) fn hold_back(&mut self, overhead: &OverheadWatch) {
        if !self.has_held_back && !overhead.is_any_too_much() {
            return;
        }
        self.has_held_back = false;
        for connection in self.connections.values_mut() {
            connection.is_held_back = connection.owner.is_some_and(|(remote, _)| overhead.is_too_much(remote));
            self.has_held_back |= connection.is_held_back;
        }
    }

    /// A peer of which connections are held back, if there is any.
    pub(crate) fn held_back_sender(&self) -> Option<Sender> {
        if !self.has_held_back {
            return None;
        }
        let mut held_back = self.connections.values().filter(|connection| connection.is_held_back);
        held_back.find_map(|connection| Some(Sender::Peer(connection.owner?.0)))
    }

    /// What was read of one of them has been sent and delivered.
    pub(crate) fn record_finished_read(&mut self, read: &FinishedRead, now: Time) {
        if read.source.sender == Sender::Stranger {
            self.stranger_time.charge(read.time, now);
        }
        if let SourceSocket::Connection(number) = read.source.socket
            && let Some(connection) = self.connections.get_mut(&number)
        {
            connection.read_limit = read.next_limit;
        }
    }

    /// Accepts connections, or hands what has arrived on the one with this number to the node, so many bytes at most.
    pub(crate) fn receive_from(&mut self, number: u32, max_bytes: usize, node: &mut Node<Buffer>) -> ReadAmount {
        let mut amount = ReadAmount::default();
        if number == LISTENER_NUMBER {
            self.accept(node);
            return amount;
        }
        // It may have been closed in this turn.
        let Some(connection) = self.connections.get_mut(&number) else { return amount };
        let outcome = connection.receive(max_bytes, node, &mut amount);
        if let Some((remote, path)) = connection.owner {
            self.unauthenticated.remove(connection.network(), &number);
            // A path has one connection, so that a peer has a bounded number, however often it comes anew.
            let before = self.number_by_owner.insert((remote, path.number()), number);
            before.filter(|before| *before != number).into_iter().for_each(|before| self.close(before, node));
        }
        if let Err(ended) = outcome {
            self.handle_end(number, &ended, node);
        }
        amount
    }

    /// Accepts connections while there is time for strangers. Returns when to be called again, if it accepts none until then.
    fn pause_or_resume(&mut self, now: Time) -> Option<Time> {
        let available_at = self.stranger_time.available_at();
        let is_accepting = available_at <= now;
        if let Some(listener) = self.listener.as_ref().filter(|_| is_accepting != self.is_accepting) {
            let set = &self.readiness;
            let changed = if is_accepting { set.add_reader(listener, LISTENER_NUMBER) } else { set.remove(listener) };
            self.is_accepting = if changed.is_ok() { is_accepting } else { self.is_accepting };
        }
        (!is_accepting).then_some(available_at)
    }

    fn accept(&mut self, node: &mut Node<Buffer>) {
        for _ in 0..MAX_ACCEPTS {
            let Some(Ok((stream, address))) = self.listener.as_ref().map(TcpListener::accept) else { return };
            if self.unauthenticated.len() >= MAX_UNAUTHENTICATED_CONNECTIONS {
                let left = self.unauthenticated.next_to_give_way(CONNECTIONS_PER_PEER).map(|(_, number)| *number);
                left.into_iter().for_each(|number| self.close(number, node));
            }
            if let Some(number) = self.add_connection(stream, connection_route(None, address), None) {
                self.unauthenticated.insert(Network::containing(address.ip()), number);
            }
        }
    }

    /// None where the connection is over already.
    fn add_connection(&mut self, stream: TcpStream, route: Route, owner: Option<(usize, PathId)>) -> Option<u32> {
        let number = self.next_number;
        set_keepalive(&stream).ok()?;
        let tuning = &self.config.tuning;
        let connection = Connection::new(stream, route, owner, tuning, clock::monotonic()).ok()?;
        self.readiness.add_reader(&connection.stream, number).ok()?;
        self.next_number = self.next_number.checked_add(1).unwrap_or(FIRST_CONNECTION_NUMBER);
        self.number_by_route.insert((route.path, route.address), number);
        self.connections.insert(number, connection);
        Some(number)
    }

    fn handle_end(&mut self, number: u32, ended: &ConnectionEnd, node: &mut Node<Buffer>) {
        let connection = self.connections.get(&number);
        let stranger = connection.filter(|stranger| self.unauthenticated.contains(stranger.network(), &number));
        if let (Some(connection), ConnectionEnd::NotAPeer(first)) = (stranger, ended) {
            let _ = self.readiness.remove(&connection.stream);
            // Who sends anything else gets the same silence as who sends nothing.
            if channel::is_initiation(first) {
                self.hand_over(number, first.clone(), node);
            }
            return;
        }
        let owner = self.connections.get(&number).and_then(|connection| connection.owner);
        if let (Some(dialer), Some((_, path))) = (&mut self.dialer, owner) {
            let now = clock::monotonic();
            // The far end may have found that its long segments do not pass.
            if matches!(ended, ConnectionEnd::Closed(cause) if cause.kind() == io::ErrorKind::ConnectionReset) {
                dialer.use_short_segments(now);
            }
            dialer.record_end(path, &ended.to_string(), now);
        }
        self.close(number, node);
    }

    /// The connection carries a byte stream of its own.
    fn hand_over(&mut self, number: u32, initiation: Vec<u8>, node: &mut Node<Buffer>) {
        let ConnectionRole::Listen { handover: Some(handover), .. } = &self.config.role else { return };
        let handover = handover.clone();
        if let Some(connection) = self.remove(number, node) {
            handover.take(connection.stream, initiation);
        }
    }

    fn close(&mut self, number: u32, node: &mut Node<Buffer>) {
        drop(self.remove(number, node));
    }

    fn remove(&mut self, number: u32, node: &mut Node<Buffer>) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        self.unauthenticated.remove(connection.network(), &number);
        let Route { path, address } = connection.route;
        if self.number_by_route.get(&(path, address)) == Some(&number) {
            self.number_by_route.remove(&(path, address));
        }
        if let Some((remote, path)) = connection.owner {
            if self.number_by_owner.get(&(remote, path.number())) == Some(&number) {
                self.number_by_owner.remove(&(remote, path.number()));
            }
            node.remove_route(remote, path, connection.route, clock::monotonic());
        }
        Some(connection)
    }

    /// Says how much each connection takes.
    pub(crate) fn report_room(&mut self, node: &mut Node<Buffer>, now: Time) {
        for connection in self.connections.values_mut() {
            let Some((remote, path)) = connection.owner else { continue };
            if let Some(state) = connection.sample_delivery(now) {
                node.update_stream_delivery(remote, path, state, now);
            }
        }
    }

    /// Takes what goes to connections. Returns how many datagrams have nowhere to go.
    pub(crate) fn send(&mut self, datagrams: &mut Vec<Outbound<Buffer>>, node: &mut Node<Buffer>) -> u64 {
        let mut refused = 0;
        for Outbound { route: to, datagram, .. } in
            datagrams.extract_if(.., |datagram| is_connection_route(&datagram.route))
        {
            let number = self.number_by_route.get(&(to.path, to.address));
            let connection = number.and_then(|number| self.connections.get_mut(number));
            refused += u64::from(!connection.is_some_and(|connection| connection.push(datagram.bytes())));
        }
        let mut ended = Vec::new();
        for (number, connection) in &mut self.connections {
            if let Err(error) = connection.flush() {
                ended.push((*number, error));
                continue;
            }
            let wanted = (!connection.is_held_back, connection.is_full() && connection.owner.is_some());
            if wanted != connection.reported
                && self.readiness.set_reporting(&connection.stream, *number, wanted.0, wanted.1).is_ok()
            {
                connection.reported = wanted;
            }
        }
        ended.iter().for_each(|(number, error)| self.handle_end(*number, error, node));
        refused
    }

    /// Opens connections, and leaves strangers. Returns when to be called again at the latest.
    pub(crate) fn advance(&mut self, node: &mut Node<Buffer>, now: Time) -> Option<Time> {
        let mut oldest = self.oldest_unauthenticated();
        while let Some((number, _)) = oldest.filter(|(_, until)| *until <= now) {
            self.close(number, node);
            oldest = self.oldest_unauthenticated();
        }
        let oldest = oldest.map(|(_, until)| until);
        self.leave_black_holes(node, now);
        let look = node.is_backlogged().then_some(now + StreamWriter::SAMPLE_INTERVAL);
        let resumed_at = self.pause_or_resume(now);
        self.dial(node, now).into_iter().chain(oldest).chain(look).chain(resumed_at).min()
    }

    /// Leaves connections whose long segments do not pass; the end that opens them does so again, with short ones.
    fn leave_black_holes(&mut self, node: &mut Node<Buffer>, now: Time) {
        // What datagrams have found holds for connections, too.
        let mut reduced = node.take_mtu_reductions();
        // And what one connection has found, for those that have carried little since: what hosts repeat would get lost in one after
        // the other.
        let dropping = self.connections.values().filter(|connection| connection.drops_long_segments(now));
        reduced.extend(dropping.filter_map(|connection| Some(connection.owner?.0)));
        let is_reduced = |connection: &Connection| {
            connection.has_long_segments && connection.owner.is_some_and(|(remote, _)| reduced.contains(&remote))
        };
        let left = self.connections.iter();
        let left = left.filter(|(_, connection)| is_reduced(connection) || connection.drops_long_segments(now));
        let left: Vec<_> = left.map(|(number, _)| *number).collect();
        for number in left {
            let Some(connection) = self.connections.get(&number) else { continue };
            let (far, owner) = (connection.route.address, connection.owner);
            connection.discard_unsent();
            self.close(number, node);
            let is_new = self.dialer.as_mut().is_none_or(|dialer| {
                owner.into_iter().for_each(|(_, path)| dialer.retry(path, now));
                dialer.use_short_segments(now)
            });
            if is_new {
                tracing::warn!(
                    "long packets do not reach {far}, and short ones do: connecting again with short segments"
                );
            }
        }
    }

    /// And when it is left.
    fn oldest_unauthenticated(&self) -> Option<(u32, Time)> {
        let (_, number) = self.unauthenticated.oldest()?;
        Some((*number, self.connections.get(number)?.opened_at + AUTHENTICATION_TIMEOUT))
    }

    fn dial(&mut self, node: &mut Node<Buffer>, now: Time) -> Option<Time> {
        let mut dialer = self.dialer.take()?;
        // It has one remote.
        for path in dialer.update_use(node.uses_connections(0, now), now) {
            let route = connection_route(Some(path), dialer.address());
            let number = self.number_by_route.get(&(route.path, route.address)).copied();
            number.into_iter().for_each(|number| self.close(number, node));
        }
        self.close_stale_addresses(&mut dialer, node, now);
        let config = self.config.clone();
        for (path, stream) in dialer.advance_all(now, &self.readiness, |socket| set_socket_options(&config, socket)) {
            let route = connection_route(Some(path), dialer.address());
            match self.add_connection(stream, route, Some((0, path))) {
                Some(_) => node.add_route(0, path, route, now),
                None => dialer.record_end(path, "it was closed at once", now),
            }
        }
        let deadline = dialer.deadline();
        self.dialer = Some(dialer);
        deadline
    }

    /// The only remote listens elsewhere from now on.
    pub(crate) fn set_far_address(&mut self, address: SocketAddr, node: &mut Node<Buffer>, now: Time) {
        let Some(mut dialer) = self.dialer.take() else { return };
        let numbers: Vec<_> = self.connections.keys().copied().collect();
        for number in numbers {
            self.connections.get(&number).into_iter().for_each(Connection::discard_unsent);
            self.close(number, node);
        }
        dialer.set_address(address, now);
        self.dialer = Some(dialer);
    }

    /// The remotes have other places from now on, by those before; `None` for those that are gone: their connections are closed, and
    /// opened anew where this end does that.
    pub(crate) fn move_remotes(&mut self, places: &[Option<usize>], node: &mut Node<Buffer>, now: Time) {
        let mut closed = Vec::new();
        self.number_by_owner.clear();
        for (number, connection) in &mut self.connections {
            let Some((before, path)) = connection.owner else { continue };
            connection.owner = places.get(before).copied().flatten().map(|place| (place, path));
            match connection.owner {
                Some((place, path)) => drop(self.number_by_owner.insert((place, path.number()), *number)),
                None => closed.push((*number, path)),
            }
        }
        for (number, path) in closed {
            self.connections.get(&number).into_iter().for_each(Connection::discard_unsent);
            self.close(number, node);
            self.dialer.iter_mut().for_each(|dialer| dialer.retry(path, now));
        }
    }

    /// What is set on connections that are opened from now on.
    pub(crate) fn set_tuning(&mut self, config: &ConnectionConfig) {
        self.config.tuning = config.tuning;
        self.config.congestion_control.clone_from(&config.congestion_control);
        if let Some(listener) = &self.listener
            && let Err(error) = set_listener_options(&self.config, listener)
        {
            tracing::warn!("connections from other ends keep what was set on them: {error}");
        }
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn follow_system(&mut self) {
        self.dialer.iter_mut().for_each(Dialer::record_system_change);
    }

    /// Leaves connections from an address that this host has moved away from, where the kernel would go on for long.
    fn close_stale_addresses(&mut self, dialer: &mut Dialer, node: &mut Node<Buffer>, now: Time) {
        let Some(source) = dialer.check_source(now) else { return };
        let left = self.connections.iter().filter(|(_, connection)| connection.has_stale_address(source, now));
        let left: Vec<_> = left.map(|(number, connection)| (*number, connection.owner)).collect();
        if !left.is_empty() {
            tracing::info!("this host's address is {source} now: connecting again");
        }
        for (number, owner) in left {
            self.connections.get(&number).into_iter().for_each(Connection::discard_unsent);
            self.close(number, node);
            owner.into_iter().for_each(|(_, path)| dialer.retry(path, now));
        }
    }
}

fn listen(config: &ConnectionConfig, address: SocketAddr) -> Result<TcpListener, SetupError> {
    let listener = || -> io::Result<TcpListener> {
        let prepare =
            |socket: &Socket| socket.set_reuse_address(true).and_then(|()| set_socket_options(config, socket));
        let socket = listener::bind(address, Type::STREAM, prepare)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    listener().map_err(|error| listener::bind_error(format!("listen for TCP connections on {address}"), error))
}

fn set_listener_options(config: &ConnectionConfig, listener: &TcpListener) -> io::Result<()> {
    set_socket_options(config, &Socket::from(listener.try_clone()?))
}

/// Sets what a connection must have before it is opened; those that a listener accepts inherit it.
fn set_socket_options(config: &ConnectionConfig, socket: &Socket) -> io::Result<()> {
    if let Some(name) = &config.congestion_control {
        congestion::set(socket, name).map_err(|error| io::Error::new(error.io_error().kind(), error))?;
    }
    if config.dscp != Dscp::default() {
        tcp::set_dscp(socket, config.dscp)?;
    }
    let tuning = &config.tuning;
    tuning.rto.apply(socket)?;
    if let Some(bytes) = tuning.send_buffer_bytes {
        socket.set_send_buffer_size(bytes as usize)?;
    }
    Ok(())
}

/// Has a connection end when its far end is gone.
fn set_keepalive(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(DEAD_PEER_TIMEOUT))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL))
}
