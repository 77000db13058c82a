use crate::dataplane::agenda::Agenda;
use crate::dataplane::config::{NodeConfig, NodeError, RemoteConfig};
use crate::dataplane::handshakes::Handshakes;
use crate::dataplane::networks::Networks;
use crate::dataplane::notice::{NodeNotice, NoticeContent};
use crate::dataplane::outer_headers::OuterHeaders;
use crate::dataplane::packet_buffer::{HEADROOM_BYTES, PacketBuffer};
use crate::dataplane::remote::Remote;
use crate::dataplane::remote::receiving::ReceivedText;
use crate::dataplane::remote::sending::{DatagramSeal, UnsealedDatagram};
use crate::dataplane::shard_message::{
    HandshakeTrigger, MAX_SHARDS, ShardMessage, ShardMessageContent, ShardSeed, session_path, session_paths, shard_path,
};
use crate::dataplane::statistics::{NodeStatistics, RemoteStatus};
use crate::{HeaderCompression, PathId, PathSet, SharedPaths, StreamDelivery, TrafficClass};
use kumade_link::Label;
use kumade_noise_session::{
    DatagramKind, Endpoint, EndpointEvent, HandshakePolicy, PeerError, PeerId, RefusedDatagram, Route, SealError,
    Session, SessionTable,
};
use kumade_packet::{Classification, DsField};
use kumade_units::{Rate, Span, Time};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::DerefMut;

/// Keys are forgotten so long after their last use, at most.
const SESSION_EXPIRY_INTERVAL: Span = Span::from_secs(60);

/// One end of the tunnels to its peers. The crate's first page has the loop contract.
pub struct Node<B> {
    /// Of several shards of a node, the first is 0.
    shard: usize,
    shard_count: usize,
    handshakes: Handshakes,
    /// What other shards are to be told, with their numbers.
    messages: Vec<(usize, ShardMessage)>,
    sessions: SessionTable,
    /// When keys that are used no more are to be forgotten.
    next_expiry: Time,
    networks: Networks,
    remotes: Vec<Remote<B>>,
    remote_by_peer: BTreeMap<PeerId, usize>,
    /// Whose turn it is when the node is drained.
    agenda: Agenda,
    /// What each peer's paths passed at its last turn, and the least of it.
    mtus: Vec<Option<u32>>,
    min_mtu: Option<u32>,
    /// Peers for which packets waited after their last turn.
    backlogged: BTreeSet<usize>,
    /// Peers that were to be reached and were not after their last turn, or whose paths had just begun anew.
    unsettled: BTreeSet<usize>,
    /// Peers to which a path was found to pass less than before.
    mtu_reductions: Vec<usize>,
    /// To a peer another outer transport carries packets than at its turn before.
    has_other_transport: bool,
    new_buffer: Box<dyn Fn(usize) -> B>,
    /// In order, and not yet checked for their sources; empty between calls.
    resequenced: Vec<PacketBuffer<B>>,
    delivered: Vec<PacketBuffer<B>>,
    statistics: NodeStatistics,
}

/// A datagram to be sent.
#[derive(Debug)]
pub struct Outbound<B> {
    /// From which socket ([`Route::path`]), and where.
    pub route: Route,
    /// DSCP and ECN of the packet in it; zero for what this node says itself. ECN is to stand in the header, so that queues on the
    /// path may mark the datagram instead of dropping it (RFC 6040 §4.1); DSCP may (RFC 2983).
    pub ds_field: DsField,
    /// Its bytes.
    pub datagram: PacketBuffer<B>,
}

/// What a datagram was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Nothing that any peer has sent now.
    Refused,
    /// A message of a handshake that may be a peer's, also where it was put off.
    Handshake,
    /// A peer's sign of life.
    Keepalive {
        /// The place of the peer.
        remote: usize,
    },
    /// A message of a peer.
    Data {
        /// The place of the peer.
        remote: usize,
        /// The path on which it has sent.
        path: PathId,
        /// Whether it has a packet for hosts, as far as can be told yet.
        has_packet: bool,
    },
}

/// What a node wants done, each list in its order.
#[derive(Debug)]
pub struct Output<B> {
    /// Transmit these.
    pub datagrams: Vec<Outbound<B>>,
    /// Hand these to the hosts.
    pub packets: Vec<PacketBuffer<B>>,
    /// Tell the administrator, in the order in which they happened.
    pub notices: Vec<NodeNotice>,
}

impl<B> Default for Output<B> {
    fn default() -> Self {
        Output { datagrams: Vec::new(), packets: Vec::new(), notices: Vec::new() }
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
        Node::first_shard(1, config, random, buffers, now)
    }

    /// The first shard of a node that has so many, from 1 to [`MAX_SHARDS`]; the others are made of its [seeds](Node::shard_seed).
    ///
    /// # Errors
    /// As [`Node::new`].
    pub fn first_shard(
        shards: usize,
        config: NodeConfig,
        random: Box<dyn CryptoRng + Send>,
        buffers: Box<dyn Fn(usize) -> B>,
        now: Time,
    ) -> Result<Self, NodeError> {
        let shards = shards.clamp(1, MAX_SHARDS);
        let policy = HandshakePolicy { capabilities: config.header_compression.capabilities(), ..config.policy };
        let mut endpoint = Endpoint::new(config.identity, policy, random);
        let mut remotes = Vec::new();
        for remote in config.remotes {
            remote.check_counts()?;
            let peer = endpoint.add_peer(remote.key, remote.psk.clone())?;
            endpoint.set_routes(peer, remote.routes.iter().flatten().copied().collect(), now);
            let paths = SharedPaths::new(&remote.bond.paths, shards, now);
            remotes.push((remote, peer, paths));
        }
        Node::build(0, shards, Handshakes::Local(Box::new(endpoint)), remotes, buffers, now)
    }

    /// What another shard of this node, which is the first, begins with: number 1 and so on. Its datagrams go to and come from
    /// sockets of its own, those for the peers' shards of the same number: their ports are that of the first one and that
    /// number, until they write from elsewhere.
    pub fn shard_seed(&self, shard: usize) -> ShardSeed {
        ShardSeed::new(shard, self.remotes.iter().map(Remote::shard_seed))
    }

    /// Another shard than the first. It is told of sessions by that one ([`Node::take_messages`]).
    ///
    /// # Errors
    /// As [`Node::new`].
    pub fn from_seed(seed: ShardSeed, buffers: Box<dyn Fn(usize) -> B>, now: Time) -> Result<Self, NodeError> {
        let shards = seed.remotes.first().map_or(1, |(.., paths)| paths.shard_count());
        Node::build(seed.shard, shards, Handshakes::delegated(), seed.remotes, buffers, now)
    }

    fn build(
        shard: usize,
        shards: usize,
        handshakes: Handshakes,
        remotes: Vec<(RemoteConfig, PeerId, SharedPaths)>,
        buffers: Box<dyn Fn(usize) -> B>,
        now: Time,
    ) -> Result<Self, NodeError> {
        let networks = Networks::new(remotes.iter().map(|(remote, ..)| remote.networks.as_slice()))?;
        let peers = remotes.len();
        let by_peer = remotes.iter().enumerate().map(|(place, (_, peer, _))| (*peer, place)).collect();
        let remote = |(config, peer, paths)| Remote::new(config, peer, paths, shard, now);
        Ok(Node {
            shard,
            shard_count: shards,
            handshakes,
            messages: Vec::new(),
            sessions: SessionTable::new(),
            next_expiry: now + SESSION_EXPIRY_INTERVAL,
            networks,
            remotes: remotes.into_iter().map(remote).collect::<Result<_, _>>()?,
            remote_by_peer: by_peer,
            agenda: Agenda::new(peers, now),
            mtus: vec![None; peers],
            min_mtu: None,
            backlogged: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            mtu_reductions: Vec::new(),
            has_other_transport: false,
            new_buffer: buffers,
            resequenced: Vec::new(),
            delivered: Vec::new(),
            statistics: NodeStatistics::default(),
        })
    }

    /// From now on has these peers, in this order. One with the key and the second key of a peer that there is stays connected,
    /// keeps what it knows of its paths, and is reached where it was last, but on paths on which another address is given than
    /// before; these begin anew, and those that are `changed`, since something else carries them now. A path behind those that a
    /// peer has is used no more. The own key and the admission of handshakes stay as they are. For the first shard, which tells
    /// the others ([`Node::take_messages`]). Returns the new places of the peers before; `None` for those that are gone. To be called
    /// when all events before are [drained](Node::drain).
    ///
    /// # Errors
    /// As [`Node::new`]; then nothing is changed.
    pub fn reconfigure(
        &mut self,
        remotes: Vec<RemoteConfig>,
        changed: PathSet,
        now: Time,
    ) -> Result<Vec<Option<usize>>, NodeError> {
        self.check_remotes(&remotes)?;
        let place = |old: &Remote<B>| remotes.iter().position(|new| new.is_same_peer(old.config()));
        let places: Vec<_> = self.remotes.iter().map(place).collect();
        let Some(endpoint) = self.handshakes.endpoint() else { return Ok(places) };
        for (gone, _) in self.remotes.iter().zip(&places).filter(|(_, place)| place.is_none()) {
            endpoint.remove_peer(gone.peer);
        }
        let mut parts = Vec::new();
        for config in remotes {
            let part = match self.remotes.iter().find(|old| config.is_same_peer(old.config())) {
                Some(old) => {
                    let mut paths = old.shared_paths().clone();
                    paths.add_paths(config.bond.paths.get(paths.path_count()..).unwrap_or_default(), now);
                    (config, old.peer, paths)
                }
                None => {
                    let peer = endpoint.add_peer(config.key, config.psk.clone())?;
                    let paths = SharedPaths::new(&config.bond.paths, self.shard_count, now);
                    (config, peer, paths)
                }
            };
            parts.push(part);
        }
        for shard in 1..self.shard_count {
            let content =
                ShardMessageContent::Reconfigured { seed: ShardSeed::new(shard, parts.iter().cloned()), changed };
            self.messages.push((shard, ShardMessage(content)));
        }
        self.replace_remotes(parts, changed, now);
        if let Some(endpoint) = self.handshakes.endpoint() {
            for remote in &self.remotes {
                endpoint.set_routes(remote.peer, remote.handshake_routes(), now);
            }
        }
        Ok(places)
    }

    /// Whether these can be its peers.
    fn check_remotes(&mut self, remotes: &[RemoteConfig]) -> Result<(), NodeError> {
        Networks::new(remotes.iter().map(|remote| remote.networks.as_slice()))?;
        for (place, remote) in remotes.iter().enumerate() {
            remote.check_counts()?;
            remote.bond.check()?;
            if remotes[..place].iter().any(|other| other.key == remote.key) {
                return Err(PeerError::Duplicate(remote.key).into());
            }
            if self.handshakes.endpoint().is_some_and(|endpoint| endpoint.public_key() == remote.key) {
                return Err(PeerError::OwnKey(remote.key).into());
            }
        }
        Ok(())
    }

    /// Takes these in place of the peers that there were. They have been checked.
    fn replace_remotes(&mut self, parts: Vec<(RemoteConfig, PeerId, SharedPaths)>, changed: PathSet, now: Time) {
        let Ok(networks) = Networks::new(parts.iter().map(|(remote, ..)| remote.networks.as_slice())) else { return };
        let mut before: BTreeMap<_, _> =
            std::mem::take(&mut self.remotes).into_iter().map(|remote| (remote.peer, remote)).collect();
        for (config, peer, paths) in parts {
            let remote = match before.remove(&peer) {
                Some(mut remote) => {
                    remote.reconfigure(config, paths, changed, now);
                    Ok(remote)
                }
                None => Remote::new(config, peer, paths, self.shard, now),
            };
            self.remotes.extend(remote);
        }
        before.into_keys().for_each(|gone| self.sessions.remove(gone));
        self.networks = networks;
        self.remote_by_peer = self.remotes.iter().enumerate().map(|(place, remote)| (remote.peer, place)).collect();
        self.agenda = Agenda::new(self.remotes.len(), now);
        self.mtus = vec![None; self.remotes.len()];
        self.backlogged.clear();
        self.unsettled.clear();
        self.mtu_reductions.clear();
    }

    /// Whether there are others to tell and to be told by.
    pub fn has_other_shards(&self) -> bool {
        self.shard_count > 1
    }

    /// What other shards are to be told, with their numbers. To be asked for after each [`Node::drain`].
    pub fn take_messages(&mut self) -> Vec<(usize, ShardMessage)> {
        let mut messages = std::mem::take(&mut self.messages);
        messages.extend(self.handshakes.take_messages().into_iter().map(|message| (0, message)));
        messages
    }

    /// What another shard tells this one.
    pub fn receive_message(&mut self, ShardMessage(content): ShardMessage, now: Time) {
        match content {
            ShardMessageContent::Handshake(peer, occasion) => self.handshakes.notify(peer, occasion, now),
            ShardMessageContent::Packet { bytes, form, destination, label, class } => {
                let mut buffer = (self.new_buffer)(HEADROOM_BYTES + bytes.len() + kumade_noise_session::TAG_BYTES);
                buffer.resize(HEADROOM_BYTES, 0);
                buffer.extend_from_slice(&bytes);
                let packet = PacketBuffer::new(buffer, HEADROOM_BYTES).with_form(form);
                self.send(packet, Some(destination), label, class, now);
            }
            ShardMessageContent::Reconfigured { seed, changed } => self.replace_remotes(seed.remotes, changed, now),
            ShardMessageContent::Established { peer, session, instance, paths } => {
                let Some(&place) = self.remote_by_peer.get(&peer) else { return };
                self.agenda.touch(place);
                let remote = &mut self.remotes[place];
                remote.record_header_bytes(session.short_header_bytes(), now);
                remote.set_header_compression(HeaderCompression::agreed(session.capabilities()), now);
                if remote.record_session(instance) {
                    // What still comes under the keys of its last life has that life's counters.
                    self.sessions.remove(peer);
                    remote.restart(paths, now, &mut self.resequenced);
                    self.deliver_with_valid_source(place);
                }
                self.sessions.install(peer, session, now);
            }
        }
    }

    /// A packet of a host: the peer that has its destination gets it. It has [`HEADROOM_BYTES`] before it.
    pub fn send(
        &mut self,
        mut packet: PacketBuffer<B>,
        destination: Option<IpAddr>,
        label: Label,
        class: TrafficClass,
        now: Time,
    ) {
        match destination.and_then(|destination| Some((destination, self.networks.find_peer(destination)?))) {
            Some((destination, place)) => {
                let remote = &mut self.remotes[place];
                if self.shard > 0 && !remote.is_reachable() {
                    // The peer may have fewer shards, or a firewall pass only the datagrams of the first.
                    let (bytes, form) = (packet.bytes().to_vec(), packet.form());
                    let content = ShardMessageContent::Packet { bytes, form, destination, label, class };
                    return self.messages.push((0, ShardMessage(content)));
                }
                self.agenda.touch(place);
                clamp_mss(remote, &mut packet);
                remote.send(packet, label, class, now);
            }
            None => self.statistics.unroutable_packets += 1,
        }
    }

    /// The length of the longest packet that may stand for segments, in bytes, where the peer that has this destination is
    /// sent such, or datagrams that they are divided into: it occupies no carrier and no path for long.
    pub fn max_offloaded_packet_bytes(&self, destination: Option<IpAddr>) -> Option<usize> {
        let remote = destination.and_then(|destination| self.networks.find_peer(destination))?;
        // Otherwise another shard sends what comes for it, and is told packet by packet.
        let remote = Some(&self.remotes[remote]).filter(|remote| remote.is_reachable())?;
        remote.max_large_packet()
    }

    /// Whether packets for the peer that has this destination may have partial checksums
    /// ([`PacketBuffer::with_partial_checksum`]).
    pub fn takes_partial_checksums(&self, destination: Option<IpAddr>) -> bool {
        let remote = destination.and_then(|destination| self.networks.find_peer(destination));
        remote.is_some_and(|remote| self.remotes[remote].takes_partial_checksums())
    }

    /// A datagram has arrived. It is opened where it stands; only a packet that is authentic is copied to a buffer.
    pub fn receive(&mut self, datagram: &mut [u8], outer: OuterHeaders, now: Time) -> Received {
        let received = match DatagramKind::from_datagram(datagram) {
            Some(DatagramKind::Data) => self.open_datagram(datagram, outer, now),
            Some(_) => match self.handshakes.receive(datagram, outer.route, outer.transport, now) {
                Ok(()) => Received::Handshake,
                Err(refusal) => {
                    self.statistics.refused_handshakes += 1;
                    let has_wrong_key = matches!(refusal, RefusedDatagram::UnknownPeer | RefusedDatagram::InvalidMac);
                    self.statistics.wrong_key_handshakes += u64::from(has_wrong_key);
                    return if refusal.may_be_followed() { Received::Handshake } else { Received::Refused };
                }
            },
            None => Received::Refused,
        };
        if received == Received::Refused {
            self.statistics.refused_datagrams += 1;
        }
        received
    }

    fn open_datagram(&mut self, datagram: &mut [u8], outer: OuterHeaders, now: Time) -> Received {
        let datagram_bytes = datagram.len();
        let reference = |peer, path| self.remotes[*self.remote_by_peer.get(&peer)?].counter_reference(path);
        let Ok((peer, opened)) = self.sessions.open_numbered(datagram, reference, now) else {
            return Received::Refused;
        };
        if opened.plaintext.is_empty() {
            self.handshakes.notify(peer, HandshakeTrigger::KeepaliveReceived, now);
            let Some(&place) = self.remote_by_peer.get(&peer) else { return Received::Refused };
            self.remotes[place].record_heard(now);
            self.agenda.touch(place);
            return Received::Keepalive { remote: place };
        }
        let (Some(&place), Some(path)) = (self.remote_by_peer.get(&peer), shard_path(self.shard, opened.path)) else {
            return Received::Refused;
        };
        self.agenda.touch(place);
        let remote = &mut self.remotes[place];
        remote.record_heard(now);
        if remote.is_data_received_notice_due(now) {
            self.handshakes.notify(peer, HandshakeTrigger::DataReceived, now);
        }
        let counter = opened.is_numbered.then_some(opened.counter);
        let received = ReceivedText { path, counter, text: &datagram[opened.plaintext], datagram_bytes };
        let message = remote.receive(received, outer, now, &self.new_buffer, &mut self.resequenced);
        let has_foreign_source = self.deliver_with_valid_source(place) > 0;
        match message {
            Some(has_packet) => Received::Data { remote: place, path, has_packet: has_packet && !has_foreign_source },
            None => Received::Refused,
        }
    }

    /// A peer is reached on a path by this route from now on: the path's connection is open. If connections were open before,
    /// but none is now, the peer may have restarted, and would take what is sealed under the last session for a stranger's: a
    /// new one is made.
    pub fn add_route(&mut self, remote: usize, path: PathId, route: Route, now: Time) {
        let Some(remote) = touched(&mut self.remotes, &mut self.agenda, remote) else { return };
        let may_have_restarted = remote.had_connection() || !self.sessions.has_session(remote.peer, now);
        let needs_session = !remote.has_connection() && may_have_restarted;
        remote.set_route(path, Some(route), now);
        let Some(endpoint) = self.handshakes.endpoint() else { return };
        if needs_session {
            self.sessions.remove(remote.peer);
            endpoint.reconnect(remote.peer, now);
        }
        // By the route that is new.
        endpoint.set_routes(remote.peer, remote.handshake_routes(), now);
    }

    /// A route leads nowhere from now on: its connection has ended.
    pub fn remove_route(&mut self, remote: usize, path: PathId, route: Route, now: Time) {
        let remote = touched(&mut self.remotes, &mut self.agenda, remote);
        let Some(remote) = remote.filter(|remote| remote.route(path) == Some(route)) else { return };
        remote.set_route(path, None, now);
        if let Some(endpoint) = self.handshakes.endpoint() {
            endpoint.set_routes(remote.peer, remote.handshake_routes(), now);
        }
    }

    /// Whether a path carries packets to a peer, by its place.
    pub fn is_reachable(&self, remote: usize) -> bool {
        self.remotes.get(remote).is_some_and(Remote::is_reachable)
    }

    /// A peer is to be reached by this route from now on, on the path that the route is of, by datagrams with so many bytes besides
    /// the packet ([`OVERHEAD_BYTES`](crate::dataplane::OVERHEAD_BYTES) and outer headers): it does not answer where it was before.
    pub fn set_datagram_route(&mut self, remote: usize, route: Route, overhead_bytes: u32, now: Time) {
        let Some(remote) = touched(&mut self.remotes, &mut self.agenda, remote) else { return };
        remote.set_datagram_route(route, overhead_bytes, now);
        if let Some(endpoint) = self.handshakes.endpoint() {
            endpoint.reconnect(remote.peer, now);
            // By the route that is new.
            endpoint.set_routes(remote.peer, remote.handshake_routes(), now);
        }
    }

    /// Whether connections carry packets to a peer, or from it: if not, few need be open.
    pub fn uses_connections(&self, remote: usize, now: Time) -> bool {
        self.remotes.get(remote).is_some_and(|remote| remote.uses_connections(now))
    }

    /// How the carrier of a path to a peer does now, where that controls the flow. To be told before [`Node::drain`].
    pub fn update_stream_delivery(&mut self, remote: usize, path: PathId, state: StreamDelivery, now: Time) {
        if let Some(remote) = touched(&mut self.remotes, &mut self.agenda, remote) {
            remote.update_stream_delivery(path, state, now);
        }
    }

    /// Delivers what a peer has sent, but for what has a source that the peer does not have. Returns how many packets those were.
    fn deliver_with_valid_source(&mut self, place: usize) -> u64 {
        let before = self.statistics.foreign_source_packets;
        for mut packet in self.resequenced.drain(..) {
            let source = Classification::from_packet(packet.bytes()).selector.map(|selector| selector.source);
            if source.and_then(|source| self.networks.find_peer(source)) == Some(place) {
                clamp_mss(&self.remotes[place], &mut packet);
                self.delivered.push(packet);
            } else {
                self.statistics.foreign_source_packets += 1;
            }
        }
        self.statistics.foreign_source_packets - before
    }

    /// Appends all that is due: of peers whose deadline has come, or to which something has happened, and of each one twice a second
    /// where it is called that often. `wall` is the time since the Unix epoch; it may step.
    pub fn drain(&mut self, now: Time, wall: Time, output: &mut Output<B>) {
        if now >= self.next_expiry {
            self.next_expiry = now + SESSION_EXPIRY_INTERVAL;
            self.sessions.expire(now);
        }
        self.drive_handshakes(now, wall, output);
        for place in self.agenda.take_due(now) {
            self.remotes[place].expire(now, &mut self.resequenced);
            self.send_due(place, now, output);
            self.remotes[place].handle_path_events(now, &mut self.resequenced);
            let has_session = self.sessions.has_session(self.remotes[place].peer, now);
            if self.remotes[place].update_connection(has_session, now)
                && let Some(endpoint) = self.handshakes.endpoint()
            {
                // It may have restarted, and not know where this end is.
                endpoint.reconnect(self.remotes[place].peer, now);
            }
            self.take_changes(place, output);
            self.deliver_with_valid_source(place);
            self.report_oversized(place);
            self.end_turn(place, has_session, now);
        }
        self.min_mtu = self.mtus.iter().flatten().min().copied();
        self.drive_handshakes(now, wall, output);
        self.statistics.delivered_packets += self.delivered.len() as u64;
        output.packets.append(&mut self.delivered);
    }

    /// Takes note of what a peer has come to.
    fn end_turn(&mut self, place: usize, has_session: bool, now: Time) {
        let remote = &mut self.remotes[place];
        self.agenda.schedule(place, remote.deadline(has_session));
        self.mtus[place] = remote.mtu();
        if remote.is_backlogged() {
            self.backlogged.insert(place)
        } else {
            self.backlogged.remove(&place)
        };
        if remote.take_mtu_reduction() {
            self.mtu_reductions.push(place);
        }
        if remote.is_settled(now) {
            self.unsettled.remove(&place)
        } else {
            self.unsettled.insert(place)
        };
        self.has_other_transport |= remote.take_transport_change();
    }

    /// Of several shards, the first one tells.
    fn take_changes(&mut self, place: usize, output: &mut Output<B>) {
        let changes = self.remotes[place].take_changes();
        if self.shard == 0 {
            let notice = |(time, change)| NodeNotice { time, content: NoticeContent::Remote { remote: place, change } };
            output.notices.extend(changes.into_iter().map(notice));
        }
    }

    /// Tells hosts of packets that are too long for all paths.
    fn report_oversized(&mut self, place: usize) {
        let (count, errors) = self.remotes[place].take_oversized();
        self.statistics.oversized_packets += count;
        for error in errors {
            let mut buffer = (self.new_buffer)(error.len());
            buffer.extend_from_slice(&error);
            self.delivered.push(PacketBuffer::new(buffer, 0));
        }
    }

    fn drive_handshakes(&mut self, now: Time, wall: Time, output: &mut Output<B>) {
        self.handshakes.advance(now, wall);
        while let Some(event) = self.handshakes.next_event() {
            match event {
                EndpointEvent::Transmit { to, datagram } => {
                    let mut buffer = (self.new_buffer)(datagram.len());
                    buffer.extend_from_slice(&datagram);
                    output.datagrams.push(Outbound {
                        route: to,
                        ds_field: DsField::default(),
                        datagram: PacketBuffer::new(buffer, 0),
                    });
                }
                EndpointEvent::Established { peer, session, instance, .. } => {
                    self.install_session(peer, session, instance, now)
                }
                EndpointEvent::Unreachable { .. } => {}
                EndpointEvent::Notice(notice) => {
                    output.notices.push(NodeNotice { time: now, content: NoticeContent::Handshake(notice) });
                }
            }
        }
    }

    fn install_session(&mut self, peer: PeerId, mut session: Session, instance: u64, now: Time) {
        if let Some(&place) = self.remote_by_peer.get(&peer) {
            self.agenda.touch(place);
            let remote = &mut self.remotes[place];
            remote.record_heard(now);
            remote.record_header_bytes(session.short_header_bytes(), now);
            remote.set_header_compression(HeaderCompression::agreed(session.capabilities()), now);
            if remote.record_session(instance) {
                // What still comes under the keys of its last life has that life's counters.
                self.sessions.remove(peer);
                let paths = remote.renewed_paths(now);
                remote.restart(paths, now, &mut self.resequenced);
            }
            for shard in 1..self.shard_count {
                let Ok(session) = session.take_paths(session_paths(shard)) else { continue };
                let paths = remote.shared_paths().clone();
                let content = ShardMessageContent::Established { peer, session, instance, paths };
                self.messages.push((shard, ShardMessage(content)));
            }
            self.deliver_with_valid_source(place);
        }
        self.sessions.install(peer, session, now);
    }

    fn send_due(&mut self, place: usize, now: Time, output: &mut Output<B>) {
        let remote = &mut self.remotes[place];
        let peer = remote.peer;
        if !self.sessions.has_session(peer, now) {
            if self.shard == 0 && remote.routes().next().is_some() {
                self.handshakes.notify(peer, HandshakeTrigger::SessionNeeded, now);
            }
            return;
        }
        while let Some(UnsealedDatagram { path, route: to, ds_field, seal, mut datagram }) =
            remote.next(now, &self.new_buffer)
        {
            let path = session_path(self.shard, path);
            let sealed = match seal {
                DatagramSeal::Uncounted => self.sessions.seal(peer, path, datagram.bytes_mut(), now),
                DatagramSeal::Counted(counter, form) => {
                    self.sessions.seal_numbered(peer, (path, counter), form, datagram.bytes_mut(), now)
                }
            };
            match sealed {
                Ok(sealed) => {
                    datagram.skip(sealed.start);
                    if sealed.is_rekey_due {
                        self.handshakes.notify(peer, HandshakeTrigger::SessionNeeded, now);
                    }
                    if remote.is_data_sent_notice_due(now) {
                        self.handshakes.notify(peer, HandshakeTrigger::DataSent, now);
                    }
                    output.datagrams.push(Outbound { route: to, ds_field, datagram });
                }
                // Numbers have begun anew under keys that there were before.
                Err(SealError::UsedCounter { .. }) => self.statistics.unsealed_datagrams += 1,
                Err(_) => return self.handshakes.notify(peer, HandshakeTrigger::SessionNeeded, now),
            }
        }
    }

    /// The kernel has refused to send a datagram of so many bytes, because it is too long for the interface.
    pub fn record_send_refusal(&mut self, to: Route, bytes: usize, now: Time) {
        let place = self.remotes.iter().position(|remote| remote.routes().any(|route| route == to));
        if let Some(remote) = place.and_then(|place| touched(&mut self.remotes, &mut self.agenda, place)) {
            remote.record_send_refusal(to, bytes, now);
        }
    }

    /// The interface of a path, by its place, takes packets of another length than before, or is another one.
    pub fn set_interface_mtu(&mut self, path: usize, mtu: u32, now: Time) {
        for (place, remote) in self.remotes.iter_mut().enumerate() {
            self.agenda.touch(place);
            remote.set_interface_mtu(path, mtu, now);
        }
    }

    /// The peers, by their places, to which a path by datagrams was found to pass less than before, as of the last [`Node::drain`] and
    /// since this was last asked.
    pub fn take_mtu_reductions(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.mtu_reductions)
    }

    /// Whether another outer transport carries packets to a peer than when this was last asked, as of the last [`Node::drain`]:
    /// [`RemoteStatus::outer_transport`].
    pub fn take_transport_changes(&mut self) -> bool {
        std::mem::take(&mut self.has_other_transport)
    }

    /// Whether packets of hosts wait until a path has room.
    pub fn is_backlogged(&self) -> bool {
        !self.backlogged.is_empty() || self.agenda.touched().iter().any(|place| self.remotes[*place].is_backlogged())
    }

    /// The longest packet of hosts that all paths to all peers pass, in bytes, as far as is known or expected: that is to be
    /// the MTU of the hosts' device. `None` where it is not discovered.
    pub fn mtu(&self) -> Option<u32> {
        if self.agenda.touched().is_empty() {
            return self.min_mtu;
        }
        self.remotes.iter().filter_map(Remote::mtu).min()
    }

    /// When to call [`Node::drain`] at the latest.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let touched = self.agenda.touched().iter().map(|place| &self.remotes[*place]);
        let touched = touched.filter_map(|remote| remote.deadline(self.sessions.has_session(remote.peer, now)));
        touched.chain(self.agenda.next_deadline()).chain(self.handshakes.next_deadline()).min()
    }

    /// Whether all peers that are to be reached are, as of the last [`Node::drain`]. Otherwise it is to be drained twice a second: a
    /// session that is needed has no deadline of its own.
    pub fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// A measurement says what a path to a peer carries; both by their places.
    pub fn suggest_rate(&mut self, remote: usize, path: usize, measured: Rate, now: Time) {
        if let Some(remote) = touched(&mut self.remotes, &mut self.agenda, remote) {
            remote.suggest_rate(path, measured, now);
        }
    }

    /// What it has done and refused.
    pub fn statistics(&self) -> NodeStatistics {
        self.statistics
    }

    /// What it knew of its peers when it was last [drained](Node::drain), in their order.
    pub fn remote_statuses(&self) -> Vec<RemoteStatus> {
        self.remotes.iter().map(Remote::status).collect()
    }
}

/// The peer with this place, which something happens to.
fn touched<'r, B>(remotes: &'r mut [Remote<B>], agenda: &mut Agenda, place: usize) -> Option<&'r mut Remote<B>> {
    let remote = remotes.get_mut(place)?;
    agenda.touch(place);
    Some(remote)
}

/// Has the ends of TCP connections send what all paths pass.
fn clamp_mss<B: DerefMut<Target = Vec<u8>> + Clone>(remote: &Remote<B>, packet: &mut PacketBuffer<B>) {
    if let Some(mtu) = remote.mtu() {
        kumade_packet::clamp_mss(packet.bytes_mut(), mtu);
    }
}

impl<B: DerefMut<Target = Vec<u8>>> AsRef<[u8]> for Outbound<B> {
    fn as_ref(&self) -> &[u8] {
        self.datagram.bytes()
    }
}
