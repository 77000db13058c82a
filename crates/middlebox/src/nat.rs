//! NAT44: mappings, and the sessions that keep them.

mod config;
mod endpoint;
mod ports;
mod tcp;

pub use config::{Filtering, Limits, NatConfig, Timeouts};
pub use endpoint::Protocol;
pub(crate) use endpoint::v4;
pub use tcp::TcpState;

use crate::action::Direction;
use crate::counters::DropCause;
use crate::table::{Id, Table, hash};
use crate::tally::Tally;
use endpoint::{endpoint, set_endpoint};
use kumade_packet::{End, Headers};
use kumade_units::{ConfigError, Span, Time};
use ports::Ports;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

/// The state of a NAT44. A mapping exists as long as it has a session; there are never more mappings than sessions.
#[derive(Debug)]
pub(crate) struct Nat {
    config: NatConfig,
    mappings: Table<Inside, Mapping, 1>,
    ports: [Ports<Id>; Protocol::COUNT],
    sessions: Table<SessionKey, Session, QUEUES>,
    sessions_per_host: Tally<Ipv4Addr>,
    pub(crate) created: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
}

/// The inside of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Inside {
    protocol: Protocol,
    endpoint: SocketAddrV4,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    port: u16,
    sessions: u32,
}

/// A session: what an inside endpoint exchanges with `remote`, which is [`ANY`] where it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionKey {
    mapping: Id,
    remote: SocketAddrV4,
}

#[derive(Debug, Clone, Copy)]
struct Session {
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

const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

// The queues of sessions by idle time.
const UDP_UNANSWERED: usize = 0;
const UDP_ANSWERED: usize = 1;
const TCP_TRANSITORY: usize = 2;
const TCP_ESTABLISHED: usize = 3;
const ICMP: usize = 4;
const QUEUES: usize = 5;

/// Sessions that may be evicted, by the index of their protocol: nobody outside has answered them, or they are ending.
const EVICTABLE: [usize; Protocol::COUNT] = [TCP_TRANSITORY, UDP_UNANSWERED, ICMP];
/// How many sessions may be evicted to free a port.
const MAX_EVICTIONS: usize = 8;

impl Nat {
    pub(crate) fn new(config: NatConfig, seed: u128) -> Result<Self, ConfigError> {
        config.check()?;
        let (limits, timeouts) = (config.limits, config.timeouts);
        let max_sessions = limits.sessions as usize;
        let ports = |protocol: Protocol| {
            let own = u128::from(hash(seed, &("ports", protocol))) << 64 | u128::from(hash(seed, &protocol));
            Ports::new(config.first_port, config.last_port, own)
        };
        let mut idle = [timeouts.udp; QUEUES];
        (idle[TCP_TRANSITORY], idle[TCP_ESTABLISHED]) = (timeouts.tcp_transitory, timeouts.tcp_established);
        idle[ICMP] = timeouts.icmp;
        Ok(Nat {
            config,
            mappings: Table::new(seed, max_sessions, [Span::MAX]),
            ports: [Protocol::Tcp, Protocol::Udp, Protocol::Icmp].map(ports),
            sessions: Table::new(seed, max_sessions, idle),
            sessions_per_host: Tally::new(seed, max_sessions),
            created: 0,
            expired: 0,
            evicted: 0,
        })
    }

    pub(crate) fn external(&self) -> Ipv4Addr {
        self.config.external
    }

    pub(crate) fn config(&self) -> &NatConfig {
        &self.config
    }

    /// The numbers of sessions, mappings and inside hosts.
    pub(crate) fn occupancy(&self) -> (usize, usize, usize) {
        (self.sessions.len(), self.mappings.len(), self.sessions_per_host.keys())
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionInfo> + '_ {
        self.sessions.ids().map(|id| {
            let (key, session) = (self.sessions.key(id), self.sessions.value(id));
            let inside = self.mappings.key(key.mapping);
            SessionInfo {
                protocol: session.protocol,
                inside: inside.endpoint,
                external: SocketAddrV4::new(self.config.external, self.mappings.value(key.mapping).port),
                remote: Some(key.remote).filter(|remote| *remote != ANY),
                tcp: (session.protocol == Protocol::Tcp).then_some(session.state),
                expires: self.sessions.deadline(id),
            }
        })
    }

    /// Ends the sessions whose idle time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        while let Some(id) = self.sessions.expired(now) {
            self.end(id);
            self.expired += 1;
        }
    }

    /// Gives a packet from the inside its external source. Opens a session where there is none, and starts the idle time
    /// of its session anew.
    pub(crate) fn outbound(&mut self, headers: &mut Headers, now: Time) -> Result<(), DropCause> {
        let inside = self.inside(headers)?;
        let remote = endpoint(headers, End::Destination).ok_or(DropCause::Unsupported)?;
        let session = match self.session(&inside, remote) {
            Some(session) => session,
            None => self.open(inside, remote, now)?,
        };
        self.update(session, Direction::Outbound, headers, now);
        set_endpoint(headers, End::Source, self.external_of(self.sessions.key(session).mapping));
        Ok(())
    }

    /// Gives a packet from the outside its inside destination, and returns its session, if it has one, for
    /// [`Nat::confirm`].
    pub(crate) fn inbound(&self, headers: &mut Headers) -> Result<Option<Id>, DropCause> {
        let protocol = translatable(headers, Direction::Inbound)?;
        let (source, destination) = (endpoint(headers, End::Source), endpoint(headers, End::Destination));
        let (source, destination) = source.zip(destination).ok_or(DropCause::Unsupported)?;
        let mapping = self.mapping(protocol, destination).ok_or(DropCause::NoMapping)?;
        let inside = self.mappings.key(mapping);
        let session = self.session(inside, source);
        if session.is_none() && self.config.filtering == Filtering::AddressAndPortDependent {
            return Err(DropCause::Filtered);
        }
        set_endpoint(headers, End::Destination, inside.endpoint);
        Ok(session)
    }

    /// Notes that a packet from the outside is forwarded. RFC 4787 REQ-6: only packets from the inside start the idle
    /// time anew, except where the session changes its state.
    pub(crate) fn confirm(&mut self, session: Id, headers: &Headers, now: Time) {
        self.update(session, Direction::Inbound, headers, now);
    }

    /// Translates the destination of the packet that an ICMP error from the inside quotes: one that came from the
    /// outside (RFC 5508 REQ-5). Neither opens nor refreshes a session (REQ-6).
    pub(crate) fn outbound_error(&self, quoted: &mut Headers) -> Result<(), DropCause> {
        let inside = Inside {
            protocol: Protocol::of(quoted).ok_or(DropCause::IcmpError)?,
            endpoint: endpoint(quoted, End::Destination).ok_or(DropCause::IcmpError)?,
        };
        let mapping = self.mappings.find(&inside).ok_or(DropCause::IcmpError)?;
        self.check_remote(&inside, quoted, End::Source)?;
        set_endpoint(quoted, End::Destination, self.external_of(mapping));
        Ok(())
    }

    /// Translates the source of the packet that an ICMP error from the outside quotes: one that came from the inside
    /// (RFC 5508 REQ-4). Neither opens nor refreshes a session (REQ-6).
    pub(crate) fn inbound_error(&self, quoted: &mut Headers) -> Result<(), DropCause> {
        let protocol = Protocol::of(quoted).ok_or(DropCause::IcmpError)?;
        let external = endpoint(quoted, End::Source).ok_or(DropCause::IcmpError)?;
        let mapping = self.mapping(protocol, external).ok_or(DropCause::IcmpError)?;
        let inside = *self.mappings.key(mapping);
        self.check_remote(&inside, quoted, End::Destination)?;
        set_endpoint(quoted, End::Source, inside.endpoint);
        Ok(())
    }

    /// With address- and port-dependent filtering, errors are let in and out only about packets of a session.
    fn check_remote(&self, inside: &Inside, quoted: &Headers, end: End) -> Result<(), DropCause> {
        let remote = endpoint(quoted, end).ok_or(DropCause::IcmpError)?;
        let allowed = self.config.filtering == Filtering::EndpointIndependent || self.session(inside, remote).is_some();
        if allowed { Ok(()) } else { Err(DropCause::IcmpError) }
    }

    fn inside(&self, headers: &Headers) -> Result<Inside, DropCause> {
        let protocol = translatable(headers, Direction::Outbound)?;
        let endpoint = endpoint(headers, End::Source).ok_or(DropCause::Unsupported)?;
        if !self.config.inside.contains(endpoint.ip()) || *endpoint.ip() == self.config.external {
            return Err(DropCause::SpoofedSource);
        }
        Ok(Inside { protocol, endpoint })
    }

    fn mapping(&self, protocol: Protocol, external: SocketAddrV4) -> Option<Id> {
        let owner = self.ports[protocol.index()].owner(external.port());
        owner.filter(|_| *external.ip() == self.config.external)
    }

    fn external_of(&self, mapping: Id) -> SocketAddrV4 {
        SocketAddrV4::new(self.config.external, self.mappings.value(mapping).port)
    }

    fn session(&self, inside: &Inside, remote: SocketAddrV4) -> Option<Id> {
        let mapping = self.mappings.find(inside)?;
        self.sessions.find(&SessionKey { mapping, remote: self.relevant(inside.protocol, remote) })
    }

    /// What of a remote endpoint distinguishes sessions: all of it where its state or permission counts, nothing where
    /// one timer is enough. An ICMP identifier belongs to both ends, so that it tells nothing.
    fn relevant(&self, protocol: Protocol, remote: SocketAddrV4) -> SocketAddrV4 {
        match (protocol, self.config.filtering) {
            (Protocol::Tcp, _) | (Protocol::Udp, Filtering::AddressAndPortDependent) => remote,
            (Protocol::Icmp, Filtering::AddressAndPortDependent) => SocketAddrV4::new(*remote.ip(), 0),
            (_, Filtering::EndpointIndependent) => ANY,
        }
    }

    /// Opens a session, and a mapping if need be.
    fn open(&mut self, inside: Inside, remote: SocketAddrV4, now: Time) -> Result<Id, DropCause> {
        let (protocol, host) = (inside.protocol, *inside.endpoint.ip());
        if self.sessions_per_host.count(&host) >= self.config.limits.sessions_per_host {
            return Err(DropCause::HostLimit);
        }
        if self.sessions.is_full() {
            self.evict(&EVICTABLE).ok_or(DropCause::TableFull)?;
        }
        let mapping = match self.mappings.find(&inside) {
            Some(mapping) => mapping,
            None => self.map(inside, now)?,
        };
        let queue = EVICTABLE[protocol.index()];
        let key = SessionKey { mapping, remote: self.relevant(protocol, remote) };
        let session = Session { protocol, state: TcpState::Opening };
        let id = self.sessions.insert(key, session, queue, now).ok_or(DropCause::TableFull)?;
        self.mappings.value_mut(mapping).sessions += 1;
        self.sessions_per_host.add(host);
        self.created += 1;
        Ok(id)
    }

    fn map(&mut self, inside: Inside, now: Time) -> Result<Id, DropCause> {
        let protocol = inside.protocol.index();
        for _ in 0..MAX_EVICTIONS {
            if let Some(port) = self.ports[protocol].draw() {
                let mapping = self.mappings.insert(inside, Mapping { port, sessions: 0 }, 0, now);
                let mapping = mapping.ok_or(DropCause::TableFull)?;
                self.ports[protocol].assign(port, mapping);
                return Ok(mapping);
            }
            self.evict(&[EVICTABLE[protocol]]).ok_or(DropCause::NoPort)?;
        }
        Err(DropCause::NoPort)
    }

    /// Ends the session that has been idle for longest, of those in these queues.
    fn evict(&mut self, queues: &[usize]) -> Option<()> {
        let oldest = queues.iter().filter_map(|queue| self.sessions.oldest(*queue));
        let id = oldest.min_by_key(|id| self.sessions.refreshed(*id))?;
        self.end(id);
        self.evicted += 1;
        Some(())
    }

    /// Ends a session, and its mapping with its last one.
    fn end(&mut self, id: Id) {
        let (SessionKey { mapping, .. }, session) = self.sessions.remove(id);
        let host = *self.mappings.key(mapping).endpoint.ip();
        self.sessions_per_host.subtract(&host);
        let Mapping { sessions, port } = self.mappings.value_mut(mapping);
        *sessions -= 1;
        if *sessions == 0 {
            self.ports[session.protocol.index()].release(*port);
            self.mappings.remove(mapping);
        }
    }

    /// Follows a packet's session: its state, and its idle time.
    fn update(&mut self, id: Id, direction: Direction, headers: &Headers, now: Time) {
        let session = self.sessions.value_mut(id);
        if let Some(tcp) = headers.tcp() {
            session.state = session.state.after(direction, tcp);
        }
        let Session { protocol, state } = *session;
        let before = self.sessions.queue(id);
        let queue = match (protocol, state) {
            (Protocol::Tcp, TcpState::Established { .. }) => TCP_ESTABLISHED,
            (Protocol::Tcp, _) => TCP_TRANSITORY,
            (Protocol::Udp, _) if direction == Direction::Inbound => UDP_ANSWERED,
            (Protocol::Udp, _) => before,
            (Protocol::Icmp, _) => ICMP,
        };
        if direction == Direction::Outbound || queue != before {
            self.sessions.refresh(id, queue, now);
        }
    }
}

/// The protocol of a packet that can be translated in this direction. Of ICMP these are queries of the inside and replies
/// to them (RFC 5508 REQ-1).
fn translatable(headers: &Headers, direction: Direction) -> Result<Protocol, DropCause> {
    let is_request = |kind| matches!(kind, 8 | 13 | 15 | 17);
    match (Protocol::of(headers), headers.icmp()) {
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
    headers.set_address(End::Source, IpAddr::V4(external));
}
