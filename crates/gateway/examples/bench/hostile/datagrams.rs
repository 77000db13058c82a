//! Attacks by UDP.

use super::listener::{LISTENER_ADDRESS, hostile_address, hostile_key};
use super::{is_over, listener_address};
use crate::lines::Lines;
use kumade_multipath::message::{DataHeader, Message, MtuQuery, Probe};
use kumade_multipath::{PathId, PathReport, Predecessor};
use kumade_net::interface::Family;
use kumade_net::udp::{BatchReceiver, BatchSocket};
use kumade_net::{SocketBinding, clock};
use kumade_noise_session::{
    DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, HandshakePolicy, HeaderForm, PeerId, PresharedKey, Route,
    SHORT_HEADER_BYTES, SessionTable, TAG_BYTES,
};
use kumade_packet::DsField;
use kumade_units::{Span, Time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::num::NonZeroU16;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Sealed and sent together, of equal length, so that they are one packet of the kernel.
const BATCH_DATAGRAMS: usize = 64;
/// Between two looks at what has come.
const BATCHES_PER_TURN: usize = 16;
const SHORT_PACKET_BYTES: usize = 28;
const LONG_PACKET_BYTES: usize = 1400;
const SOURCES: usize = 64;
const CONNECTION_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DatagramAttack {
    Forged,
    Copies,
    Keepalives,
    ShortPackets,
    LongPackets,
    ForeignSources,
    Jumps,
    MissingPredecessors,
    Descending,
    Segments,
    Probes,
    Reports,
    MtuProbes,
    Forwarded,
    ManyPaths,
    ManySources,
    Connections,
    Handshakes,
}

impl DatagramAttack {
    pub fn name(self) -> &'static str {
        match self {
            DatagramAttack::Forged => "forged data of its session",
            DatagramAttack::Copies => "copies of its data",
            DatagramAttack::Keepalives => "empty data",
            DatagramAttack::ShortPackets => "short packets",
            DatagramAttack::LongPackets => "long packets",
            DatagramAttack::ForeignSources => "packets with other sources",
            DatagramAttack::Jumps => "numbers that jump",
            DatagramAttack::MissingPredecessors => "predecessors that never come",
            DatagramAttack::Descending => "numbers in falling order",
            DatagramAttack::Segments => "packets of many segments",
            DatagramAttack::Probes => "probes",
            DatagramAttack::Reports => "reports",
            DatagramAttack::MtuProbes => "probes of the MTU",
            DatagramAttack::Forwarded => "packets to another peer",
            DatagramAttack::ManyPaths => "short packets on 16 paths",
            DatagramAttack::ManySources => "short packets from 64 ports",
            DatagramAttack::Connections => "short packets over 16 connections",
            DatagramAttack::Handshakes => "handshakes",
        }
    }
}

pub fn run(attack: DatagramAttack, number: usize, ends: &AtomicBool) {
    let Some(mut peer) = HostilePeer::new(number) else { return };
    // To another peer that is there, too: whoever it is, it reads nothing.
    let mut other = (attack == DatagramAttack::Forwarded).then(|| HostilePeer::new((number + 1) % 8)).flatten();
    let mut kept = Vec::new();
    while !is_over(ends) {
        let now = clock::monotonic();
        peer.take_turn(now);
        other.iter_mut().for_each(|other| other.take_turn(now));
        if attack == DatagramAttack::Handshakes {
            peer.shake_hands(now);
        } else if peer.is_connected {
            for _ in 0..BATCHES_PER_TURN {
                peer.send_batch(attack, &mut kept, now);
            }
        }
    }
}

struct HostilePeer {
    number: usize,
    sockets: Vec<BatchSocket>,
    receivers: Vec<BatchReceiver>,
    endpoint: Endpoint,
    listener: PeerId,
    sessions: SessionTable,
    is_connected: bool,
    sent: u32,
    batches: usize,
    connections: Vec<Option<TcpStream>>,
}

impl HostilePeer {
    fn new(number: usize) -> Option<Self> {
        let sockets: Result<Vec<_>, _> =
            (0..SOURCES).map(|_| BatchSocket::bind(&SocketBinding::default(), Family::V4, 0)).collect();
        let sockets = sockets.ok()?;
        let now = clock::monotonic();
        let random = StdRng::seed_from_u64(now.as_nanos() as u64 ^ number as u64);
        let mut endpoint = Endpoint::new(hostile_key(number), HandshakePolicy::default(), Box::new(random));
        let listener = endpoint.add_peer(Lines::keys()[1].public_key(), PresharedKey::default()).ok()?;
        endpoint.set_routes(listener, vec![route()], now);
        endpoint.connect(listener, now);
        Some(HostilePeer {
            number,
            receivers: sockets.first().map(BatchReceiver::new).into_iter().collect(),
            sockets,
            endpoint,
            listener,
            sessions: SessionTable::new(),
            is_connected: false,
            sent: 0,
            batches: 0,
            connections: Vec::new(),
        })
    }

    /// What it takes to have a session.
    fn take_turn(&mut self, now: Time) {
        self.endpoint.advance(now, clock::realtime());
        self.handle_events(now);
        let HostilePeer { receivers, endpoint, .. } = self;
        for receiver in receivers {
            let _ = receiver.receive(|received| {
                for datagram in received.datagrams() {
                    if DatagramKind::from_datagram(datagram) != Some(DatagramKind::Data) {
                        let _ = endpoint.receive(datagram, route(), now);
                    }
                }
            });
        }
        self.handle_events(now);
    }

    fn handle_events(&mut self, now: Time) {
        while let Some(event) = self.endpoint.next_event() {
            match event {
                EndpointEvent::Transmit { datagram, .. } => self.send(0, &[datagram]),
                EndpointEvent::Established { peer, session, .. } => {
                    self.sessions.install(peer, session, now);
                    self.is_connected = true;
                }
                _ => {}
            }
        }
    }

    fn shake_hands(&mut self, now: Time) {
        self.endpoint.reconnect(self.listener, now);
        self.endpoint.set_routes(self.listener, Vec::new(), now);
        self.endpoint.set_routes(self.listener, vec![route()], now);
    }

    fn send(&self, socket: usize, batch: &[Vec<u8>]) {
        self.sockets[socket].send(listener_address(), DsField::default(), batch, |_, _| {});
    }

    fn send_batch(&mut self, attack: DatagramAttack, kept: &mut Vec<Vec<u8>>, now: Time) {
        let is_kept = matches!(attack, DatagramAttack::Forged | DatagramAttack::Copies);
        if is_kept && !kept.is_empty() {
            return self.send(0, kept);
        }
        self.batches += 1;
        let mut batch = Vec::with_capacity(BATCH_DATAGRAMS);
        for _ in 0..BATCH_DATAGRAMS {
            self.sent = self.sent.wrapping_add(1);
            let is_counted = !matches!(
                attack,
                DatagramAttack::Keepalives
                    | DatagramAttack::Handshakes
                    | DatagramAttack::Reports
                    | DatagramAttack::MtuProbes
            );
            let mut datagram = vec![0; if is_counted { SHORT_HEADER_BYTES } else { HEADER_BYTES }];
            self.write_message(attack, &mut datagram);
            datagram.extend([0; TAG_BYTES]);
            let has_paths = matches!(attack, DatagramAttack::ManyPaths | DatagramAttack::Connections);
            let paths = if has_paths { PathId::MAX_PATHS } else { 1 };
            let path = (self.batches % paths) as u8;
            let sealed = if is_counted {
                let counter = (path, u64::from(self.sent));
                self.sessions.seal_numbered(self.listener, counter, HeaderForm::Short, &mut datagram, now)
            } else {
                self.sessions.seal(self.listener, path, &mut datagram, now)
            };
            let Ok(sealed) = sealed else {
                self.endpoint.connect(self.listener, now);
                return;
            };
            datagram.drain(..sealed.start);
            if attack == DatagramAttack::Forged {
                datagram.iter_mut().rev().take(TAG_BYTES).for_each(|byte| *byte ^= 1);
            }
            batch.push(datagram);
        }
        self.endpoint.record_data_sent(self.listener, now);
        if attack == DatagramAttack::Connections {
            let path = self.batches % PathId::MAX_PATHS;
            return drop(self.send_by_connection(path, &batch));
        }
        let socket = if attack == DatagramAttack::ManySources { self.batches % SOURCES } else { 0 };
        self.send(socket, &batch);
        if is_kept {
            *kept = batch;
        }
    }

    /// What a connection does not take at once is waited for.
    fn send_by_connection(&mut self, path: usize, batch: &[Vec<u8>]) -> io::Result<()> {
        let records: Vec<u8> = batch
            .iter()
            .flat_map(|datagram| (datagram.len() as u16).to_be_bytes().into_iter().chain(datagram.iter().copied()))
            .collect();
        if self.connections.len() <= path {
            self.connections.resize_with(PathId::MAX_PATHS, || None);
        }
        let connection = &mut self.connections[path];
        let stream = match connection.take() {
            Some(stream) => connection.insert(stream),
            None => {
                let stream = TcpStream::connect_timeout(&listener_address(), CONNECTION_TIMEOUT)?;
                stream.set_write_timeout(Some(CONNECTION_TIMEOUT))?;
                connection.insert(stream)
            }
        };
        let outcome = stream.write_all(&records);
        if outcome.is_err() {
            *connection = None;
        }
        outcome
    }

    fn write_message(&self, attack: DatagramAttack, to: &mut Vec<u8>) {
        let count = self.sent;
        let own = hostile_address(self.number);
        let listener: Ipv4Addr = LISTENER_ADDRESS.parse().expect("an address");
        let mut header = DataHeader { bucket: 1, number: count, ..DataHeader::default() };
        let mut predecessors = None;
        let mut packet = (own, listener.octets(), SHORT_PACKET_BYTES);
        match attack {
            DatagramAttack::Keepalives | DatagramAttack::Handshakes => return,
            DatagramAttack::Probes => {
                return Message::Probe(Probe { size: Probe::MIN_SIZE }).write(to);
            }
            DatagramAttack::Reports => {
                let report = PathReport {
                    highest_counter: u64::from(count),
                    received_packets: u64::from(count),
                    received_bytes: u64::from(count) * 1400,
                    arrival: clock::monotonic(),
                    hold_time: Span::ZERO,
                };
                return Message::Report(report).write(to);
            }
            DatagramAttack::MtuProbes => {
                return Message::MtuProbe(MtuQuery { number: count, size: MtuQuery::MIN_SIZE }).write(to);
            }
            DatagramAttack::LongPackets => packet.2 = LONG_PACKET_BYTES,
            DatagramAttack::ForeignSources => packet.0 = [10, 80, 0, 1],
            DatagramAttack::Forwarded => packet.1 = hostile_address((self.number + 1) % 8),
            DatagramAttack::Jumps => {
                (header.bucket, header.number) = ((count % 1024) as u16, count.wrapping_mul(0x9e37_79b1));
                packet.2 = LONG_PACKET_BYTES;
            }
            DatagramAttack::MissingPredecessors => {
                (header.bucket, header.number) = ((count % 1024) as u16, count / 1024 * 2 + 1);
                predecessors = PathId::all().nth(1).map(|path| Predecessor::new(path, u64::from(count) + 1000));
                packet.2 = LONG_PACKET_BYTES;
            }
            DatagramAttack::Descending => {
                // Of one flow, each before the one that came before it; nothing is delivered for as long as possible.
                header.number = (1 << 30) - count % (1 << 20);
                predecessors = PathId::all().nth(1).map(|path| Predecessor::new(path, u64::from(count) + 1000));
            }
            DatagramAttack::Segments => {
                (header.segment_bytes, packet.2) = (NonZeroU16::new(700), LONG_PACKET_BYTES);
            }
            DatagramAttack::Forged
            | DatagramAttack::Copies
            | DatagramAttack::ShortPackets
            | DatagramAttack::ManyPaths
            | DatagramAttack::ManySources
            | DatagramAttack::Connections => {}
        }
        let mut room = [0; DataHeader::HEADROOM_BYTES];
        let start = header.write_into_headroom(predecessors, &mut room);
        to.extend_from_slice(&room[start..]);
        write_packet(packet, to);
    }
}

fn route() -> Route {
    Route { path: 0, address: listener_address() }
}

/// A UDP datagram to a port where nobody listens.
fn write_packet((source, destination, bytes): ([u8; 4], [u8; 4], usize), to: &mut Vec<u8>) {
    let mut packet = vec![0; bytes];
    (packet[0], packet[6], packet[8], packet[9]) = (0x45, 0x40, 64, 17);
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet[20..24].copy_from_slice(&[15, 160, 0, 9]);
    packet[24..26].copy_from_slice(&(bytes as u16 - 20).to_be_bytes());
    let mut sum: u32 = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    to.extend_from_slice(&packet);
}
