mod mtu;
pub(crate) mod receiving;
pub(crate) mod sending;

use crate::dataplane::config::{NodeError, RemoteConfig};
use crate::dataplane::notice::RemoteChange;
use crate::dataplane::outer_headers::OuterHeaders;
use crate::dataplane::packet_buffer::PacketBuffer;
use crate::dataplane::path_mtus::PathMtus;
use crate::dataplane::statistics::{RemotePath, RemoteStatus};
use crate::header_contexts::compressor::HeaderCompressor;
use crate::header_contexts::decompressor::HeaderDecompressor;
use crate::{
    Bond, HeaderCompression, MissingDatagrams, OuterTransport, PathEvent, PathId, PathPolicy, PathReceiver, PathSet,
    PathState, Resequencer, SharedPaths, StreamDelivery, TrafficClass,
};
use kumade_link::Label;
use kumade_noise_session::{PeerId, Route};
use kumade_packet::PayloadKind;
use kumade_units::{ConfigError, Rate, Span, Time};
use std::ops::DerefMut;

/// Connections that bring no packet for so long are not used by the peer.
const CONNECTION_IDLE_TIMEOUT: Span = Span::from_secs(1);
/// Hosts are told of packets that some path passes no more often.
const MTU_ADVICE_INTERVAL: Span = Span::from_millis(10);
/// A peer is not lost for so long after its paths began anew with other settings: they are probed meanwhile.
const PATH_RESTART_TIMEOUT: Span = Span::from_secs(2);
/// The endpoint needs to be told of data no more often.
const NOTICE_INTERVAL: Span = Span::from_secs(1);

/// All that belongs to one peer.
pub(crate) struct Remote<B> {
    /// With all paths that there have been.
    config: RemoteConfig,
    /// So many of them are in use; those behind have been given up, and keep their counters.
    path_count: usize,
    /// What the shards of the node have in common.
    shared_paths: SharedPaths,
    /// Which of them this is.
    shard: usize,
    pub(crate) peer: PeerId,
    bond: Bond<PacketBuffer<B>>,
    resequencer: Resequencer<PacketBuffer<B>>,
    receivers: Vec<PathReceiver>,
    missing: MissingDatagrams,
    compressor: HeaderCompressor,
    decompressor: HeaderDecompressor,
    mtus: PathMtus,
    /// Where the peer is reached: where its last authentic datagram came from.
    routes: Vec<Option<Route>>,
    /// Where it is to be reached by the configuration, or by its name.
    configured_routes: Vec<Option<Route>>,
    /// Connections led to it at some time.
    had_connection: bool,
    /// When one last brought a packet.
    last_connection_data: Option<Time>,
    instance: Option<u64>,
    /// Whether there is a session and a path is up, and since when.
    connection_state: (bool, Time),
    /// When anything authentic came from the peer last.
    last_heard: Option<Time>,
    /// How often the peer was lost.
    losses: u64,
    /// How often each path failed or ended.
    path_failures: Vec<u64>,
    /// Whether each path has failed or ended, and has not returned yet.
    has_path_failed: Vec<bool>,
    /// Whether each path was taken down for other settings, which is no failure.
    is_restarting: Vec<bool>,
    /// Packets too long for all paths, or for some, of which hosts are to be told.
    oversized: Vec<Vec<u8>>,
    next_mtu_advice: Time,
    /// When one was last.
    restarted_at: Option<Time>,
    /// What is to be told.
    changes: Vec<(Time, RemoteChange)>,
    handshakes: u64,
    restarts: u64,
    last_data_sent_notice: Option<Time>,
    last_data_received_notice: Option<Time>,
    /// What carried packets last, as was last told.
    told_transport: Option<OuterTransport>,
}

impl<B: DerefMut<Target = Vec<u8>> + Clone> Remote<B> {
    pub(crate) fn new(
        config: RemoteConfig,
        peer: PeerId,
        paths: SharedPaths,
        shard: usize,
        now: Time,
    ) -> Result<Self, NodeError> {
        let routes = config.routes.clone();
        let bond = new_bond(&config, &paths, shard, now)?;
        let mtus = PathMtus::new(&config.interface_mtus, &config.bond, now);
        let mut remote = Remote {
            peer,
            bond,
            resequencer: Resequencer::new(config.resequencer),
            receivers: vec![PathReceiver::new(); routes.len()],
            missing: MissingDatagrams::new(),
            compressor: HeaderCompressor::new(HeaderCompression::Off),
            decompressor: HeaderDecompressor::new(HeaderCompression::Off, 0),
            path_failures: vec![0; routes.len()],
            has_path_failed: vec![false; routes.len()],
            is_restarting: vec![false; routes.len()],
            restarted_at: None,
            configured_routes: routes.clone(),
            routes,
            had_connection: false,
            last_connection_data: None,
            instance: None,
            connection_state: (false, now),
            last_heard: None,
            losses: 0,
            oversized: Vec::new(),
            next_mtu_advice: now,
            changes: Vec::new(),
            handshakes: 0,
            restarts: 0,
            last_data_sent_notice: None,
            last_data_received_notice: None,
            told_transport: None,
            mtus,
            path_count: config.bond.paths.len(),
            config,
            shared_paths: paths,
            shard,
        };
        remote.enable_known_paths(now);
        Ok(remote)
    }

    pub(crate) fn config(&self) -> &RemoteConfig {
        &self.config
    }

    /// Takes over other settings of the same peer: [`Node::reconfigure`](crate::dataplane::Node::reconfigure). `paths` are those that there
    /// were and further ones.
    pub(crate) fn reconfigure(&mut self, new: RemoteConfig, paths: SharedPaths, changed: PathSet, now: Time) {
        let (before, count) = (std::mem::replace(&mut self.path_count, new.bond.paths.len()), paths.path_count());
        let given = std::mem::replace(&mut self.config, new);
        let config = &mut self.config;
        let kept = (before.min(self.path_count), PathId::all().take(given.bond.paths.len()));
        for path in kept.1.map(PathId::index) {
            if path >= self.path_count {
                config.bond.paths.push(given.bond.paths[path]);
                config.routes.push(None);
            } else if path < kept.0 && !PathId::all().nth(path).is_some_and(|id| changed.contains(id)) {
                // As found out since.
                let (old, new) = (&given.bond.paths[path], &mut config.bond.paths[path]);
                (new.overhead_bytes, new.transport) = (old.overhead_bytes, old.transport);
                if let (Some(new), Some(old)) = (config.interface_mtus.get_mut(path), given.interface_mtus.get(path)) {
                    *new = *old;
                }
            }
        }
        if let PathPolicy::Ratio { shares, .. } = &mut config.bond.policy {
            shares.resize(count, 0);
        }
        if !config.interface_mtus.is_empty() {
            config.interface_mtus.resize(count, None);
        }
        // Its settings have been checked, so that nothing is out of range.
        if self.bond.reconfigure(&config.bond, &paths, self.shard, now).is_err() {
            return;
        }
        self.shared_paths = paths;
        self.routes.resize(count, None);
        self.configured_routes.resize(count, None);
        self.receivers.resize(count, PathReceiver::new());
        self.path_failures.resize(count, 0);
        self.has_path_failed.resize(count, false);
        self.is_restarting.resize(count, false);
        self.mtus.set_path_count(count);
        for path in PathId::all().take(count) {
            let place = path.index();
            let (is_used, was_used) = (place < self.path_count, place < before);
            let given_before = given.routes.get(place).copied().flatten().filter(|_| was_used);
            let route = self.config.routes[place];
            if route != given_before {
                self.configured_routes[place] = route;
            }
            // The far end's name may have led there already.
            let is_elsewhere = route.is_some() && route != given_before && route != self.routes[place];
            if !is_used {
                self.give_up_path(path, now);
            } else if !was_used || changed.contains(path) || is_elsewhere {
                self.restart_path(path, route.or(self.routes[place].filter(|_| was_used)), now);
            }
            let rate = self.config.bond.paths[place].rate;
            if is_used && was_used && rate != given.bond.paths[place].rate {
                rate.into_iter().for_each(|rate| self.bond.suggest_rate(path, rate, now));
            }
        }
    }

    /// A path is used no more.
    fn give_up_path(&mut self, path: PathId, now: Time) {
        self.set_route(path, None, now);
        self.has_path_failed[path.index()] = false;
        self.mtus.set_transport(path, None, 0, now);
    }

    /// A path begins anew by this route, or waits for the peer to write first.
    fn restart_path(&mut self, path: PathId, route: Option<Route>, now: Time) {
        if self.bond.set_enabled(path, false, now) {
            self.is_restarting[path.index()] = true;
            self.restarted_at = Some(now);
        }
        self.has_path_failed[path.index()] = false;
        let overhead_bytes = self.config.bond.paths[path.index()].overhead_bytes;
        self.bond.set_transport(path, self.transport(path), overhead_bytes, now);
        let mtu = self.config.interface_mtus.get(path.index()).copied().flatten();
        self.mtus.set_transport(path, mtu, overhead_bytes, now);
        self.apply_mtu(path, now);
        self.set_route(path, route, now);
    }

    /// What another shard begins with.
    pub(crate) fn shard_seed(&self) -> (RemoteConfig, PeerId, SharedPaths) {
        (self.config.clone(), self.peer, self.shared_paths.clone())
    }

    /// A session was made with this life of the peer. Returns whether it is another one than before: then both ends number from
    /// the beginning.
    pub(crate) fn record_session(&mut self, instance: u64) -> bool {
        self.handshakes += 1;
        self.instance.replace(instance).is_some_and(|before| before != instance)
    }

    /// In the sessions with this life of the peer, headers are sent so.
    pub(crate) fn set_header_compression(&mut self, agreed: HeaderCompression, now: Time) {
        if agreed != self.compressor.agreed() {
            self.begin_header_contexts(agreed, now);
        }
    }

    /// Whether packets to the peer may have partial checksums.
    pub(crate) fn takes_partial_checksums(&self) -> bool {
        self.compressor.agreed().takes_partial_checksums()
    }

    fn begin_header_contexts(&mut self, agreed: HeaderCompression, now: Time) {
        // The lowest bits of a time in nanoseconds are another number in each life of this end of the same instance.
        let first_number = now.as_nanos() as u16;
        (self.compressor, self.decompressor) =
            (HeaderCompressor::new(agreed), HeaderDecompressor::new(agreed, first_number));
    }

    /// The paths as they are known, for bonds that begin anew.
    pub(crate) fn renewed_paths(&mut self, now: Time) -> SharedPaths {
        for (path, config) in PathId::all().zip(&mut self.config.bond.paths) {
            config.rate = self.bond.status(path).map(|status| status.rate).or(config.rate);
        }
        SharedPaths::new(&self.config.bond.paths, self.shared_paths.shard_count(), now)
    }

    /// What the shards of the node have in common.
    pub(crate) fn shared_paths(&self) -> &SharedPaths {
        &self.shared_paths
    }

    /// The peer has restarted.
    pub(crate) fn restart(&mut self, paths: SharedPaths, now: Time, delivered: &mut Vec<PacketBuffer<B>>) {
        self.restarts += 1;
        self.changes.push((now, RemoteChange::Restarted));
        // It is connected again once a path is up.
        self.connection_state = (false, now);
        self.has_path_failed.fill(false);
        self.resequencer.flush(now, delivered);
        self.resequencer = Resequencer::new(self.config.resequencer);
        self.receivers.fill(PathReceiver::new());
        self.missing = MissingDatagrams::new();
        self.begin_header_contexts(self.compressor.agreed(), now);
        // As when it was made first, so that nothing is out of range.
        if let Ok(bond) = new_bond(&self.config, &paths, self.shard, now) {
            (self.bond, self.shared_paths) = (bond, paths);
            PathId::all().zip(&self.routes).for_each(|(path, _)| self.mtus.path_down(path));
            self.enable_known_paths(now);
        }
    }

    /// Whether a path carries packets to the peer.
    pub(crate) fn is_reachable(&self) -> bool {
        self.connection_state.0 && self.bond.is_up()
    }

    /// Whether it is connected, or nobody knows where it is; what is to happen then has deadlines.
    pub(crate) fn is_settled(&self, now: Time) -> bool {
        let is_restarting = self.restarted_at.is_some_and(|at| now - at < PATH_RESTART_TIMEOUT);
        (self.connection_state.0 && !is_restarting) || self.routes().next().is_none()
    }

    fn enable_known_paths(&mut self, now: Time) {
        for (path, route) in PathId::all().zip(&self.routes) {
            self.bond.set_enabled(path, route.is_some(), now);
            self.bond.set_max_bytes(path, self.mtus.max_packet_bytes(path), now);
        }
    }

    /// Whether packets wait until a path has room.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.bond.queued_packets() > 0
    }

    /// Something authentic has come from the peer.
    pub(crate) fn record_heard(&mut self, now: Time) {
        self.last_heard = Some(now);
    }

    /// Takes note of whether the peer is connected: there is a session, and it answers on a path. One that is lost has been so since
    /// it was heard last. A path that answers while its MTU is found out anew is no loss. Returns whether it was lost just now.
    pub(crate) fn update_connection(&mut self, has_session: bool, now: Time) -> bool {
        let is_restarting = self.restarted_at.is_some_and(|at| now - at < PATH_RESTART_TIMEOUT);
        let is_kept = self.connection_state.0 && (is_restarting || self.answers_on_a_path());
        let is_connected = has_session && (self.bond.is_up() || is_kept);
        if self.connection_state.0 == is_connected {
            return false;
        }
        if is_connected {
            self.connection_state = (true, now);
            self.changes.push((now, RemoteChange::Connected));
        } else {
            let last_heard = self.last_heard;
            self.connection_state = (false, last_heard.unwrap_or(now));
            self.losses += 1;
            self.changes.push((now, RemoteChange::Lost { last_heard }));
        }
        !is_connected
    }

    fn answers_on_a_path(&self) -> bool {
        let mut states = PathId::all().take(self.path_count).filter_map(|path| self.bond.status(path));
        states.any(|status| status.state == PathState::Up)
    }

    /// What has become of the peer and its paths since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Vec<(Time, RemoteChange)> {
        std::mem::take(&mut self.changes)
    }

    /// Whether another outer transport carries packets than when this was last asked.
    pub(crate) fn take_transport_change(&mut self) -> bool {
        let current = self.bond.current_transport().or(self.told_transport);
        std::mem::replace(&mut self.told_transport, current) != current
    }

    /// Where the peer is reached on each path, as far as known.
    pub(crate) fn routes(&self) -> impl Iterator<Item = Route> {
        self.routes.iter().flatten().copied()
    }

    /// Those, and where it is to be reached by the configuration or its name.
    pub(crate) fn handshake_routes(&self) -> Vec<Route> {
        let configured = self.configured_routes.iter().flatten().filter(|route| !self.routes.contains(&Some(**route)));
        self.routes().chain(configured.copied()).collect()
    }

    /// A packet for a network of the peer.
    pub(crate) fn send(&mut self, packet: PacketBuffer<B>, label: Label, class: TrafficClass, now: Time) {
        // It may still pass by a path that is not the best: hosts are to send what passes by all.
        let longest = packet.longest_bytes();
        let is_long = self.mtu().is_some_and(|mtu| longest > mtu);
        if is_long && now >= self.next_mtu_advice {
            self.next_mtu_advice = now + MTU_ADVICE_INTERVAL;
            self.keep_oversized(&packet);
        }
        let segments = packet.segment_count();
        self.bond.enqueue_large(packet, (segments, longest), label, class, now);
    }

    /// See [`Bond::max_large_packet_bytes`].
    pub(crate) fn max_large_packet(&self) -> Option<usize> {
        self.bond.max_large_packet_bytes()
    }

    /// Ends what waits for paths that have failed.
    pub(crate) fn handle_path_events(&mut self, now: Time, delivered: &mut Vec<PacketBuffer<B>>) {
        while let Some(event) = self.bond.poll_event() {
            match event {
                PathEvent::Up(path) => {
                    self.mtus.path_up(path, now);
                    if std::mem::take(&mut self.has_path_failed[path.index()]) {
                        self.changes.push((now, RemoteChange::PathReturned(path)));
                    }
                }
                PathEvent::Down(path) => {
                    let is_restarting = std::mem::take(&mut self.is_restarting[path.index()]);
                    if path.index() < self.path_count && !is_restarting {
                        self.record_path_failure(path, now);
                    }
                    // Paths are judged in both directions together.
                    self.resequencer.path_down(path, now, delivered);
                    self.mtus.path_down(path);
                    self.apply_mtu(path, now);
                }
            }
        }
    }

    fn record_path_failure(&mut self, path: PathId, now: Time) {
        self.path_failures[path.index()] += 1;
        let has_ended = self.routes[path.index()].is_none();
        self.has_path_failed[path.index()] |= !has_ended;
        let change = if has_ended { RemoteChange::PathEnded(path) } else { RemoteChange::PathFailed(path) };
        self.changes.push((now, change));
    }

    /// The peer is where its last authentic datagram came from, which had so many bytes.
    fn update_route(&mut self, path: PathId, outer: &OuterHeaders, datagram_bytes: usize, now: Time) {
        let from = outer.route;
        let route = &mut self.routes[path.index()];
        if *route == Some(from) {
            return;
        }
        let before = route.replace(from);
        if before.is_none_or(|before| before.address.is_ipv4() != from.address.is_ipv4())
            || self.transport(path) != outer.transport
        {
            self.update_path_transport(path, outer, datagram_bytes, now);
        }
        match before {
            None => {
                self.bond.set_enabled(path, true, now);
            }
            // Another address is another path, another port is not.
            Some(before) if before.address.ip() != from.address.ip() => {
                self.mtus.path_down(path);
                if self.bond.status(path).is_some_and(|status| status.state == PathState::Up) {
                    self.mtus.path_up(path, now);
                }
                self.apply_mtu(path, now);
            }
            Some(_) => {}
        }
    }

    /// A path has what carried this, and what that adds to each packet.
    fn update_path_transport(&mut self, path: PathId, outer: &OuterHeaders, datagram_bytes: usize, now: Time) {
        let headers = outer.packet_bytes.saturating_sub(datagram_bytes as u32);
        let (transport, overhead_bytes) = (outer.transport, headers + crate::dataplane::OVERHEAD_BYTES);
        let interface_mtu = self.config.interface_mtus.get(path.index()).copied().flatten();
        let config = &mut self.config.bond.paths[path.index()];
        let before = (config.transport, config.overhead_bytes);
        if before != (transport, overhead_bytes) {
            (config.transport, config.overhead_bytes) = (transport, overhead_bytes);
            self.bond.set_transport(path, transport, overhead_bytes, now);
            let mtu = interface_mtu.filter(|_| outer.transport == OuterTransport::Udp);
            self.mtus.set_transport(path, mtu, overhead_bytes, now);
            if self.bond.status(path).is_some_and(|status| status.state == PathState::Up) {
                self.mtus.path_up(path, now);
            }
            self.apply_mtu(path, now);
        }
    }

    fn transport(&self, path: PathId) -> OuterTransport {
        self.config.bond.paths[path.index()].transport
    }

    /// Whether a connection leads to the peer.
    pub(crate) fn has_connection(&self) -> bool {
        let mut routed = PathId::all().zip(&self.routes).filter(|(_, route)| route.is_some());
        routed.any(|(path, _)| self.transport(path) == OuterTransport::Tcp)
    }

    /// Whether connections carry packets, to the peer or from it.
    pub(crate) fn uses_connections(&self, now: Time) -> bool {
        let receives = self.last_connection_data.is_some_and(|last| now - last < CONNECTION_IDLE_TIMEOUT);
        receives || self.bond.current_transport() == Some(OuterTransport::Tcp)
    }

    /// Whether one ever did.
    pub(crate) fn had_connection(&self) -> bool {
        self.had_connection
    }

    /// By which route the peer is reached on a path.
    pub(crate) fn route(&self, path: PathId) -> Option<Route> {
        *self.routes.get(path.index())?
    }

    /// By which route the peer is reached on a path from now on, if by any.
    pub(crate) fn set_route(&mut self, path: PathId, route: Option<Route>, now: Time) {
        if let Some(place) = self.routes.get_mut(path.index()) {
            *place = route;
            self.had_connection |= route.is_some();
            self.bond.set_enabled(path, route.is_some(), now);
        }
    }

    /// A path begins anew, by another route, with datagrams.
    pub(crate) fn set_datagram_route(&mut self, route: Route, overhead_bytes: u32, now: Time) {
        let Some(path) = PathId::new(route.path).filter(|path| path.index() < self.path_count) else { return };
        self.set_route(path, None, now);
        self.mtus.path_down(path);
        let config = &mut self.config.bond.paths[path.index()];
        let transport = OuterTransport::Udp;
        if (config.transport, config.overhead_bytes) != (transport, overhead_bytes) {
            (config.transport, config.overhead_bytes) = (transport, overhead_bytes);
            self.bond.set_transport(path, transport, overhead_bytes, now);
            let mtu = self.config.interface_mtus.get(path.index()).copied().flatten();
            self.mtus.set_transport(path, mtu, overhead_bytes, now);
        }
        self.apply_mtu(path, now);
        self.routes[path.index()] = Some(route);
        self.configured_routes[path.index()] = Some(route);
        self.bond.set_enabled(path, true, now);
    }

    /// How the carrier of a path does now.
    pub(crate) fn update_stream_delivery(&mut self, path: PathId, state: StreamDelivery, now: Time) {
        self.bond.update_transport(path, state, now);
    }

    pub(crate) fn expire(&mut self, now: Time, delivered: &mut Vec<PacketBuffer<B>>) {
        self.resequencer.expire(now, delivered);
    }

    /// When to ask for the next datagram, or to expire; what is to be sent counts only in a session.
    pub(crate) fn deadline(&self, is_connected: bool) -> Option<Time> {
        let receivers = self.receivers.iter().filter_map(PathReceiver::deadline).chain(self.missing.deadline()).min();
        let sending = if is_connected {
            self.bond.deadline().into_iter().chain(receivers).chain(self.mtus.deadline()).min()
        } else {
            None
        };
        sending.into_iter().chain(self.resequencer.deadline()).min()
    }

    /// Whether the endpoint has to be told again that data was sent.
    pub(crate) fn is_data_sent_notice_due(&mut self, now: Time) -> bool {
        is_notice_due(&mut self.last_data_sent_notice, now)
    }

    /// Whether the endpoint has to be told again that data was received.
    pub(crate) fn is_data_received_notice_due(&mut self, now: Time) -> bool {
        is_notice_due(&mut self.last_data_received_notice, now)
    }

    pub(crate) fn suggest_rate(&mut self, path: usize, measured: Rate, now: Time) {
        if let Some(path) = PathId::all().nth(path) {
            self.bond.suggest_rate(path, measured, now);
        }
    }

    pub(crate) fn status(&self) -> RemoteStatus {
        let paths = PathId::all().zip(&self.routes).zip(&self.receivers).zip(&self.path_failures);
        let paths = paths.take(self.path_count).filter_map(|(((path, route), receiver), &failures)| {
            let (received_packets, received_bytes) = receiver.received_totals();
            let (address, status) = (route.map(|route| route.address), self.bond.status(path)?);
            Some(RemotePath { address, status, mtu: self.mtus.mtu(path), received_packets, received_bytes, failures })
        });
        let (is_connected, since) = self.connection_state;
        RemoteStatus {
            key: self.config.key,
            is_connected,
            state_since: since,
            last_heard: self.last_heard,
            losses: self.losses,
            handshakes: self.handshakes,
            restarts: self.restarts,
            paths: paths.collect(),
            outer_transport: self.bond.current_transport(),
            mtu: self.mtu(),
            queued_packets: self.bond.queued_packets(),
            dropped_packets: self.bond.dropped_packets(),
            suppressed_retransmissions: self.bond.suppressed_retransmissions(),
            repeated_packets: self.bond.repeated_packets(),
            saved_header_bytes: self.compressor.saved_bytes(),
            undecompressed_packets: self.decompressor.undecompressed_packets(),
            resequencing: *self.resequencer.statistics(),
            waiting_packets: self.resequencer.waiting_totals().0,
            reaching_shards: u32::from(self.is_reachable()),
        }
    }
}

fn new_bond<B: DerefMut<Target = Vec<u8>> + Clone>(
    config: &RemoteConfig,
    paths: &SharedPaths,
    shard: usize,
    now: Time,
) -> Result<Bond<PacketBuffer<B>>, ConfigError> {
    let mut bond = Bond::for_shard(&config.bond, paths, shard, now)?;
    bond.set_merge(PacketBuffer::merge);
    bond.set_payload_reader(|packet| PayloadKind::from_packet(packet.bytes()));
    Ok(bond)
}

fn is_notice_due(last: &mut Option<Time>, now: Time) -> bool {
    let is_due = last.is_none_or(|last| now - last >= NOTICE_INTERVAL);
    if is_due {
        *last = Some(now);
    }
    is_due
}
