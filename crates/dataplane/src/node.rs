use crate::config::{NodeConfig, NodeError};
use crate::networks::Networks;
use crate::outer_headers::OuterHeaders;
use crate::packet_buffer::PacketBuffer;
use crate::remote::{Remote, Unsealed};
use crate::statistics::{NodeStatistics, RemoteStatus};
use link::Label;
use multipath::{CarrierState, Class, PathId};
use packet::{Classification, Ecn};
use rand_core::CryptoRng;
use secure::{Endpoint, Event, Kind, PeerId, Route, SessionTable};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::DerefMut;
use units::{Rate, Time};

/// One end of the tunnels to its peers. The crate's first page has the loop contract.
pub struct Node<B> {
    endpoint: Endpoint,
    sessions: SessionTable,
    networks: Networks,
    remotes: Vec<Remote<B>>,
    by_peer: BTreeMap<PeerId, usize>,
    buffers: Box<dyn Fn(usize) -> B>,
    /// In order, and not yet checked for their sources; empty between calls.
    arrived: Vec<PacketBuffer<B>>,
    delivered: Vec<PacketBuffer<B>>,
    statistics: NodeStatistics,
}

/// A datagram to be sent.
#[derive(Debug)]
pub struct Outbound<B> {
    /// From which socket ([`Route::path`]), and where.
    pub to: Route,
    /// What the ECN field of its IP header says: that of the packet in it, so that queues on the path may mark it instead of
    /// dropping it (RFC 6040 §4.1).
    pub ecn: Ecn,
    /// Its bytes.
    pub datagram: PacketBuffer<B>,
}

/// What a datagram was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Nothing that any peer has sent now.
    Refused,
    /// A message of a handshake that may be a peer's, or its sign of life.
    Handshake,
    /// A message of a peer.
    Data {
        /// The place of the peer.
        remote: usize,
        /// The path on which it has sent.
        path: PathId,
    },
}

/// What a node wants done, each list in its order.
#[derive(Debug)]
pub struct Output<B> {
    /// Transmit these.
    pub datagrams: Vec<Outbound<B>>,
    /// Hand these to the hosts.
    pub packets: Vec<PacketBuffer<B>>,
}

impl<B> Default for Output<B> {
    fn default() -> Self {
        Output { datagrams: Vec::new(), packets: Vec::new() }
    }
}

impl<B: DerefMut<Target = Vec<u8>> + Clone> Node<B> {
    /// A node that begins handshakes with all peers whose address it knows.
    ///
    /// `random` makes ephemeral keys: outside of tests, it is the operating system's. `buffers` makes empty buffers for
    /// so many bytes.
    ///
    /// # Errors
    /// Two peers have the same key or network, or a value is out of range.
    pub fn new(
        config: NodeConfig,
        random: Box<dyn CryptoRng + Send>,
        buffers: Box<dyn Fn(usize) -> B>,
        now: Time,
    ) -> Result<Self, NodeError> {
        let networks = Networks::new(config.remotes.iter().map(|remote| remote.networks.as_slice()))?;
        let mut endpoint = Endpoint::new(config.identity, config.policy, random);
        let mut remotes = Vec::new();
        let mut by_peer = BTreeMap::new();
        for remote in config.remotes {
            let (routes, paths) = (remote.routes.len(), remote.bond.paths.len());
            if routes != paths {
                return Err(NodeError::Routes { routes, paths });
            }
            let interfaces = remote.interface_mtus.len();
            if interfaces != paths && interfaces != 0 {
                return Err(NodeError::InterfaceMtus { interfaces, paths });
            }
            let peer = endpoint.add_peer(remote.key, remote.psk.clone())?;
            let remote = Remote::new(remote, peer, now)?;
            by_peer.insert(peer, remotes.len());
            endpoint.set_routes(peer, remote.routes().collect(), now);
            remotes.push(remote);
        }
        let (sessions, statistics) = (SessionTable::new(), NodeStatistics::default());
        let (arrived, delivered) = (Vec::new(), Vec::new());
        Ok(Node { endpoint, sessions, networks, remotes, by_peer, buffers, arrived, delivered, statistics })
    }

    /// A packet of a host: the peer that has its destination gets it. It has [`HEADROOM`](crate::HEADROOM) before it.
    pub fn send(
        &mut self,
        mut packet: PacketBuffer<B>,
        destination: Option<IpAddr>,
        label: Label,
        class: Class,
        now: Time,
    ) {
        match destination.and_then(|destination| self.networks.peer(destination)) {
            Some(remote) => {
                let remote = &mut self.remotes[remote];
                clamp_mss(remote, &mut packet);
                remote.send(packet, label, class, now);
            }
            None => self.statistics.unroutable += 1,
        }
    }

    /// The length of the longest packet that may stand for segments, in bytes, where the peer that has this destination is
    /// sent such: its carriers are streams, and the packet occupies none of them for long.
    pub fn max_large_packet(&self, destination: Option<IpAddr>) -> Option<usize> {
        let remote = destination.and_then(|destination| self.networks.peer(destination))?;
        self.remotes[remote].max_large_packet()
    }

    /// A datagram has arrived. It is opened where it stands; only a packet that is authentic is copied to a buffer.
    pub fn receive(&mut self, datagram: &mut [u8], outer: OuterHeaders, now: Time) -> Received {
        let received = match Kind::of(datagram) {
            Some(Kind::Data) => self.open(datagram, outer, now),
            Some(_) if self.endpoint.receive(datagram, outer.from, now).is_ok() => Received::Handshake,
            Some(_) => {
                self.statistics.refused_handshakes += 1;
                return Received::Refused;
            }
            None => Received::Refused,
        };
        if received == Received::Refused {
            self.statistics.refused_datagrams += 1;
        }
        received
    }

    fn open(&mut self, datagram: &mut [u8], outer: OuterHeaders, now: Time) -> Received {
        let Ok((peer, opened)) = self.sessions.open(datagram, now) else { return Received::Refused };
        if opened.text.is_empty() {
            self.endpoint.keepalive_received(peer, now);
            return Received::Handshake;
        }
        let (Some(&place), Some(path)) = (self.by_peer.get(&peer), PathId::new(opened.path)) else {
            return Received::Refused;
        };
        let remote = &mut self.remotes[place];
        if remote.tells_received(now) {
            self.endpoint.data_received(peer, now);
        }
        let text = &datagram[opened.text];
        let is_message = remote.receive(text, path, outer, now, &self.buffers, &mut self.arrived);
        self.keep_own(place);
        if is_message { Received::Data { remote: place, path } } else { Received::Refused }
    }

    /// A peer is reached on a path by this route from now on: the path's connection is open. If there was none before, the
    /// peer may have restarted, and would take what is sealed under the last session for a stranger's: a new one is made.
    pub fn begin_route(&mut self, remote: usize, path: PathId, route: Route, now: Time) {
        let Some(remote) = self.remotes.get_mut(remote) else { return };
        let is_first = remote.routes().next().is_none();
        remote.set_route(path, Some(route), now);
        self.endpoint.set_routes(remote.peer, remote.routes().collect(), now);
        if is_first {
            self.sessions.remove(remote.peer);
            self.endpoint.connect_anew(remote.peer, now);
        }
    }

    /// A route leads nowhere from now on: its connection has ended.
    pub fn end_route(&mut self, remote: usize, path: PathId, route: Route, now: Time) {
        let remote = self.remotes.get_mut(remote);
        let Some(remote) = remote.filter(|remote| remote.route(path) == Some(route)) else { return };
        remote.set_route(path, None, now);
        self.endpoint.set_routes(remote.peer, remote.routes().collect(), now);
    }

    /// How the carrier of a path to a peer does now, where that controls the flow. To be told before [`Node::drain`].
    pub fn set_carrier(&mut self, remote: usize, path: PathId, state: CarrierState, now: Time) {
        if let Some(remote) = self.remotes.get_mut(remote) {
            remote.set_carrier(path, state, now);
        }
    }

    /// Delivers what a peer has sent, but for what has a source that the peer does not have.
    fn keep_own(&mut self, place: usize) {
        for mut packet in self.arrived.drain(..) {
            let source = Classification::of(packet.bytes()).selector.map(|selector| selector.source);
            if source.and_then(|source| self.networks.peer(source)) == Some(place) {
                clamp_mss(&self.remotes[place], &mut packet);
                self.delivered.push(packet);
            } else {
                self.statistics.foreign_sources += 1;
            }
        }
    }

    /// Appends all that is due. `wall` is the time since the Unix epoch; it may step.
    pub fn drain(&mut self, now: Time, wall: Time, output: &mut Output<B>) {
        self.shake_hands(now, wall, output);
        for place in 0..self.remotes.len() {
            self.remotes[place].expire(now, &mut self.arrived);
            self.send_due(place, now, output);
            self.remotes[place].follow_paths(now, &mut self.arrived);
            self.keep_own(place);
            self.refuse_oversized(place);
        }
        self.shake_hands(now, wall, output);
        self.statistics.delivered += self.delivered.len() as u64;
        output.packets.append(&mut self.delivered);
    }

    /// Tells hosts of packets that are too long for all paths.
    fn refuse_oversized(&mut self, place: usize) {
        while let Some(error) = self.remotes[place].take_oversized() {
            self.statistics.too_long += 1;
            if let Some(error) = error {
                let mut buffer = (self.buffers)(error.len());
                buffer.extend_from_slice(&error);
                self.delivered.push(PacketBuffer::new(buffer, 0));
            }
        }
    }

    fn shake_hands(&mut self, now: Time, wall: Time, output: &mut Output<B>) {
        self.endpoint.advance(now, wall);
        while let Some(event) = self.endpoint.next_event() {
            match event {
                Event::Transmit { to, datagram } => {
                    let mut buffer = (self.buffers)(datagram.len());
                    buffer.extend_from_slice(&datagram);
                    output.datagrams.push(Outbound { to, ecn: Ecn::NotEct, datagram: PacketBuffer::new(buffer, 0) });
                }
                Event::Established { peer, session, instance, .. } => {
                    self.sessions.install(peer, session, now);
                    if let Some(&place) = self.by_peer.get(&peer) {
                        self.remotes[place].established(instance, now, &mut self.arrived);
                        self.keep_own(place);
                    }
                }
                Event::Unreachable { .. } => {}
            }
        }
    }

    fn send_due(&mut self, place: usize, now: Time, output: &mut Output<B>) {
        let remote = &mut self.remotes[place];
        let peer = remote.peer;
        let is_connected = self.sessions.has_session(peer, now);
        remote.note_connected(is_connected, now);
        if !is_connected {
            if remote.routes().next().is_some() {
                self.endpoint.connect(peer, now);
            }
            return;
        }
        while let Some(Unsealed { path, to, ecn, mut datagram }) = remote.next(now, &self.buffers) {
            match self.sessions.seal(peer, path.number(), datagram.bytes_mut(), now) {
                Ok(sealed) => {
                    if sealed.is_worn {
                        self.endpoint.connect(peer, now);
                    }
                    if remote.tells_sent(now) {
                        self.endpoint.data_sent(peer, now);
                    }
                    output.datagrams.push(Outbound { to, ecn, datagram });
                }
                Err(_) => return self.endpoint.connect(peer, now),
            }
        }
    }

    /// The kernel has refused to send a datagram of so many bytes, because it is too long for the interface.
    pub fn refused(&mut self, to: Route, bytes: usize, now: Time) {
        let remote = self.remotes.iter_mut().find(|remote| remote.routes().any(|route| route == to));
        if let Some(remote) = remote {
            remote.refused(to, bytes, now);
        }
    }

    /// Whether packets of hosts wait until a path has room.
    pub fn is_backlogged(&self) -> bool {
        self.remotes.iter().any(Remote::is_backlogged)
    }

    /// The longest packet of hosts that all paths to all peers pass, in bytes, as far as is known or expected: that is to be
    /// the MTU of the hosts' device. `None` where it is not discovered.
    pub fn mtu(&self) -> Option<u32> {
        self.remotes.iter().filter_map(Remote::mtu).min()
    }

    /// When to call [`Node::drain`] at the latest.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let remotes = self.remotes.iter();
        let remotes = remotes.filter_map(|remote| remote.deadline(self.sessions.has_session(remote.peer, now)));
        remotes.chain(self.endpoint.next_deadline()).min()
    }

    /// A measurement says what a path to a peer carries; both by their places.
    pub fn suggest_rate(&mut self, remote: usize, path: usize, measured: Rate, now: Time) {
        if let Some(remote) = self.remotes.get_mut(remote) {
            remote.suggest_rate(path, measured, now);
        }
    }

    /// What it has done and refused.
    pub fn statistics(&self) -> NodeStatistics {
        self.statistics
    }

    /// What it knew of its peers when it was last [drained](Node::drain), in their order.
    pub fn remotes(&self) -> Vec<RemoteStatus> {
        self.remotes.iter().map(Remote::status).collect()
    }
}

/// Has the ends of TCP connections send what all paths pass.
fn clamp_mss<B: DerefMut<Target = Vec<u8>> + Clone>(remote: &Remote<B>, packet: &mut PacketBuffer<B>) {
    if let Some(mtu) = remote.mtu() {
        packet::clamp_mss(packet.bytes_mut(), mtu);
    }
}

impl<B: DerefMut<Target = Vec<u8>>> AsRef<[u8]> for Outbound<B> {
    fn as_ref(&self) -> &[u8] {
        self.datagram.bytes()
    }
}
