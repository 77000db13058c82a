//! NAT44: mappings, and the sessions that keep them.

mod config;
mod endpoint;
mod ports;
mod tcp;

pub use config::{EndpointDependence, NatConfig, NatLimits, NatTimeouts};
pub use endpoint::Protocol;
pub(crate) use endpoint::as_v4;
pub use tcp::TcpState;

use crate::action::Direction;
use crate::counters::DropCause;
use crate::entry_tally::EntryTally;
use crate::table::{EntryId, IdleTable, keyed_hash};
use endpoint::{endpoint, set_endpoint};
use kumade_packet::{Headers, PacketEnd};
use kumade_units::{ConfigError, Span, Time};
use ports::PortPool;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

/// The state of a NAT44. A mapping exists as long as it has a session; there are never more mappings than sessions.
#[derive(Debug)]
pub(crate) struct Nat44 {
    config: NatConfig,
    mappings: IdleTable<MappingKey, NatMapping, 1>,
    ports: [PortPool<EntryId>; Protocol::PROTOCOL_COUNT],
    sessions: IdleTable<SessionKey, NatSession, QUEUE_COUNT>,
    sessions_per_host: EntryTally<Ipv4Addr>,
    /// Sessions by what of their remote endpoints filtering distinguishes.
    permissions: EntryTally<SessionKey>,
    pub(crate) created_sessions: u64,
    pub(crate) expired_sessions: u64,
    pub(crate) evicted_sessions: u64,
}

/// The inside of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct InsideEndpoint {
    protocol: Protocol,
    endpoint: SocketAddrV4,
}

/// What a mapping is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct MappingKey {
    inside: InsideEndpoint,
    /// What of a remote endpoint the kind of mapping distinguishes.
    remote: SocketAddrV4,
}

#[derive(Debug, Clone, Copy)]
struct NatMapping {
    port: u16,
    sessions: u32,
}

/// A session: what an inside endpoint exchanges with `remote`, which is [`ANY_ENDPOINT`] where it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionKey {
    mapping: EntryId,
    remote: SocketAddrV4,
}

#[derive(Debug, Clone, Copy)]
struct NatSession {
    protocol: Protocol,
    /// Of TCP only.
    state: TcpState,
}

/// A session as seen from outside the translator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionInfo {
    /// Protocol.
    pub protocol: Protocol,
    /// Address and port, or identifier, of the inside host.
    pub inside: SocketAddrV4,
    /// External address and port that the outside sees instead.
    pub external: SocketAddrV4,
    /// The remote endpoint; `None` where one session stands for all of them (UDP and ICMP with endpoint-independent
    /// filtering).
    pub remote: Option<SocketAddrV4>,
    /// State of a TCP connection.
    pub tcp: Option<TcpState>,
    /// When the session ends unless the inside sends again.
    pub expires: Time,
}

const ANY_ENDPOINT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

// The queues of sessions by idle time.
const UDP_UNANSWERED_QUEUE: usize = 0;
const UDP_ANSWERED_QUEUE: usize = 1;
const TCP_TRANSITORY_QUEUE: usize = 2;
const TCP_ESTABLISHED_QUEUE: usize = 3;
const ICMP_QUEUE: usize = 4;
const QUEUE_COUNT: usize = 5;

/// Sessions that may be evicted, by the index of their protocol: nobody outside has answered them, or they are ending.
const EVICTABLE_QUEUES: [usize; Protocol::PROTOCOL_COUNT] = [TCP_TRANSITORY_QUEUE, UDP_UNANSWERED_QUEUE, ICMP_QUEUE];
/// How many sessions may be evicted to free a port.
const MAX_EVICTIONS: usize = 8;

impl Nat44 {
    pub(crate) fn new(config: NatConfig, seed: u128) -> Result<Self, ConfigError> {
        config.check()?;
        let (limits, timeouts) = (config.limits, config.timeouts);
        let max_sessions = limits.max_sessions as usize;
        let ports = |protocol: Protocol| {
            let own =
                u128::from(keyed_hash(seed, &("ports", protocol))) << 64 | u128::from(keyed_hash(seed, &protocol));
            PortPool::new(config.first_port, config.last_port, own)
        };
        let mut idle = [timeouts.udp; QUEUE_COUNT];
        (idle[TCP_TRANSITORY_QUEUE], idle[TCP_ESTABLISHED_QUEUE]) = (timeouts.tcp_transitory, timeouts.tcp_established);
        idle[ICMP_QUEUE] = timeouts.icmp;
        Ok(Nat44 {
            config,
            mappings: IdleTable::new(seed, max_sessions, [Span::MAX]),
            ports: [Protocol::Tcp, Protocol::Udp, Protocol::Icmp].map(ports),
            sessions: IdleTable::new(seed, max_sessions, idle),
            sessions_per_host: EntryTally::new(seed, max_sessions),
            permissions: EntryTally::new(seed, max_sessions),
            created_sessions: 0,
            expired_sessions: 0,
            evicted_sessions: 0,
        })
    }

    pub(crate) fn external_address(&self) -> Ipv4Addr {
        self.config.external
    }

    pub(crate) fn config(&self) -> &NatConfig {
        &self.config
    }

    /// The numbers of sessions, mappings and inside hosts.
    pub(crate) fn occupancy(&self) -> (usize, usize, usize) {
        (self.sessions.len(), self.mappings.len(), self.sessions_per_host.key_count())
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionInfo> + '_ {
        self.sessions.ids().map(|id| {
            let (key, session) = (self.sessions.key(id), self.sessions.value(id));
            let inside = self.mappings.key(key.mapping).inside;
            SessionInfo {
                protocol: session.protocol,
                inside: inside.endpoint,
                external: SocketAddrV4::new(self.config.external, self.mappings.value(key.mapping).port),
                remote: Some(key.remote).filter(|remote| *remote != ANY_ENDPOINT),
                tcp: (session.protocol == Protocol::Tcp).then_some(session.state),
                expires: self.sessions.deadline(id),
            }
        })
    }

    /// Ends the sessions whose idle time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        while let Some(id) = self.sessions.expired_entry(now) {
            self.end_session(id);
            self.expired_sessions += 1;
        }
    }

    /// Gives a packet from the inside its external source. Opens a session where there is none, and starts the idle time
    /// of its session anew.
    pub(crate) fn translate_outbound(&mut self, headers: &mut Headers, now: Time) -> Result<(), DropCause> {
        let inside = self.inside_endpoint(headers)?;
        let remote = endpoint(headers, PacketEnd::Destination).ok_or(DropCause::Unsupported)?;
        let mapping = self.mappings.find(&self.mapping_key(inside, remote));
        let session = match mapping.and_then(|mapping| self.find_session(mapping, remote)) {
            Some(session) => session,
            None => self.open_session(inside, remote, now)?,
        };
        self.update_session(session, Direction::Outbound, headers, now);
        set_endpoint(headers, PacketEnd::Source, self.external_endpoint(self.sessions.key(session).mapping));
        Ok(())
    }

    /// Gives a packet from the outside its inside destination, and returns its session, if it has one, for
    /// [`Nat44::confirm_session`].
    pub(crate) fn translate_inbound(&self, headers: &mut Headers) -> Result<Option<EntryId>, DropCause> {
        let protocol = translatable_protocol(headers, Direction::Inbound)?;
        let (source, destination) = (endpoint(headers, PacketEnd::Source), endpoint(headers, PacketEnd::Destination));
        let (source, destination) = source.zip(destination).ok_or(DropCause::Unsupported)?;
        let mapping = self.find_mapping(protocol, destination).ok_or(DropCause::NoMapping)?;
        if !self.lets_in(mapping, source) {
            return Err(DropCause::Filtered);
        }
        set_endpoint(headers, PacketEnd::Destination, self.mappings.key(mapping).inside.endpoint);
        Ok(self.find_session(mapping, source))
    }

    /// Notes that a packet from the outside is forwarded. RFC 4787 REQ-6: only packets from the inside start the idle
    /// time anew, except where the session changes its state.
    pub(crate) fn confirm_session(&mut self, session: EntryId, headers: &Headers, now: Time) {
        self.update_session(session, Direction::Inbound, headers, now);
    }

    /// Translates the destination of the packet that an ICMP error from the inside quotes: one that came from the
    /// outside (RFC 5508 REQ-5). Neither opens nor refreshes a session (REQ-6).
    pub(crate) fn translate_outbound_error(&self, quoted: &mut Headers) -> Result<(), DropCause> {
        let inside = InsideEndpoint {
            protocol: Protocol::from_headers(quoted).ok_or(DropCause::IcmpError)?,
            endpoint: endpoint(quoted, PacketEnd::Destination).ok_or(DropCause::IcmpError)?,
        };
        let remote = endpoint(quoted, PacketEnd::Source).ok_or(DropCause::IcmpError)?;
        let mapping = self.mappings.find(&self.mapping_key(inside, remote)).ok_or(DropCause::IcmpError)?;
        self.check_remote(mapping, remote)?;
        set_endpoint(quoted, PacketEnd::Destination, self.external_endpoint(mapping));
        Ok(())
    }

    /// Translates the source of the packet that an ICMP error from the outside quotes: one that came from the inside
    /// (RFC 5508 REQ-4). Neither opens nor refreshes a session (REQ-6).
    pub(crate) fn translate_inbound_error(&self, quoted: &mut Headers) -> Result<(), DropCause> {
        let protocol = Protocol::from_headers(quoted).ok_or(DropCause::IcmpError)?;
        let external = endpoint(quoted, PacketEnd::Source).ok_or(DropCause::IcmpError)?;
        let mapping = self.find_mapping(protocol, external).ok_or(DropCause::IcmpError)?;
        self.check_remote(mapping, endpoint(quoted, PacketEnd::Destination).ok_or(DropCause::IcmpError)?)?;
        set_endpoint(quoted, PacketEnd::Source, self.mappings.key(mapping).inside.endpoint);
        Ok(())
    }

    /// Errors are let in and out only about packets that are.
    fn check_remote(&self, mapping: EntryId, remote: SocketAddrV4) -> Result<(), DropCause> {
        if self.lets_in(mapping, remote) { Ok(()) } else { Err(DropCause::IcmpError) }
    }

    /// Whether packets from there are let in.
    fn lets_in(&self, mapping: EntryId, remote: SocketAddrV4) -> bool {
        self.config.filtering == EndpointDependence::EndpointIndependent
            || self.permissions.count(&self.permission(mapping, remote)) > 0
    }

    fn permission(&self, mapping: EntryId, remote: SocketAddrV4) -> SessionKey {
        let protocol = self.mappings.key(mapping).inside.protocol;
        SessionKey { mapping, remote: distinguished_part(protocol, self.config.filtering, remote) }
    }

    fn mapping_key(&self, inside: InsideEndpoint, remote: SocketAddrV4) -> MappingKey {
        MappingKey { inside, remote: distinguished_part(inside.protocol, self.config.mapping, remote) }
    }

    fn inside_endpoint(&self, headers: &Headers) -> Result<InsideEndpoint, DropCause> {
        let protocol = translatable_protocol(headers, Direction::Outbound)?;
        let endpoint = endpoint(headers, PacketEnd::Source).ok_or(DropCause::Unsupported)?;
        if !self.config.inside.contains(endpoint.ip()) || *endpoint.ip() == self.config.external {
            return Err(DropCause::SpoofedSource);
        }
        Ok(InsideEndpoint { protocol, endpoint })
    }

    fn find_mapping(&self, protocol: Protocol, external: SocketAddrV4) -> Option<EntryId> {
        let owner = self.ports[protocol.index()].port_owner(external.port());
        owner.filter(|_| *external.ip() == self.config.external)
    }

    fn external_endpoint(&self, mapping: EntryId) -> SocketAddrV4 {
        SocketAddrV4::new(self.config.external, self.mappings.value(mapping).port)
    }

    fn find_session(&self, mapping: EntryId, remote: SocketAddrV4) -> Option<EntryId> {
        let protocol = self.mappings.key(mapping).inside.protocol;
        self.sessions.find(&SessionKey { mapping, remote: self.relevant_remote(protocol, remote) })
    }

    /// What of a remote endpoint distinguishes sessions: all of it where its state counts, nothing where one timer is enough, and what permission
    /// depends on.
    fn relevant_remote(&self, protocol: Protocol, remote: SocketAddrV4) -> SocketAddrV4 {
        match protocol {
            Protocol::Tcp => remote,
            _ => distinguished_part(protocol, self.config.filtering, remote),
        }
    }

    /// Opens a session, and a mapping if need be.
    fn open_session(&mut self, inside: InsideEndpoint, remote: SocketAddrV4, now: Time) -> Result<EntryId, DropCause> {
        let (protocol, host) = (inside.protocol, *inside.endpoint.ip());
        if self.sessions_per_host.count(&host) >= self.config.limits.max_sessions_per_host {
            return Err(DropCause::HostLimit);
        }
        if self.sessions.is_full() {
            self.evict_session(&EVICTABLE_QUEUES).ok_or(DropCause::TableFull)?;
        }
        let mapping_key = self.mapping_key(inside, remote);
        let mapping = match self.mappings.find(&mapping_key) {
            Some(mapping) => mapping,
            None => self.add_mapping(mapping_key, now)?,
        };
        let queue = EVICTABLE_QUEUES[protocol.index()];
        let key = SessionKey { mapping, remote: self.relevant_remote(protocol, remote) };
        let session = NatSession { protocol, state: TcpState::Opening };
        let id = self.sessions.insert(key, session, queue, now).ok_or(DropCause::TableFull)?;
        self.mappings.value_mut(mapping).sessions += 1;
        self.sessions_per_host.add_entry(host);
        self.permissions.add_entry(self.permission(mapping, remote));
        self.created_sessions += 1;
        Ok(id)
    }

    fn add_mapping(&mut self, key: MappingKey, now: Time) -> Result<EntryId, DropCause> {
        let protocol = key.inside.protocol.index();
        for _ in 0..MAX_EVICTIONS {
            if let Some(port) = self.ports[protocol].draw() {
                let mapping = self.mappings.insert(key, NatMapping { port, sessions: 0 }, 0, now);
                let mapping = mapping.ok_or(DropCause::TableFull)?;
                self.ports[protocol].assign_port(port, mapping);
                return Ok(mapping);
            }
            self.evict_session(&[EVICTABLE_QUEUES[protocol]]).ok_or(DropCause::NoPort)?;
        }
        Err(DropCause::NoPort)
    }

    /// Ends the session that has been idle for longest, of those in these queues.
    fn evict_session(&mut self, queues: &[usize]) -> Option<()> {
        let oldest = queues.iter().filter_map(|queue| self.sessions.oldest_in_queue(*queue));
        let id = oldest.min_by_key(|id| self.sessions.last_refresh(*id))?;
        self.end_session(id);
        self.evicted_sessions += 1;
        Some(())
    }

    /// Ends a session, and its mapping with its last one.
    fn end_session(&mut self, id: EntryId) {
        let (SessionKey { mapping, remote }, session) = self.sessions.remove(id);
        let host = *self.mappings.key(mapping).inside.endpoint.ip();
        self.sessions_per_host.remove_entry(&host);
        self.permissions.remove_entry(&self.permission(mapping, remote));
        let NatMapping { sessions, port } = self.mappings.value_mut(mapping);
        *sessions -= 1;
        if *sessions == 0 {
            self.ports[session.protocol.index()].release_port(*port);
            self.mappings.remove(mapping);
        }
    }

    /// Follows a packet's session: its state, and its idle time.
    fn update_session(&mut self, id: EntryId, direction: Direction, headers: &Headers, now: Time) {
        let session = self.sessions.value_mut(id);
        if let Some(tcp) = headers.tcp() {
            session.state = session.state.after_segment(direction, tcp);
        }
        let NatSession { protocol, state } = *session;
        let before = self.sessions.queue(id);
        let queue = match (protocol, state) {
            (Protocol::Tcp, TcpState::Established { .. }) => TCP_ESTABLISHED_QUEUE,
            (Protocol::Tcp, _) => TCP_TRANSITORY_QUEUE,
            (Protocol::Udp, _) if direction == Direction::Inbound => UDP_ANSWERED_QUEUE,
            (Protocol::Udp, _) => before,
            (Protocol::Icmp, _) => ICMP_QUEUE,
        };
        if direction == Direction::Outbound || queue != before {
            self.sessions.refresh(id, queue, now);
        }
    }
}

/// The part of a remote endpoint that counts. An ICMP identifier belongs to both ends, so that it tells nothing.
fn distinguished_part(protocol: Protocol, dependence: EndpointDependence, remote: SocketAddrV4) -> SocketAddrV4 {
    match (dependence, protocol) {
        (EndpointDependence::EndpointIndependent, _) => ANY_ENDPOINT,
        (EndpointDependence::AddressDependent, _) | (_, Protocol::Icmp) => SocketAddrV4::new(*remote.ip(), 0),
        (EndpointDependence::AddressAndPortDependent, _) => remote,
    }
}

/// The protocol of a packet that can be translated in this direction. Of ICMP these are queries of the inside and replies
/// to them (RFC 5508 REQ-1).
fn translatable_protocol(headers: &Headers, direction: Direction) -> Result<Protocol, DropCause> {
    let is_request = |kind| matches!(kind, 8 | 13 | 15 | 17);
    match (Protocol::from_headers(headers), headers.icmp()) {
        (Some(Protocol::Icmp), Some(icmp)) if is_request(icmp.kind) == (direction == Direction::Outbound) => {
            Ok(Protocol::Icmp)
        }
        (Some(Protocol::Icmp), _) => Err(DropCause::Unsupported),
        (Some(protocol), _) if headers.transport.is_some() && headers.source.is_ipv4() => Ok(protocol),
        _ => Err(DropCause::Unsupported),
    }
}

/// The source of an ICMP error that leaves through a NAT44 (RFC 5508 REQ-5 c): the external address.
pub(crate) fn set_error_source(headers: &mut Headers, external: Ipv4Addr) {
    headers.set_address(PacketEnd::Source, IpAddr::V4(external));
}
