use packet::{Headers, Tcp};
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{Span, Time};

/// A TCP connection, ordered so that those of one client to one service are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Connection {
    client: IpAddr,
    server: IpAddr,
    server_port: u16,
    client_port: u16,
}

/// What is known of the TCP connections that are open: at most [`MOST`], each until it ends or has been idle for long.
#[derive(Debug)]
pub(super) struct Connections {
    entries: BTreeMap<Connection, Entry>,
    next_sweep: Time,
}

#[derive(Debug, Default)]
struct Entry {
    expires: Time,
    answered: bool,
    client_fin: bool,
    server_fin: bool,
    data_packets: u64,
}

/// More than a port range holds: enough for any experiment, a few megabytes at worst.
const MOST: usize = 65_536;
/// How long a connection without an answer is remembered, and one with (Linux conntrack: 120 s and five days).
const UNANSWERED: Span = Span::from_secs(120);
const ANSWERED: Span = Span::from_secs(3600);
/// All entries are looked through for expired ones no more often than this.
const SWEEP: Span = Span::from_secs(1);

impl Connection {
    /// As if the sender of this TCP packet had opened it.
    pub(super) fn from_client(headers: &Headers) -> Option<Self> {
        let (client_port, server_port) = headers.tcp().and(headers.ports())?;
        Some(Connection { client: headers.source, server: headers.destination, server_port, client_port })
    }

    pub(super) fn reversed(self) -> Self {
        Connection {
            client: self.server,
            server: self.client,
            server_port: self.client_port,
            client_port: self.server_port,
        }
    }
}

impl Connections {
    pub(super) fn new() -> Self {
        Connections { entries: BTreeMap::new(), next_sweep: Time::from_nanos(i64::MIN) }
    }

    /// Whether it is known, whichever side this packet comes from.
    pub(super) fn knows(&self, connection: &Connection) -> bool {
        self.entries.contains_key(connection) || self.entries.contains_key(&connection.reversed())
    }

    /// Whether a new connection still finds room, with at most `most` from its client to its service.
    pub(super) fn has_room(&mut self, connection: &Connection, most: usize, now: Time) -> bool {
        self.sweep(now);
        let first = Connection { client_port: 0, ..*connection };
        let last = Connection { client_port: u16::MAX, ..*connection };
        self.entries.len() < MOST && self.entries.range(first..=last).take(most).count() < most
    }

    /// How many data packets it has carried in both directions.
    pub(super) fn data_packets(&self, connection: &Connection) -> u64 {
        let entry = self.entries.get(connection).or_else(|| self.entries.get(&connection.reversed()));
        entry.map_or(0, |entry| entry.data_packets)
    }

    /// A packet of it went through: opens, keeps or ends it.
    pub(super) fn forwarded(&mut self, connection: Connection, tcp: &Tcp, now: Time) {
        self.sweep(now);
        let backward = connection.reversed();
        let from_server = !self.entries.contains_key(&connection) && self.entries.contains_key(&backward);
        let key = if from_server { backward } else { connection };
        if tcp.rst {
            self.entries.remove(&key);
            return;
        }
        if tcp.opens() && !from_server {
            // Its client may have given up the last one from this port without a word.
            self.entries.remove(&key);
        }
        if !self.entries.contains_key(&key) {
            // One that was open before is known from its first data on.
            if self.entries.len() >= MOST || !(tcp.opens() || tcp.payload_len > 0) {
                return;
            }
            self.entries.insert(key, Entry::default());
        }
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.answered |= from_server;
        entry.data_packets += u64::from(tcp.payload_len > 0);
        entry.expires = now + if entry.answered { ANSWERED } else { UNANSWERED };
        match from_server {
            true => entry.server_fin |= tcp.fin,
            false => entry.client_fin |= tcp.fin,
        }
        if entry.client_fin && entry.server_fin {
            self.entries.remove(&key);
        }
    }

    pub(super) fn forget(&mut self, connection: &Connection) {
        self.entries.remove(connection);
        self.entries.remove(&connection.reversed());
    }

    fn sweep(&mut self, now: Time) {
        if now >= self.next_sweep {
            self.entries.retain(|_, entry| entry.expires > now);
            self.next_sweep = now + SWEEP;
        }
    }
}
