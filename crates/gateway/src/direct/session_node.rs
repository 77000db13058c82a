use super::flow_lists::FlowLists;
use super::session_rules::{candidate_rules, is_permitted};
use super::session_status::{RemoteSessions, SessionsStatus};
use crate::config::{GatewayConfig, RemotePeer, SessionsConfig};
use kumade_multipath::message::Message;
use kumade_multipath::nat_session::{Incarnation, NatAction, NatMessage, NatPeer};
use kumade_net::SetupError;
use kumade_noise_session::{
    DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, HandshakePolicy, PeerError, PeerId, PresharedKey, PrivateKey,
    Route, SessionTable, TAG_BYTES,
};
use kumade_units::Time;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A datagram to be sent.
#[derive(Debug)]
pub(super) struct OutboundDatagram {
    pub(super) to: Route,
    pub(super) datagram: Vec<u8>,
}

/// What NAT sessions are between sockets and the kernel's lists of flows: keys, and the sessions with each remote gateway.
pub(super) struct SessionNode {
    config: Arc<GatewayConfig>,
    sessions: SessionsConfig,
    flow_lists: FlowLists,
    endpoint: Endpoint,
    table: SessionTable,
    remotes: Vec<RemoteGateway>,
    remote_by_peer: BTreeMap<PeerId, usize>,
    outbound: Vec<OutboundDatagram>,
    refused_datagrams: u64,
    refused_handshakes: u64,
}

struct RemoteGateway {
    /// Its site's place in the configuration.
    site_index: usize,
    peer: PeerId,
    nat: NatPeer,
    /// By path.
    routes: Vec<Option<Route>>,
    /// By which something authentic came last.
    last_route: Option<Route>,
}

impl SessionNode {
    /// `psks` are those of the remotes, in the order of the configuration. `seed` is of the system's random bytes.
    pub(super) fn new(
        (config, sessions): (Arc<GatewayConfig>, SessionsConfig),
        lists: FlowLists,
        (identity, psks): (PrivateKey, &[PresharedKey]),
        seed: [u8; 32],
        now: Time,
    ) -> Result<Self, PeerError> {
        let mut random = StdRng::from_seed(seed);
        let life = Incarnation::new(random.random()).unwrap_or(Incarnation::MIN);
        let mut endpoint = Endpoint::new(identity, HandshakePolicy::default(), Box::new(random));
        let (mut remotes, mut by_peer) = (Vec::new(), BTreeMap::new());
        for (place, peer) in sessions.peers.iter().enumerate() {
            let Some(RemotePeer { key, addresses, .. }) = peer else { continue };
            let peer = endpoint.add_peer(*key, psks.get(place).cloned().unwrap_or_default())?;
            let routes =
                addresses.iter().zip(0..).map(|(address, path)| address.map(|address| Route { path, address }));
            let routes: Vec<_> = routes.collect();
            endpoint.set_routes(peer, routes.iter().flatten().copied().collect(), now);
            by_peer.insert(peer, remotes.len());
            let nat = NatPeer::new(sessions.limits, life, now);
            remotes.push(RemoteGateway { site_index: place, peer, nat, routes, last_route: None });
        }
        Ok(SessionNode {
            config,
            sessions,
            flow_lists: lists,
            endpoint,
            table: SessionTable::new(),
            remotes,
            remote_by_peer: by_peer,
            outbound: Vec::new(),
            refused_datagrams: 0,
            refused_handshakes: 0,
        })
    }

    /// A datagram came by `from`.
    pub(super) fn receive(&mut self, datagram: &mut [u8], from: Route, now: Time) {
        match DatagramKind::from_datagram(datagram) {
            Some(DatagramKind::Data) => self.open_datagram(datagram, from, now),
            Some(_) if self.endpoint.receive(datagram, from, now).is_ok() => {}
            Some(_) => self.refused_handshakes += 1,
            None => self.refused_datagrams += 1,
        }
    }

    fn open_datagram(&mut self, datagram: &mut [u8], from: Route, now: Time) {
        let opened = self.table.open(datagram, now).ok();
        let Some((peer, opened)) = opened else {
            self.refused_datagrams += 1;
            return;
        };
        if opened.plaintext.is_empty() {
            return self.endpoint.record_keepalive_received(peer, now);
        }
        self.endpoint.record_data_received(peer, now);
        let Some(&number) = self.remote_by_peer.get(&peer) else { return };
        let SessionNode { config, sessions, remotes, .. } = self;
        let remote = &mut remotes[number];
        remote.learn_route(from);
        let message = match Message::parse(&datagram[opened.plaintext]) {
            Ok(Message::Session { kind, body }) => NatMessage::parse(kind, body).ok(),
            _ => None,
        };
        match message {
            Some(message) => {
                let place = remote.site_index;
                remote.nat.receive(message, |rule| is_permitted(config, sessions, place, rule), now);
            }
            None => remote.nat.count_malformed(),
        }
        self.perform_actions(number, Some(from), now);
    }

    /// Does what is due. `wall` is the time since the Unix epoch.
    pub(super) fn advance(&mut self, now: Time, wall: Time) {
        for number in 0..self.remotes.len() {
            let nat = &mut self.remotes[number].nat;
            if now >= nat.next_deadline() {
                nat.advance(now);
                self.perform_actions(number, None, now);
            }
        }
        self.table.expire(now);
        self.endpoint.advance(now, wall);
        while let Some(event) = self.endpoint.next_event() {
            match event {
                EndpointEvent::Transmit { to, datagram } => self.outbound.push(OutboundDatagram { to, datagram }),
                EndpointEvent::Established { peer, session, route, .. } => {
                    self.table.install(peer, session, now);
                    self.peer_connected(peer, route, now);
                }
                EndpointEvent::Unreachable { .. } => {}
                EndpointEvent::Notice(notice) => tracing::warn!("{notice}"),
            }
        }
    }

    /// There are new keys.
    fn peer_connected(&mut self, peer: PeerId, route: Route, now: Time) {
        let Some(&number) = self.remote_by_peer.get(&peer) else { return };
        self.remotes[number].learn_route(route);
        // The responder of a handshake waits for the first message.
        if self.table.has_session(peer, now) {
            self.remotes[number].nat.peer_connected(now);
        }
    }

    /// What is to be sent since the last call.
    pub(super) fn take_outbound(&mut self) -> Vec<OutboundDatagram> {
        std::mem::take(&mut self.outbound)
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let peers = self.remotes.iter().map(|remote| remote.nat.next_deadline());
        peers.chain(self.endpoint.next_deadline()).min()
    }

    /// Whether there are sessions, of whatever phase.
    pub(super) fn has_sessions(&self) -> bool {
        self.remotes.iter().any(|remote| remote.nat.session_counts() != (0, 0))
    }

    /// Asks for sessions of flows that have begun to pass undivided. Whether there are such flows.
    pub(super) fn request_sessions(&mut self, now: Time) -> Result<bool, SetupError> {
        let mut has_any = false;
        for number in 0..self.remotes.len() {
            let RemoteGateway { site_index: place, nat, .. } = &mut self.remotes[number];
            // One path leaves nothing to be divided.
            if self.config.remotes[*place].paths.len() < 2 {
                continue;
            }
            for flow in self.flow_lists.undivided_flows(*place)? {
                has_any = true;
                // Only where the flow is new are they put together.
                let rules = std::iter::once(()).flat_map(|()| candidate_rules(&self.config, *place, flow));
                nat.flow_seen(flow, rules, now);
            }
            self.perform_actions(number, None, now);
        }
        Ok(has_any)
    }

    /// Reads which sessions' flows have passed. Returns when a session will have been idle for long enough.
    pub(super) fn read_counters(&mut self, now: Time) -> Result<Option<Time>, SetupError> {
        let restored = self.flow_lists.restored_flows()?;
        for number in 0..self.remotes.len() {
            let RemoteGateway { site_index: place, nat, .. } = &mut self.remotes[number];
            for (flow, count) in self.flow_lists.divided_flows(*place)? {
                nat.flow_used(&flow, count.packets, count.bytes, now);
            }
            restored.iter().for_each(|(flow, count)| nat.packets_arrived(flow, count.packets, count.bytes, now));
            nat.counters_read(now);
            self.perform_actions(number, None, now);
        }
        Ok(self.remotes.iter().filter_map(|remote| remote.nat.next_idle_check()).min())
    }

    /// Tells all remote gateways that this one ends.
    pub(super) fn close(&mut self, now: Time) {
        for number in 0..self.remotes.len() {
            self.remotes[number].nat.close();
            self.perform_actions(number, None, now);
        }
    }

    pub(super) fn reachable_peers(&self) -> Vec<(String, bool)> {
        let name = |remote: &RemoteGateway| self.config.remotes[remote.site_index].name.clone();
        self.remotes.iter().map(|remote| (name(remote), remote.nat.is_reachable())).collect()
    }

    pub(super) fn status(&self, now: Time) -> SessionsStatus {
        let remote = |remote: &RemoteGateway| RemoteSessions {
            remote: self.config.remotes[remote.site_index].name.clone(),
            is_connected: self.table.has_session(remote.peer, now),
            is_reachable: remote.nat.is_reachable(),
            statistics: remote.nat.statistics(),
            sessions: remote.nat.sessions().collect(),
        };
        SessionsStatus {
            now,
            remotes: self.remotes.iter().map(remote).collect(),
            refused_datagrams: self.refused_datagrams,
            refused_handshakes: self.refused_handshakes,
        }
    }

    /// Carries out what the sessions with a remote gateway want done; `from` is where the last message came from.
    fn perform_actions(&mut self, number: usize, from: Option<Route>, now: Time) {
        while let Some(action) = self.remotes[number].nat.next_action() {
            let RemoteGateway { site_index: place, peer, nat, .. } = &mut self.remotes[number];
            let peer = *peer;
            match action {
                NatAction::Transmit { message, tries, is_answer } => {
                    let to = from.filter(|_| is_answer).or_else(|| self.remotes[number].next_route(tries));
                    self.send_message(number, &message, to, now);
                }
                NatAction::Divide { id, rule } => {
                    if let Err(error) = self.flow_lists.divide_flow(*place, &rule) {
                        tracing::warn!("{}: {error}", self.config.remotes[*place].name);
                        nat.divide_failed(id, now);
                    }
                }
                NatAction::StopDividing(rule) => log_failure(self.flow_lists.stop_dividing(*place, &rule)),
                NatAction::Restore { id, rule } => {
                    let result = self.flow_lists.restore_addresses(&rule);
                    nat.rule_restored(id, result.is_ok());
                    log_failure(result);
                }
                NatAction::StopRestoring(rule) => log_failure(self.flow_lists.stop_restoring_addresses(&rule)),
                NatAction::Reconnect => {
                    if self.remotes[number].next_route(0).is_some() {
                        self.endpoint.connect(peer, now);
                    }
                }
            }
        }
    }

    fn send_message(&mut self, number: usize, message: &NatMessage, to: Option<Route>, now: Time) {
        let Some(to) = to else { return };
        let peer = self.remotes[number].peer;
        let mut datagram = vec![0; HEADER_BYTES];
        message.write(&mut datagram);
        datagram.resize(datagram.len() + TAG_BYTES, 0);
        match self.table.seal(peer, to.path, &mut datagram, now) {
            Ok(sealed) => {
                self.endpoint.record_data_sent(peer, now);
                if sealed.is_rekey_due {
                    self.endpoint.connect(peer, now);
                }
                self.outbound.push(OutboundDatagram { to, datagram });
            }
            // It is sent again once there are keys.
            Err(_) => self.endpoint.connect(peer, now),
        }
    }
}

impl RemoteGateway {
    /// An authentic message came by this route: the gateway's address on that path.
    fn learn_route(&mut self, from: Route) {
        self.last_route = Some(from);
        if let Some(route) = self.routes.get_mut(usize::from(from.path)) {
            *route = Some(from);
        }
    }

    /// The route that was good last; others, one after the other, where a message was sent without an answer.
    fn next_route(&self, tries: u32) -> Option<Route> {
        let last = self.last_route.map(|last| last.path);
        let others = self.routes.iter().flatten().filter(|route| Some(route.path) != last);
        let routes: Vec<Route> = self.last_route.iter().chain(others).copied().collect();
        routes.get((tries as usize).checked_rem(routes.len())?).copied()
    }
}

/// What fails here is not there any more, or was changed by someone else.
fn log_failure(result: Result<(), SetupError>) {
    if let Err(error) = result {
        tracing::warn!("{error}");
    }
}
