use crate::entry_tally::EntryTally;
use crate::table::{EntryId, IdleTable};
use kumade_packet::{FlowKey, Headers, Tcp};
use kumade_units::{Span, Time};
use std::net::{IpAddr, SocketAddr};

/// A TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TcpConnection {
    client: SocketAddr,
    server: SocketAddr,
}

/// The open TCP connections, at most [`MAX_CONNECTIONS`], each until it ends or has been idle.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    entries: IdleTable<TcpConnection, ConnectionEntry, 2>,
    /// Connections from one host to one port of another.
    per_client_and_service: EntryTally<ClientServicePair>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClientServicePair {
    client: IpAddr,
    server: SocketAddr,
}

#[derive(Debug, Clone, Copy, Default)]
struct ConnectionEntry {
    client_fin: bool,
    server_fin: bool,
    data_packets: u64,
}

/// As many as a host has ports; a few megabytes at most.
const MAX_CONNECTIONS: usize = 65_536;
// Idle times of connections without and with packets from the server (Linux conntrack: 120 s and five days), and the
// queues for them.
const UNANSWERED_IDLE: Span = Span::from_secs(120);
const ANSWERED_IDLE: Span = Span::from_secs(3600);
const UNANSWERED_QUEUE: usize = 0;
const ANSWERED_QUEUE: usize = 1;

impl TcpConnection {
    /// The connection of a TCP packet, taking its source for the client.
    pub(crate) fn from_client(headers: &Headers) -> Option<Self> {
        headers.tcp().and(headers.ports)?;
        let FlowKey { source, destination, .. } = FlowKey::from_headers(headers);
        Some(TcpConnection { client: source, server: destination })
    }

    fn reversed(self) -> Self {
        TcpConnection { client: self.server, server: self.client }
    }

    fn client_service_pair(&self) -> ClientServicePair {
        ClientServicePair { client: self.client.ip(), server: self.server }
    }
}

impl ConnectionTable {
    pub(crate) fn new(seed: u128) -> Self {
        ConnectionTable {
            entries: IdleTable::new(seed, MAX_CONNECTIONS, [UNANSWERED_IDLE, ANSWERED_IDLE]),
            per_client_and_service: EntryTally::new(seed, MAX_CONNECTIONS),
        }
    }

    /// Whether the connection is open, whichever end sent the packet.
    pub(crate) fn is_open(&self, connection: &TcpConnection) -> bool {
        self.find(connection).is_some()
    }

    /// Whether a connection may be added, with at most `max_connections` from its client to its service.
    pub(crate) fn has_room(&mut self, connection: &TcpConnection, max_connections: u32, now: Time) -> bool {
        self.expire(now);
        !self.entries.is_full()
            && self.per_client_and_service.count(&connection.client_service_pair()) < max_connections
    }

    /// The number of data packets forwarded in both directions.
    pub(crate) fn data_packets(&self, connection: &TcpConnection) -> u64 {
        self.find(connection).map_or(0, |id| self.entries.value(id).data_packets)
    }

    /// Notes a forwarded packet, which opens, continues or ends its connection.
    pub(crate) fn record_forwarded(&mut self, connection: TcpConnection, tcp: &Tcp, now: Time) {
        self.expire(now);
        let from_server =
            self.entries.find(&connection).is_none() && self.entries.find(&connection.reversed()).is_some();
        let key = if from_server { connection.reversed() } else { connection };
        // A new SYN from the same port: the client has abandoned the previous connection.
        if tcp.rst || tcp.is_connection_request() && !from_server {
            self.remove(&key);
        }
        if tcp.rst {
            return;
        }
        let Some(id) = self.entries.find(&key).or_else(|| self.insert_connection(key, tcp, now)) else { return };
        let answered = from_server || self.entries.queue(id) == ANSWERED_QUEUE;
        self.entries.refresh(id, if answered { ANSWERED_QUEUE } else { UNANSWERED_QUEUE }, now);
        let entry = self.entries.value_mut(id);
        entry.data_packets += u64::from(tcp.payload_len > 0);
        match from_server {
            true => entry.server_fin |= tcp.fin,
            false => entry.client_fin |= tcp.fin,
        }
        if entry.client_fin && entry.server_fin {
            self.remove(&key);
        }
    }

    /// Removes a connection that the middlebox itself has reset.
    pub(crate) fn remove_connection(&mut self, connection: &TcpConnection) {
        self.remove(connection);
        self.remove(&connection.reversed());
    }

    fn find(&self, connection: &TcpConnection) -> Option<EntryId> {
        self.entries.find(connection).or_else(|| self.entries.find(&connection.reversed()))
    }

    /// Adds a connection: with its SYN, or with its first data where it was open before.
    fn insert_connection(&mut self, key: TcpConnection, tcp: &Tcp, now: Time) -> Option<EntryId> {
        if !(tcp.is_connection_request() || tcp.payload_len > 0) {
            return None;
        }
        let id = self.entries.insert(key, ConnectionEntry::default(), UNANSWERED_QUEUE, now)?;
        self.per_client_and_service.add_entry(key.client_service_pair());
        Some(id)
    }

    fn remove(&mut self, connection: &TcpConnection) {
        if let Some(id) = self.entries.find(connection) {
            self.entries.remove(id);
            self.per_client_and_service.remove_entry(&connection.client_service_pair());
        }
    }

    fn expire(&mut self, now: Time) {
        while let Some(id) = self.entries.expired_entry(now) {
            let (connection, _) = self.entries.remove(id);
            self.per_client_and_service.remove_entry(&connection.client_service_pair());
        }
    }
}
