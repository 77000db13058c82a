use crate::config::{BondedConfig, DatagramConfig};
use crate::error::BondedError;
use crate::outer_dscp::OuterDscp;
use crate::overhead_watch::OverheadWatch;
use crate::overload_limit::OverloadWatch;
use crate::own_sockets::OwnSockets;
use crate::policy_routes::{KeptRoutes, replace_path_routes};
use crate::receive_turn::{FinishedRead, ReadAmount, Sender, Source, SourceSocket};
use kumade_multipath::OuterTransport;
use kumade_multipath::dataplane::{Node, Outbound, OuterHeaders, Received};
use kumade_net::interface::{self, Family};
use kumade_net::policy_routing::MarkedRoute;
use kumade_net::udp::{BatchReceiver, BatchSocket, ReceivedDatagrams, SendRefusal};
use kumade_net::{SetupError, SocketBinding, clock};
use kumade_noise_session::Route;
use kumade_packet_loop::{Buffer, StampClock};
use kumade_units::{Span, Time};
use std::io;
use std::mem;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Paths by UDP: a socket on each, or one for either version of IP; and further ones of peers that send much.
pub(crate) struct Datagrams {
    shard: usize,
    sockets: Vec<PathSocket>,
    last_number: u32,
    has_other_sources: bool,
    dscp: OuterDscp,
    stamp_clock: StampClock,
    next_clock_check: Time,
    next_expiry: Time,
    interface_mtus: Vec<u32>,
    /// Of the first shard, for all.
    routes: Option<KeptRoutes<MarkedRoute>>,
}

struct PathSocket {
    number: u32,
    place: PathPlace,
    family: Family,
    socket: BatchSocket,
    watch: OverloadWatch,
    own_sockets: OwnSockets,
    receiver: BatchReceiver,
    /// What was said last of why it cannot follow its interface.
    reported: Option<String>,
}

/// Where the datagrams of a path leave and arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathPlace {
    path: usize,
    binding: SocketBinding,
    /// None for both, on all addresses of this host.
    family: Option<Family>,
}

/// Messages of a read at first; more once it is known how long they take.
const FIRST_MESSAGES: usize = 2;
/// Between two looks at the clock.
const CLOCK_CHECK_INTERVAL: Span = Span::from_millis(500);
/// Between two looks at which peers send so much that they get a socket of their own.
const EXPIRY_INTERVAL: Span = Span::from_millis(500);

impl Datagrams {
    pub(crate) fn open(config: &BondedConfig, datagrams: &DatagramConfig, shard: usize) -> Result<Self, BondedError> {
        let mut opened = Datagrams {
            shard,
            sockets: Vec::new(),
            last_number: 0,
            has_other_sources: false,
            dscp: datagrams.dscp,
            stamp_clock: StampClock::new(),
            next_clock_check: Time::ZERO,
            next_expiry: Time::ZERO,
            interface_mtus: Vec::new(),
            routes: None,
        };
        opened.reconfigure(config, datagrams)?;
        Ok(opened)
    }

    /// Has the paths of this configuration from now on. The sockets of those that are as they were stay as they are.
    ///
    /// # Errors
    /// The system refuses a route or a socket. What came before it is done; to take over the earlier configuration again undoes
    /// it.
    pub(crate) fn reconfigure(&mut self, config: &BondedConfig, datagrams: &DatagramConfig) -> Result<(), BondedError> {
        self.dscp = datagrams.dscp;
        self.interface_mtus = interface_mtus(datagrams);
        if self.shard == 0 {
            replace_path_routes(&mut self.routes, &datagrams.routes, &config.directory)?;
        }
        let port = if datagrams.port == 0 { 0 } else { datagrams.port.saturating_add(self.shard as u16) };
        let place_of = |(place, (binding, _)): (usize, &(SocketBinding, _))| PathPlace {
            path: place,
            binding: binding.clone(),
            family: (binding.source != Some(Ipv6Addr::UNSPECIFIED.into()))
                .then(|| config.path_family(datagrams, place)),
        };
        let places: Vec<_> = datagrams.paths.iter().enumerate().map(place_of).collect();
        // A path may have the port that another one had.
        self.sockets.retain(|socket| places.contains(&socket.place));
        // Peers may have other places from now on.
        self.sockets.iter_mut().for_each(|socket| socket.own_sockets.clear());
        for place in places {
            if !self.sockets.iter().any(|socket| socket.place == place) {
                self.sockets.extend(PathSocket::bind(&place, port, &mut self.last_number)?);
            }
        }
        Ok(())
    }

    /// What becomes readable; what is held back is read from time to time.
    pub(crate) fn descriptors(&self, overhead: &OverheadWatch) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sources = self.sockets.iter().flat_map(move |socket| socket.sources(overhead));
        sources.filter(|(source, _)| !source.is_held_back).map(|(_, socket)| socket.as_fd())
    }

    /// Whether there are other sources than when this was last asked.
    pub(crate) fn take_sources_change(&mut self) -> bool {
        mem::take(&mut self.has_other_sources)
    }

    /// The sockets that may have something.
    pub(crate) fn sources(&self, overhead: &OverheadWatch) -> impl Iterator<Item = Source> {
        self.sockets.iter().flat_map(move |socket| socket.sources(overhead)).map(|(source, _)| source)
    }

    /// What was read of one of them has been sent and delivered.
    pub(crate) fn record_finished_read(&mut self, read: &FinishedRead) {
        let SourceSocket::Datagrams(number) = read.source.socket else { return };
        let watch = self.sockets.iter_mut().find_map(|socket| socket.watch_mut(number));
        watch.into_iter().for_each(|watch| watch.record(read.amount.units));
    }

    /// Hands over what the socket with this number has, so many messages at most.
    pub(crate) fn receive_from(
        &mut self,
        number: u32,
        max_messages: usize,
        node: &mut Node<Buffer>,
    ) -> Result<ReadAmount, BondedError> {
        let Datagrams { sockets, stamp_clock: stamps, last_number, .. } = self;
        let mut amount = ReadAmount::default();
        let Some(path_socket) = sockets.iter_mut().find(|socket| socket.has(number)) else { return Ok(amount) };
        let PathSocket { place: PathPlace { path, .. }, receiver, socket, own_sockets, .. } = path_socket;
        let path = *path;
        let mut senders = Vec::new();
        let own = own_sockets.get(number);
        let is_own = own.is_some();
        let count = receiver.receive_from(own.unwrap_or(socket), max_messages, |received| {
            let address = received.source;
            let (remote, count) = hand_over(received, path, stamps, node, &mut amount);
            senders.extend(remote.map(|remote| (remote, address, count)));
        });
        let now = clock::monotonic();
        match (count, is_own) {
            (Ok(0), true) => {}
            (Ok(_), true) => own_sockets.record_use(number, now),
            (Ok(_), false) => {
                for sender in senders {
                    self.has_other_sources |= own_sockets.record(sender, socket, last_number, now);
                }
            }
            // What a router or the far end reported of an earlier datagram.
            (Err(_), true) => {}
            (Err(error), false) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            (Err(cause), false) => return Err(BondedError::Receive { path, cause }),
        }
        Ok(amount)
    }

    /// Returns how many datagrams the system did not take.
    pub(crate) fn send(&mut self, datagrams: &mut Vec<Outbound<Buffer>>, node: &mut Node<Buffer>, now: Time) -> u64 {
        let mut refused = 0;
        // Only those of one path need their order, and what goes to one address leaves together.
        datagrams.sort_by_key(|datagram| datagram.route.path);
        let dscp = self.dscp;
        let header = |datagram: &Outbound<Buffer>| (datagram.route, dscp.outer_field(datagram.ds_field));
        for run in datagrams.chunk_by(|one, other| header(one) == header(other)) {
            let Some((to, ds_field)) = run.first().map(header) else { continue };
            let (path, family) = (usize::from(to.path), Family::from_address(to.address.ip()));
            let mut sockets = self.sockets.iter();
            let Some(of_path) = sockets.find(|socket| socket.place.path == path && socket.family == family) else {
                continue;
            };
            let sent = of_path.socket.send(to.address, ds_field, run, |index, refusal| {
                refused += 1;
                if matches!(refusal, SendRefusal::TooLong) {
                    node.record_send_refusal(to, run[index].datagram.len(), now);
                }
            });
            // A full send buffer is a full queue.
            refused += (run.len() - sent) as u64;
        }
        datagrams.clear();
        refused
    }

    /// The only remote is reached elsewhere from now on, on its first path.
    pub(crate) fn set_far_address(address: SocketAddr, node: &mut Node<Buffer>, now: Time) {
        let family = Family::from_address(address.ip());
        let overhead_bytes = outer_header_bytes(family) + kumade_multipath::dataplane::OVERHEAD_BYTES;
        node.set_datagram_route(0, Route { path: 0, address }, overhead_bytes, now);
    }

    /// Follows the clock of the kernel's stamps. To be called before something is received.
    pub(crate) fn follow_clock(&mut self, now: Time) {
        if now >= self.next_clock_check {
            self.next_clock_check = now + CLOCK_CHECK_INTERVAL;
            self.stamp_clock.check_for_step();
        }
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn follow_system(&mut self, node: &mut Node<Buffer>, now: Time) {
        self.routes.iter_mut().for_each(KeptRoutes::record_change);
        self.follow_interfaces(node, now);
    }

    /// Puts routes back that are gone, and closes sockets that are not used. Returns when to be called again at the latest.
    pub(crate) fn advance(&mut self, now: Time) -> Option<Time> {
        self.routes.iter_mut().for_each(|routes| routes.restore_if_due(now));
        // Where nothing wakes the thread, there is no hurry.
        if now >= self.next_expiry {
            self.next_expiry = now + EXPIRY_INTERVAL;
            for socket in &mut self.sockets {
                self.has_other_sources |= socket.own_sockets.expire(now);
            }
        }
        self.routes.as_ref().and_then(KeptRoutes::deadline)
    }

    /// Looks at what sockets lose, as [`OverloadWatch::update`].
    pub(crate) fn update_watches(&mut self) {
        for PathSocket { socket, watch, own_sockets, .. } in &mut self.sockets {
            self.has_other_sources |= own_sockets.update_watches() | watch.update(|| socket.dropped_messages());
        }
    }

    /// An interface may be deleted and made again, as each PPP connection does, and may have another MTU then or at any time.
    fn follow_interfaces(&mut self, node: &mut Node<Buffer>, now: Time) {
        for PathSocket { place: PathPlace { path, binding, .. }, socket, own_sockets, reported, .. } in
            &mut self.sockets
        {
            let Some(interface) = &binding.interface else { continue };
            match socket.follow_interface() {
                Ok(None) => {}
                Ok(Some(index)) => {
                    *reported = None;
                    // These are still bound to the one before.
                    own_sockets.clear();
                    self.has_other_sources = true;
                    tracing::warn!(
                        "path {path}: {interface} is a new interface (number {index}); the path uses it now"
                    );
                }
                Err(error) => {
                    let text = error.to_string();
                    if reported.as_deref() != Some(&text) {
                        tracing::warn!("path {path}: {text}");
                        *reported = Some(text);
                    }
                }
            }
            // One that is gone has none.
            let Ok(mtu) = interface::mtu(interface) else { continue };
            if self.interface_mtus[*path] != mtu {
                self.interface_mtus[*path] = mtu;
                node.set_interface_mtu(*path, mtu, now);
            }
        }
    }
}

impl PathSocket {
    /// On all addresses of this host, one for either version of IP; of IPv4 only, where the system has no IPv6.
    fn bind(place: &PathPlace, port: u16, last_number: &mut u32) -> Result<Vec<Self>, SetupError> {
        let mut number = || {
            *last_number = last_number.wrapping_add(1);
            *last_number
        };
        if let Some(family) = place.family {
            return Ok(vec![PathSocket::bind_family(place, &place.binding, (family, port), number())?]);
        }
        let binding = SocketBinding { source: None, ..place.binding.clone() };
        let v6 = match PathSocket::bind_family(place, &binding, (Family::V6, port), number()) {
            Err(error) if Family::is_unsupported(error.io_error()) => None,
            outcome => Some(outcome?),
        };
        let v4 = PathSocket::bind_family(place, &binding, (Family::V4, port), number())?;
        Ok(v6.into_iter().chain([v4]).collect())
    }

    fn bind_family(
        place: &PathPlace,
        binding: &SocketBinding,
        (family, port): (Family, u16),
        number: u32,
    ) -> Result<Self, SetupError> {
        let socket = BatchSocket::bind(binding, family, port)?;
        let (receiver, own_sockets) = (BatchReceiver::new(&socket), OwnSockets::default());
        let watch = OverloadWatch::default();
        Ok(PathSocket { number, place: place.clone(), family, receiver, socket, watch, own_sockets, reported: None })
    }

    /// All that may have something to read: those of peers, and the one that all others share.
    fn sources(&self, overhead: &OverheadWatch) -> impl Iterator<Item = (Source, &BatchSocket)> {
        let source = |sender, number, is_held_back| {
            let (socket, limits) = (SourceSocket::Datagrams(number), (FIRST_MESSAGES, BatchReceiver::MAX_MESSAGES));
            Source { sender, socket, limit: FIRST_MESSAGES, limits, is_held_back }
        };
        let own = self.own_sockets.iter().map(move |own| {
            let is_held_back = own.watch.is_overloaded() || overhead.is_too_much(own.remote);
            (source(Sender::Peer(own.remote), own.number, is_held_back), &own.socket)
        });
        let shared = source(Sender::Shared(self.number), self.number, self.watch.is_overloaded());
        own.chain([(shared, &self.socket)])
    }

    /// Whether this is its number, or that of a peer's socket beside it.
    fn has(&self, number: u32) -> bool {
        self.number == number || self.own_sockets.get(number).is_some()
    }

    /// Of the socket with this number.
    fn watch_mut(&mut self, number: u32) -> Option<&mut OverloadWatch> {
        if self.number == number { Some(&mut self.watch) } else { self.own_sockets.watch_mut(number) }
    }
}

/// Gives the node what has come together on a path. Returns which peer has sent it, if it is authentic, and how many datagrams those are.
fn hand_over(
    received: ReceivedDatagrams<'_>,
    path: usize,
    stamps: &mut StampClock,
    node: &mut Node<Buffer>,
    amount: &mut ReadAmount,
) -> (Option<usize>, u32) {
    let now = clock::monotonic();
    let stamp = received.stamp.map(|stamp| stamps.to_monotonic(stamps.from_stamp(stamp, Time::ZERO)));
    let arrived = stamp.map_or(now, |stamp| stamp.min(now));
    let from = Route { path: path as u8, address: received.source };
    let (ecn, outer) = (received.ecn, outer_header_bytes(Family::from_address(from.address.ip())));
    let transport = OuterTransport::Udp;
    let (mut sender, mut count) = (None, 0);
    for datagram in received.datagrams() {
        let packet_bytes = datagram.len() as u32 + outer;
        let outer = OuterHeaders { route: from, transport, ecn, packet_bytes, arrival: arrived };
        match node.receive(datagram, outer, now) {
            Received::Data { remote, has_packet, .. } => {
                sender = Some(remote);
                amount.packets += u32::from(has_packet);
            }
            Received::Keepalive { remote } => sender = Some(remote),
            Received::Refused | Received::Handshake => {}
        }
        count += 1;
    }
    amount.units += 1;
    amount.datagrams += count;
    (sender, count)
}

/// Bytes of the IP and UDP headers of datagrams.
pub(crate) fn outer_header_bytes(family: Family) -> u32 {
    match family {
        Family::V4 => 28,
        Family::V6 => 48,
    }
}

/// The MTUs of the paths' interfaces; of one that is gone, that of Ethernet until it is back.
pub(crate) fn interface_mtus(datagrams: &DatagramConfig) -> Vec<u32> {
    const ETHERNET_MTU: u32 = 1500;
    let mtu = |binding: &SocketBinding| binding.interface.as_deref().and_then(|name| interface::mtu(name).ok());
    datagrams.paths.iter().map(|(binding, _)| mtu(binding).unwrap_or(ETHERNET_MTU)).collect()
}
