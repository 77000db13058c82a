use crate::config::ConnectionTuning;
use crate::receive_turn::ReadAmount;
use kumade_daemon::Network;
use kumade_multipath::dataplane::{Node, OuterHeaders, Received};
use kumade_multipath::{OuterTransport, PathId, StreamDelivery, StreamWriter, TcpSenderState};
use kumade_net::{clock, tcp};
use kumade_noise_session::stream::{self, RecordReader};
use kumade_noise_session::{DatagramKind, Route};
use kumade_packet::Ecn;
use kumade_packet_loop::Buffer;
use kumade_units::{Span, Time};
use socket2::SockRef;
use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// A TCP connection that carries sealed datagrams as records.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// This host's address.
    own_address: Option<IpAddr>,
    /// How the node names its far end.
    pub(crate) route: Route,
    /// The path of a remote that it is, once that is known.
    pub(crate) owner: Option<(usize, PathId)>,
    pub(crate) opened_at: Time,
    /// A peer has sent something on it.
    is_authenticated: bool,
    reader: RecordReader,
    /// Records that the kernel has not taken yet.
    pending: Vec<u8>,
    /// Of those, bytes at the front that it has.
    sent_pending_bytes: usize,
    /// Bytes that have arrived in all, and when that was more than before, or there was nothing on the way.
    acknowledged_bytes: u64,
    last_progress: Time,
    last_received: Time,
    /// Its segments may be longer than short ones.
    pub(crate) has_long_segments: bool,
    /// The oldest segment is being repeated, and was in vain so far.
    is_repeating_in_vain: bool,
    writer: StreamWriter,
    max_rto: Option<tcp::AdaptiveMaxRto>,
    /// Its peer sends too much that brings hosts nothing: it is read from time to time.
    pub(crate) is_held_back: bool,
    /// Bytes of the next read, by what the one before took.
    pub(crate) read_limit: usize,
    /// Whether its set reports when it can be read, and written.
    pub(crate) reported: (bool, bool),
}

/// Bytes of a read at first, and at least: some packets, or some sixty of the shortest. More once it is known how long they take.
pub(crate) const MIN_READ_BYTES: usize = 4096;

/// Why a connection is over.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// The far end has closed it, or the network has ended it.
    Closed(io::Error),
    /// What came is not what a peer sends; with the first bytes of it.
    NotAPeer(Vec<u8>),
}

/// Of records of a peer: packets of up to 9000 bytes with all headers.
const MAX_RECORD_BYTES: usize = 10_000;
/// Without an acknowledgement for so long, a connection from an address that others would not have is left for another one.
const STALL_TIMEOUT: Span = Span::from_millis(500);
/// As long as that, and repeated so often, a long segment must have been in vain to be taken for too long for the path: the streams
/// inside, which have waited as well, are to go on within a few seconds.
const MTU_STALL_TIMEOUT: Span = Span::from_millis(500);
const MIN_VAIN_TIMEOUTS: u32 = 2;
/// Beyond this, handshakes and reports, which no room holds back, are dropped.
const MAX_PENDING_BYTES: usize = 64 << 10;

impl Connection {
    /// Neither reads nor writes block.
    ///
    /// # Errors
    /// The connection is no more.
    pub(crate) fn new(
        stream: TcpStream,
        route: Route,
        owner: Option<(usize, PathId)>,
        tuning: &ConnectionTuning,
        now: Time,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(tuning.has_no_delay)?;
        let carrier = StreamWriter::new(tuning.unsent_bytes, now);
        tcp::limit_unsent(&stream, carrier.max_unsent_bytes())?;
        Ok(Connection {
            own_address: stream.local_addr().ok().map(|own| own.ip().to_canonical()),
            stream,
            route,
            owner,
            is_authenticated: false,
            opened_at: now,
            reader: RecordReader::new(),
            pending: Vec::new(),
            sent_pending_bytes: 0,
            acknowledged_bytes: 0,
            last_progress: now,
            last_received: now,
            has_long_segments: true,
            is_repeating_in_vain: false,
            writer: carrier,
            max_rto: tuning.rto.connection_max_rto(),
            is_held_back: false,
            read_limit: MIN_READ_BYTES,
            reported: (true, false),
        })
    }

    /// What its far end's address counts for.
    pub(crate) fn network(&self) -> Network {
        Network::containing(self.route.address.ip())
    }

    /// Hands what has arrived to the node, so many bytes at most. There is nothing left where `amount` is less then.
    pub(crate) fn receive(
        &mut self,
        max_bytes: usize,
        node: &mut Node<Buffer>,
        amount: &mut ReadAmount,
    ) -> Result<(), ConnectionEnd> {
        while amount.units < max_bytes {
            let space = self.reader.free_space();
            let room = space.len().min(max_bytes - amount.units);
            let count = match self.stream.read(&mut space[..room]) {
                Ok(0) => return Err(ConnectionEnd::Closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ConnectionEnd::Closed(error)),
            };
            amount.units += count;
            self.last_received = clock::monotonic();
            self.reader.add_filled(count);
            self.take_records(node, amount)?;
            if count < room {
                break;
            }
        }
        Ok(())
    }

    fn take_records(&mut self, node: &mut Node<Buffer>, amount: &mut ReadAmount) -> Result<(), ConnectionEnd> {
        let now = clock::monotonic();
        loop {
            let record = match self.reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(()),
                Err(_) => return Err(ConnectionEnd::NotAPeer(self.reader.received().to_vec())),
            };
            amount.datagrams += 1;
            // A second answer to a handshake that is done comes from a peer, too.
            let is_answer = matches!(
                DatagramKind::from_datagram(record),
                Some(DatagramKind::Response | DatagramKind::CookieReply | DatagramKind::TimestampReply)
            );
            let (carrier, size) = (OuterTransport::Tcp, (stream::PREFIX_BYTES + record.len()) as u32);
            let outer = OuterHeaders {
                route: self.route,
                transport: carrier,
                ecn: Ecn::NotEct,
                packet_bytes: size,
                arrival: now,
            };
            match node.receive(record, outer, now) {
                Received::Refused if !self.is_authenticated && !is_answer => {
                    return Err(ConnectionEnd::NotAPeer(record.to_vec()));
                }
                Received::Refused | Received::Handshake | Received::Keepalive { .. } => {}
                Received::Data { remote, path, has_packet } => {
                    (self.owner, self.is_authenticated) = (Some((remote, path)), true);
                    self.reader.raise_record_limit(MAX_RECORD_BYTES);
                    amount.packets += u32::from(has_packet);
                }
            }
        }
    }

    /// How it does now; none where that was said a short time ago.
    pub(crate) fn sample_delivery(&mut self, now: Time) -> Option<StreamDelivery> {
        if !self.writer.is_due(now) {
            return None;
        }
        let sent = tcp::send_state(&self.stream).ok()?;
        let acknowledged = sent.acknowledged_bytes;
        if let Some(max_rto) = &mut self.max_rto {
            max_rto.update(&self.stream, sent.round_trip);
        }
        if acknowledged != self.acknowledged_bytes || self.writer.is_all_acknowledged(acknowledged) {
            (self.acknowledged_bytes, self.last_progress) = (acknowledged, now);
        }
        self.has_long_segments = sent.segment_bytes > tcp::SHORT_SEGMENT_BYTES;
        self.is_repeating_in_vain = sent.timeouts >= MIN_VAIN_TIMEOUTS;
        let limit = self.writer.max_unsent_bytes();
        let pending = (self.pending.len() - self.sent_pending_bytes) as u64;
        let stream = TcpSenderState {
            unsent_bytes: sent.unsent_bytes,
            window_bytes: sent.available_window_bytes,
            acknowledged_bytes: acknowledged,
            delivered_bytes: sent.delivered_bytes,
            in_flight_bytes: sent.bytes_in_flight,
            retransmitted_bytes: sent.retransmitted_bytes,
            is_recovering: sent.is_recovering,
            excess_round_trip: sent.excess_round_trip,
            delivery_rate: sent.delivery_rate,
        };
        let state = self.writer.sample_stream(&stream, pending, now);
        if self.writer.max_unsent_bytes() != limit {
            // Where it cannot be set, the connection is no more.
            tcp::limit_unsent(&self.stream, self.writer.max_unsent_bytes()).ok()?;
        }
        Some(state)
    }

    /// Whether this host has moved away from the connection's address and would have another one now: nothing comes to what it
    /// does not have any more; and what it still has may lead nowhere.
    pub(crate) fn has_stale_address(&self, source: IpAddr, now: Time) -> bool {
        let is_stalled = !self.writer.is_quiet() && now - self.last_progress >= STALL_TIMEOUT;
        self.own_address.is_some_and(|own| own != source && (is_stalled || kumade_net::is_address_gone(own)))
    }

    /// Whether the path seems to have dropped long segments for a while, without a word, and to pass what is short: nothing is
    /// acknowledged any more, and yet the far end's packets come.
    pub(crate) fn drops_long_segments(&self, now: Time) -> bool {
        self.has_long_segments
            && self.is_repeating_in_vain
            && now - self.last_progress >= MTU_STALL_TIMEOUT
            && self.last_received - self.last_progress >= MTU_STALL_TIMEOUT / 2
    }

    /// Has it leave nothing behind in the kernel, which would go on for minutes.
    pub(crate) fn discard_unsent(&self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Adds a datagram to what is to be sent. Returns whether there was room for it.
    pub(crate) fn push(&mut self, datagram: &[u8]) -> bool {
        let Ok(prefix) = stream::record_prefix(datagram.len()) else { return false };
        // What the send buffer has no room for, of what may be unsent, waits here.
        let most = MAX_PENDING_BYTES.max(self.writer.max_unsent_bytes() as usize);
        if self.has_pending() && self.pending.len() - self.sent_pending_bytes + datagram.len() > most {
            return false;
        }
        self.pending.extend_from_slice(&prefix);
        self.pending.extend_from_slice(datagram);
        true
    }

    /// Sends what the kernel takes.
    pub(crate) fn flush(&mut self) -> Result<(), ConnectionEnd> {
        while self.has_pending() {
            match tcp::send(&self.stream, &self.pending[self.sent_pending_bytes..], false) {
                Ok(count) => {
                    self.sent_pending_bytes += count;
                    if self.writer.is_quiet() {
                        self.last_progress = clock::monotonic();
                    }
                    self.writer.record_written(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConnectionEnd::Closed(error)),
            }
        }
        self.pending.clear();
        self.sent_pending_bytes = 0;
        Ok(())
    }

    /// Whether the kernel has left something that it is to send.
    pub(crate) fn has_pending(&self) -> bool {
        self.sent_pending_bytes < self.pending.len()
    }

    /// Whether it is known to take nothing more, so that the next opportunity is to be reported.
    pub(crate) fn is_full(&self) -> bool {
        self.has_pending() || self.writer.is_full()
    }

    /// It can be written: how much has to be seen anew.
    pub(crate) fn mark_writable(&mut self, now: Time) {
        self.writer.set_writable(now);
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_SHOWN_BYTES: usize = 16;
        match self {
            ConnectionEnd::Closed(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("the far end closed it")
            }
            ConnectionEnd::Closed(cause) => write!(f, "{cause}"),
            ConnectionEnd::NotAPeer(bytes) => {
                let shown = bytes[..bytes.len().min(MAX_SHOWN_BYTES)].escape_ascii();
                write!(f, "what answers there is not the peer that has the key: it sent \"{shown}\"")
            }
        }
    }
}

/// Routes from this number on are those of connections; the ones before are of sockets for datagrams.
const FIRST_CONNECTION_ROUTE: u8 = PathId::MAX_PATHS as u8;

/// How the node names the far end of a connection, whose path is known to the end that opens it.
pub(crate) fn connection_route(path: Option<PathId>, address: SocketAddr) -> Route {
    // An IPv4 address is one, however the socket has it.
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    Route { path: FIRST_CONNECTION_ROUTE + path.map_or(0, PathId::number), address }
}

/// Whether it leads to a connection.
pub(crate) fn is_connection_route(route: &Route) -> bool {
    route.path >= FIRST_CONNECTION_ROUTE
}
