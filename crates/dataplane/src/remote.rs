use crate::config::{NodeError, RemoteConfig};
use crate::outer_headers::OuterHeaders;
use crate::packet_buffer::PacketBuffer;
use crate::path_mtus::PathMtus;
use crate::statistics::{RemotePath, RemoteStatus};
use kumade_link::Label;
use kumade_multipath::message::{Data, DataHeader, Message, Probe};
use kumade_multipath::{
    Arrival, Bond, CarrierKind, CarrierState, Class, DelayRange, FlowControl, Outgoing, PathEvent, PathId,
    PathReceiver, PathState, Resequencer, SharedPaths, Transmission,
};
use kumade_noise_session::{PeerId, Route};
use kumade_packet::{Ecn, Payload};
use kumade_units::{ConfigError, Rate, Span, Time};
use std::ops::DerefMut;

/// What a probe is padded to: a small packet, since it is to tell whether a path passes anything.
const PROBE_BYTES: u16 = 32;
/// Connections that bring no packet for so long are not used by the peer.
const CONNECTION_SILENCE: Span = Span::from_secs(1);
/// The endpoint needs to be told of data no more often.
const TELL_INTERVAL: Span = Span::from_secs(1);

/// A datagram before it is sealed.
#[derive(Debug)]
pub(crate) struct Unsealed<B> {
    pub(crate) path: PathId,
    pub(crate) to: Route,
    pub(crate) ecn: Ecn,
    pub(crate) datagram: PacketBuffer<B>,
}

/// All that belongs to one peer.
pub(crate) struct Remote<B> {
    config: RemoteConfig,
    /// What the shards of the node have in common.
    paths: SharedPaths,
    /// Which of them this is.
    shard: usize,
    pub(crate) peer: PeerId,
    bond: Bond<PacketBuffer<B>>,
    resequencer: Resequencer<PacketBuffer<B>>,
    receivers: Vec<PathReceiver>,
    mtus: PathMtus,
    routes: Vec<Option<Route>>,
    /// Connections led to it at some time.
    had_connections: bool,
    /// When one last brought a packet.
    connection_data: Option<Time>,
    instance: Option<u64>,
    /// Whether there is a session, and since when.
    connected: (bool, Time),
    handshakes: u64,
    restarts: u64,
    sent_told: Option<Time>,
    received_told: Option<Time>,
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
        let bond = bond(&config, &paths, shard, now)?;
        let mtus = PathMtus::new(&config.interface_mtus, &config.bond, now);
        let mut remote = Remote {
            peer,
            bond,
            resequencer: Resequencer::new(config.resequencer),
            receivers: vec![PathReceiver::new(); routes.len()],
            routes,
            had_connections: false,
            connection_data: None,
            instance: None,
            connected: (false, now),
            handshakes: 0,
            restarts: 0,
            sent_told: None,
            received_told: None,
            mtus,
            config,
            paths,
            shard,
        };
        remote.enable_known(now);
        Ok(remote)
    }

    /// What another shard begins with.
    pub(crate) fn seed(&self) -> (RemoteConfig, PeerId, SharedPaths) {
        (self.config.clone(), self.peer, self.paths.clone())
    }

    /// A session was made with this life of the peer. Returns whether it is another one than before: then both ends number from
    /// the beginning.
    pub(crate) fn note_session(&mut self, instance: u64) -> bool {
        self.handshakes += 1;
        self.instance.replace(instance).is_some_and(|before| before != instance)
    }

    /// The paths as they are known, for bonds that begin anew.
    pub(crate) fn renewed_paths(&mut self, now: Time) -> SharedPaths {
        for (path, config) in PathId::all().zip(&mut self.config.bond.paths) {
            config.rate = self.bond.status(path).map(|status| status.rate).or(config.rate);
        }
        SharedPaths::new(&self.config.bond.paths, self.paths.shards(), now)
    }

    /// What the shards of the node have in common.
    pub(crate) fn paths(&self) -> &SharedPaths {
        &self.paths
    }

    /// The peer has restarted.
    pub(crate) fn begin_anew(&mut self, paths: SharedPaths, now: Time, delivered: &mut Vec<PacketBuffer<B>>) {
        self.restarts += 1;
        self.resequencer.flush(now, delivered);
        self.resequencer = Resequencer::new(self.config.resequencer);
        self.receivers.fill(PathReceiver::new());
        // As when it was made first, so that nothing is out of range.
        if let Ok(bond) = bond(&self.config, &paths, self.shard, now) {
            (self.bond, self.paths) = (bond, paths);
            PathId::all().zip(&self.routes).for_each(|(path, _)| self.mtus.down(path));
            self.enable_known(now);
        }
    }

    /// Whether a path carries packets to the peer.
    pub(crate) fn is_reached(&self) -> bool {
        self.connected.0 && self.bond.is_up()
    }

    fn enable_known(&mut self, now: Time) {
        for (path, route) in PathId::all().zip(&self.routes) {
            self.bond.enable(path, route.is_some(), now);
            self.bond.set_max_bytes(path, self.mtus.limit(path), now);
        }
    }

    /// Whether packets wait until a path has room.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.bond.queued() > 0
    }

    /// Takes note of whether there is a session.
    pub(crate) fn note_connected(&mut self, is_connected: bool, now: Time) {
        if self.connected.0 != is_connected {
            self.connected = (is_connected, now);
        }
    }

    /// Where the peer is reached on each path, as far as known.
    pub(crate) fn routes(&self) -> impl Iterator<Item = Route> {
        self.routes.iter().flatten().copied()
    }

    /// A packet for a network of the peer.
    pub(crate) fn send(&mut self, packet: PacketBuffer<B>, label: Label, class: Class, now: Time) {
        self.bond.offer(packet, label, class, now);
    }

    /// See [`Bond::max_large_packet`].
    pub(crate) fn max_large_packet(&self) -> Option<usize> {
        self.bond.max_large_packet()
    }

    /// Ends what waits for paths that have failed.
    pub(crate) fn follow_paths(&mut self, now: Time, delivered: &mut Vec<PacketBuffer<B>>) {
        while let Some(event) = self.bond.poll_event() {
            match event {
                PathEvent::Up(path) => self.mtus.up(path, now),
                PathEvent::Down(path) => {
                    // Paths are judged in both directions together.
                    self.resequencer.path_down(path, now, delivered);
                    self.mtus.down(path);
                    self.apply_mtu(path, now);
                }
            }
        }
    }

    /// The next datagram that is due.
    pub(crate) fn next(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<Unsealed<B>> {
        let datagram = self.report(now, buffers).or_else(|| self.mtu_message(now, buffers));
        datagram.or_else(|| self.transmission(now, buffers))
    }

    fn report(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<Unsealed<B>> {
        for (path, receiver) in PathId::all().zip(&mut self.receivers) {
            if let (Some(report), Some(to)) = (receiver.poll(now), self.routes[path.index()]) {
                let datagram = written(&Message::Report(report), buffers);
                return Some(Unsealed { path, to, ecn: Ecn::NotEct, datagram });
            }
        }
        None
    }

    /// An answer to a probe of a path's MTU, or a probe.
    fn mtu_message(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<Unsealed<B>> {
        while let Some((path, number)) = self.mtus.take_answer() {
            if let Some(to) = self.routes[path.index()] {
                return Some(Unsealed {
                    path,
                    to,
                    ecn: Ecn::NotEct,
                    datagram: written(&Message::MtuAnswer(number), buffers),
                });
            }
        }
        if !self.mtus.is_due(now) {
            return None;
        }
        for path in PathId::all().take(self.routes.len()) {
            let round_trip = self.bond.status(path).and_then(|status| status.round_trip);
            let query = self.mtus.poll(path, round_trip, now);
            self.apply_mtu(path, now);
            if let (Some(query), Some(to)) = (query, self.routes[path.index()]) {
                return Some(Unsealed {
                    path,
                    to,
                    ecn: Ecn::NotEct,
                    datagram: written(&Message::MtuProbe(query), buffers),
                });
            }
        }
        None
    }

    /// The kernel has refused a datagram to the peer, because it is too long for the interface.
    pub(crate) fn refused(&mut self, to: Route, bytes: usize, now: Time) {
        if let Some(path) = PathId::new(to.path) {
            self.mtus.refused(path, bytes, now);
            self.apply_mtu(path, now);
        }
    }

    /// Has only those packets sent on a path that it passes.
    fn apply_mtu(&mut self, path: PathId, now: Time) {
        self.bond.set_max_bytes(path, self.mtus.limit(path), now);
    }

    /// The longest packet of hosts that all paths pass, in bytes, as far as is known or expected.
    pub(crate) fn mtu(&self) -> Option<u32> {
        self.mtus.least().map(|mtu| mtu.min(self.config.max_packet))
    }

    /// A packet that is too long for all paths. With it the ICMP error that tells its host, once it is certain what passes.
    pub(crate) fn take_oversized(&mut self) -> Option<Option<Vec<u8>>> {
        let packet = self.bond.take_oversized()?;
        let is_certain = PathId::all().take(self.routes.len()).all(|path| {
            let is_up = self.bond.status(path).is_some_and(|status| status.state == PathState::Up);
            !is_up || self.mtus.is_settled(path)
        });
        let mtu = self.mtu().filter(|_| is_certain);
        Some(mtu.and_then(|mtu| kumade_packet::too_big(packet.bytes(), mtu)))
    }

    fn transmission(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<Unsealed<B>> {
        loop {
            let Transmission { path, counter, packet, .. } = self.bond.next(now)?;
            // A path without an address is not enabled.
            let Some(to) = self.routes[path.index()] else { continue };
            let (ecn, datagram) = match packet {
                None => {
                    let probe = Message::Probe(Probe { counter: counter as u32, size: PROBE_BYTES });
                    (Ecn::NotEct, written(&probe, buffers))
                }
                Some(packet) => wrapped(packet, path),
            };
            self.mtus.sent(path, datagram.len());
            return Some(Unsealed { path, to, ecn, datagram });
        }
    }

    /// The text of an authentic datagram that came over a path. Returns whether it was a message.
    pub(crate) fn receive(
        &mut self,
        text: &[u8],
        path: PathId,
        outer: OuterHeaders,
        now: Time,
        buffers: &dyn Fn(usize) -> B,
        delivered: &mut Vec<PacketBuffer<B>>,
    ) -> bool {
        if path.index() >= self.routes.len() {
            return false;
        }
        self.follow(path, &outer, text.len(), now);
        let OuterHeaders { ecn, size, arrived, .. } = outer;
        let receiver = &mut self.receivers[path.index()];
        match Message::parse(text) {
            Ok(Message::Data(Data { header, predecessors, packet })) => {
                if outer.carrier == CarrierKind::Connections {
                    self.connection_data = Some(now);
                }
                let counter = receiver.whole_counter(header.counter);
                receiver.receive(counter, size, header.answer, arrived);
                match decapsulated(packet, ecn, buffers) {
                    Some(packet) => {
                        let packet = packet.with_segments(header.segment_bytes);
                        let bytes = packet.len() as u32;
                        let arrival = Arrival { path, counter, header, predecessors, bytes };
                        self.resequencer.receive(arrival, packet, now, delivered);
                    }
                    None => self.resequencer.passed(path, counter, now, delivered),
                }
            }
            Ok(Message::Probe(probe)) => {
                let counter = receiver.whole_counter(probe.counter);
                receiver.receive(counter, size, true, arrived);
                self.resequencer.passed(path, counter, now, delivered);
            }
            Ok(Message::Report(report)) => {
                self.bond.report(path, &report, now);
                let most = self.bond.status(path).and_then(|status| status.round_trip);
                let most = most.map(|most| most * self.max_delay_round_trips());
                self.resequencer.set_delay(path, most.map(|most| DelayRange { least: Span::ZERO, most }));
            }
            Ok(Message::MtuProbe(query)) => self.mtus.asked(path, query.number),
            Ok(Message::MtuAnswer(number)) => {
                self.mtus.answered(path, number, now);
                self.apply_mtu(path, now);
            }
            Ok(Message::Session { .. }) | Err(_) => return false,
        }
        true
    }

    /// How many round trips one direction takes at most: one, as long as both directions do; and two more where what is lost is
    /// repeated, once that is noticed.
    fn max_delay_round_trips(&self) -> i64 {
        let repeats = self.config.bond.paths.iter().any(|path| path.flow_control == FlowControl::Backpressure);
        if repeats { 3 } else { 1 }
    }

    /// The peer is where its last authentic datagram came from, with a text of so many bytes.
    fn follow(&mut self, path: PathId, outer: &OuterHeaders, text: usize, now: Time) {
        let from = outer.from;
        let route = &mut self.routes[path.index()];
        if *route == Some(from) {
            return;
        }
        let before = route.replace(from);
        if before.is_none_or(|before| before.address.is_ipv4() != from.address.is_ipv4())
            || self.flow_control(path) != outer.carrier.into()
        {
            self.follow_carrier(path, outer, text, now);
        }
        match before {
            None => self.bond.enable(path, true, now),
            // Another address is another path, another port is not.
            Some(before) if before.address.ip() != from.address.ip() => {
                self.mtus.down(path);
                if self.bond.status(path).is_some_and(|status| status.state == PathState::Up) {
                    self.mtus.up(path, now);
                }
                self.apply_mtu(path, now);
            }
            Some(_) => {}
        }
    }

    /// A path has what carried this, and what that adds to each packet.
    fn follow_carrier(&mut self, path: PathId, outer: &OuterHeaders, text: usize, now: Time) {
        let headers = outer.size.saturating_sub((text + kumade_noise_session::OVERHEAD) as u32);
        let (flow_control, overhead_bytes) = (outer.carrier.into(), headers + crate::OVERHEAD);
        let interface_mtu = self.config.interface_mtus.get(path.index()).copied().flatten();
        let config = &mut self.config.bond.paths[path.index()];
        let before = (config.flow_control, config.overhead_bytes);
        if before != (flow_control, overhead_bytes) {
            (config.flow_control, config.overhead_bytes) = (flow_control, overhead_bytes);
            self.bond.set_flow_control(path, flow_control, overhead_bytes, now);
            let mtu = interface_mtu.filter(|_| outer.carrier == CarrierKind::Datagrams);
            self.mtus.set_carrier(path, mtu, overhead_bytes, now);
            if self.bond.status(path).is_some_and(|status| status.state == PathState::Up) {
                self.mtus.up(path, now);
            }
            self.apply_mtu(path, now);
        }
    }

    fn flow_control(&self, path: PathId) -> FlowControl {
        self.config.bond.paths[path.index()].flow_control
    }

    /// Whether a connection leads to the peer.
    pub(crate) fn has_connection(&self) -> bool {
        let mut routed = PathId::all().zip(&self.routes).filter(|(_, route)| route.is_some());
        routed.any(|(path, _)| self.flow_control(path) == FlowControl::Backpressure)
    }

    /// Whether connections carry packets, to the peer or from it.
    pub(crate) fn uses_connections(&self, now: Time) -> bool {
        let receives = self.connection_data.is_some_and(|last| now - last < CONNECTION_SILENCE);
        receives || self.bond.carrier() == Some(CarrierKind::Connections)
    }

    /// Whether one ever did.
    pub(crate) fn had_connections(&self) -> bool {
        self.had_connections
    }

    /// By which route the peer is reached on a path.
    pub(crate) fn route(&self, path: PathId) -> Option<Route> {
        *self.routes.get(path.index())?
    }

    /// By which route the peer is reached on a path from now on, if by any.
    pub(crate) fn set_route(&mut self, path: PathId, route: Option<Route>, now: Time) {
        if let Some(place) = self.routes.get_mut(path.index()) {
            *place = route;
            self.had_connections |= route.is_some();
            self.bond.enable(path, route.is_some(), now);
        }
    }

    /// How the carrier of a path does now.
    pub(crate) fn set_carrier(&mut self, path: PathId, state: CarrierState, now: Time) {
        self.bond.set_carrier(path, state, now);
    }

    pub(crate) fn expire(&mut self, now: Time, delivered: &mut Vec<PacketBuffer<B>>) {
        self.resequencer.expire(now, delivered);
    }

    /// When to ask for the next datagram, or to expire; what is to be sent counts only in a session.
    pub(crate) fn deadline(&self, is_connected: bool) -> Option<Time> {
        let receivers = self.receivers.iter().filter_map(PathReceiver::deadline).min();
        let sending = if is_connected {
            self.bond.deadline().into_iter().chain(receivers).chain(self.mtus.deadline()).min()
        } else {
            None
        };
        sending.into_iter().chain(self.resequencer.deadline()).min()
    }

    /// Whether the endpoint has to be told again that data was sent.
    pub(crate) fn tells_sent(&mut self, now: Time) -> bool {
        tells(&mut self.sent_told, now)
    }

    /// Whether the endpoint has to be told again that data was received.
    pub(crate) fn tells_received(&mut self, now: Time) -> bool {
        tells(&mut self.received_told, now)
    }

    pub(crate) fn suggest_rate(&mut self, path: usize, measured: Rate, now: Time) {
        if let Some(path) = PathId::all().nth(path) {
            self.bond.suggest_rate(path, measured, now);
        }
    }

    pub(crate) fn status(&self) -> RemoteStatus {
        let paths = PathId::all().zip(&self.routes).zip(&self.receivers);
        let paths = paths.filter_map(|((path, route), receiver)| {
            let (received_packets, received_bytes) = receiver.received();
            let (address, status) = (route.map(|route| route.address), self.bond.status(path)?);
            Some(RemotePath { address, status, mtu: self.mtus.mtu(path), received_packets, received_bytes })
        });
        let (is_connected, since) = self.connected;
        RemoteStatus {
            key: self.config.key,
            is_connected,
            since,
            handshakes: self.handshakes,
            restarts: self.restarts,
            paths: paths.collect(),
            carrier: self.bond.carrier(),
            mtu: self.mtu(),
            queued: self.bond.queued(),
            dropped: self.bond.dropped(),
            repeated: self.bond.repeated(),
            resequencing: *self.resequencer.statistics(),
            waiting: self.resequencer.waiting().0,
            shards: u32::from(self.is_reached()),
        }
    }
}

fn bond<B: DerefMut<Target = Vec<u8>> + Clone>(
    config: &RemoteConfig,
    paths: &SharedPaths,
    shard: usize,
    now: Time,
) -> Result<Bond<PacketBuffer<B>>, ConfigError> {
    let mut bond = Bond::sharing(&config.bond, paths, shard, now)?;
    bond.merge_by(PacketBuffer::merge);
    bond.drop_useless_by(|packet| Payload::of(packet.bytes()));
    Ok(bond)
}

fn tells(last: &mut Option<Time>, now: Time) -> bool {
    let is_due = last.is_none_or(|last| now - last >= TELL_INTERVAL);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// The ECN field of a packet, and the packet with what stands before it.
fn wrapped<B>(mut packet: Outgoing<PacketBuffer<B>>, path: PathId) -> (Ecn, PacketBuffer<B>)
where
    B: DerefMut<Target = Vec<u8>>,
{
    if packet.marked {
        kumade_packet::ecn::mark(packet.content.bytes_mut());
    }
    let ecn = kumade_packet::ecn::read(packet.content.bytes());
    let predecessors = packet.predecessors(path);
    let header = DataHeader { segment_bytes: packet.content.segment_bytes(), ..packet.header };
    (ecn, packet.content.wrap(&header, predecessors))
}

/// The packet as it leaves the tunnel; `None` where it has to be dropped for its ECN field.
fn decapsulated<B>(packet: &[u8], outer: Ecn, buffers: &dyn Fn(usize) -> B) -> Option<PacketBuffer<B>>
where
    B: DerefMut<Target = Vec<u8>>,
{
    let inner = kumade_packet::ecn::read(packet);
    let field = inner.decapsulated(outer)?;
    let mut buffer = buffers(packet.len());
    buffer.extend_from_slice(packet);
    if field != inner {
        kumade_packet::ecn::set(&mut buffer, field);
    }
    Some(PacketBuffer::new(buffer, 0))
}

/// A message with room for what a datagram has besides.
fn written<B: DerefMut<Target = Vec<u8>>>(message: &Message<'_>, buffers: &dyn Fn(usize) -> B) -> PacketBuffer<B> {
    let bytes = match message {
        Message::MtuProbe(query) => query.size,
        _ => PROBE_BYTES,
    };
    let mut buffer = buffers(kumade_noise_session::OVERHEAD + usize::from(bytes));
    buffer.resize(kumade_noise_session::HEADER, 0);
    message.write(&mut buffer);
    let end = buffer.len() + kumade_noise_session::TAG;
    buffer.resize(end, 0);
    PacketBuffer::new(buffer, 0)
}
