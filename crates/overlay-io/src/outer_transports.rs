use crate::config::BondedConfig;
use crate::connections::Connections;
use crate::datagrams::Datagrams;
use crate::error::BondedError;
use crate::overhead_watch::OverheadWatch;
use crate::overload_limit::{OverloadTime, OverloadWatch};
use crate::receive_turn::{FinishedRead, ReceiveTurn, Sender, Source, SourceSocket};
use kumade_daemon::FairTurns;
use kumade_multipath::dataplane::{Node, Outbound};
use kumade_net::clock;
use kumade_packet_loop::Buffer;
use kumade_units::Time;
use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// What carries sealed datagrams between the ends.
pub(crate) struct OuterTransports {
    datagrams: Option<Box<Datagrams>>,
    connections: Option<Box<Connections>>,
    /// Who is read next.
    turns: FairTurns<Sender>,
    /// Peers that take much time and bring hosts little.
    overhead: OverheadWatch,
    /// The time of all who send too much.
    overload_time: OverloadTime,
    /// When to look next at who does.
    next_look: Time,
    has_other_sources: bool,
}

impl OuterTransports {
    /// Those of a shard.
    pub(crate) fn open(config: &BondedConfig, shard: usize) -> Result<Self, BondedError> {
        let datagrams = config.transports.datagrams().map(|datagrams| Datagrams::open(config, datagrams, shard));
        let first = config.datagram_path_count();
        let connections = config.transports.connections().map(|connections| Connections::open(connections, first));
        Ok(OuterTransports {
            datagrams: datagrams.transpose()?.map(Box::new),
            connections: connections.transpose()?.map(Box::new),
            turns: FairTurns::default(),
            overhead: OverheadWatch::default(),
            overload_time: OverloadTime::new(),
            next_look: clock::monotonic() + OverloadWatch::LOOK_INTERVAL,
            has_other_sources: false,
        })
    }

    /// Has the paths by datagrams of this configuration from now on, and sets on connections what it says.
    ///
    /// # Errors
    /// As [`Datagrams::reconfigure`].
    pub(crate) fn reconfigure(&mut self, config: &BondedConfig) -> Result<(), BondedError> {
        if let (Some(datagrams), Some(settings)) = (&mut self.datagrams, config.transports.datagrams()) {
            datagrams.reconfigure(config, settings)?;
        }
        if let (Some(connections), Some(settings)) = (&mut self.connections, config.transports.connections()) {
            connections.set_tuning(settings);
        }
        Ok(())
    }

    /// What becomes readable when there is something to do: that of the connections comes first.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let datagrams = self.datagrams.iter().flat_map(|datagrams| datagrams.descriptors(&self.overhead));
        self.connections.iter().map(|connections| connections.descriptor()).chain(datagrams).collect()
    }

    /// Whether there are other sources than when this was last asked.
    pub(crate) fn take_sources_change(&mut self) -> bool {
        let of_datagrams = self.datagrams.as_mut().is_some_and(|datagrams| datagrams.take_sources_change());
        mem::take(&mut self.has_other_sources) | of_datagrams
    }

    /// Begins to receive what has arrived. `is_ready` says so of the [source](Self::sources) at a place.
    ///
    /// # Errors
    /// The system refuses to wait for connections.
    pub(crate) fn begin_turn(&mut self, is_ready: impl Fn(usize) -> bool) -> Result<ReceiveTurn, BondedError> {
        let now = clock::monotonic();
        let first_datagrams = usize::from(self.connections.is_some());
        let datagrams = self.datagrams.iter().flat_map(|datagrams| datagrams.sources(&self.overhead));
        let mut place = first_datagrams;
        let mut is_waiting = |source: &Source| {
            // What is held back is waited for by its time.
            place += usize::from(!source.is_held_back);
            source.is_held_back || is_ready(place - 1)
        };
        let mut waiting: VecDeque<_> = datagrams.filter(|source| is_waiting(source)).collect();
        if let Some(datagrams) = self.datagrams.as_mut().filter(|_| !waiting.is_empty()) {
            datagrams.follow_clock(now);
        }
        if let Some(connections) = &mut self.connections {
            waiting.extend(connections.waiting_sources(is_ready(0), now)?);
        }
        waiting.retain(|source| !source.is_held_back || self.overload_time.available_at(source.sender) <= now);
        Ok(ReceiveTurn::new(waiting, now))
    }

    /// Hands over what one sender has, the same time for each, with what it took to send and deliver what has come of it until this is
    /// called again. Returns whether there was one to read.
    ///
    /// # Errors
    /// The system refuses to receive datagrams.
    pub(crate) fn receive_next(
        &mut self,
        turn: &mut ReceiveTurn,
        node: &mut Node<Buffer>,
    ) -> Result<bool, BondedError> {
        let mut now = clock::monotonic();
        for read in turn.end_read(&mut self.turns, now) {
            self.record_finished_read(&read, now);
        }
        let mut has_read = false;
        while let Some(source) = turn.next_source(&mut self.turns, now) {
            has_read = true;
            match (source.socket, &mut self.datagrams, &mut self.connections) {
                (SourceSocket::Datagrams(number), Some(datagrams), _) => {
                    turn.record_read(datagrams.receive_from(number, source.limit, node)?);
                }
                (SourceSocket::Connection(number), _, Some(connections)) => {
                    turn.record_read(connections.receive_from(number, source.limit, node));
                }
                _ => {}
            }
            now = clock::monotonic();
        }
        Ok(has_read)
    }

    fn record_finished_read(&mut self, read: &FinishedRead, now: Time) {
        if read.source.is_held_back {
            self.overload_time.charge(read.source.sender, read.time, now);
        }
        if let Some(peer) = read.source.sender.peer() {
            self.overhead.record(peer, read.overhead(), read.has_more);
        }
        self.datagrams.iter_mut().for_each(|datagrams| datagrams.record_finished_read(read));
        self.connections.iter_mut().for_each(|connections| connections.record_finished_read(read, now));
    }

    /// Looks at who sends too much. Returns when those have time again.
    fn hold_back(&mut self, now: Time) -> Option<Time> {
        if now >= self.next_look {
            self.next_look = now + OverloadWatch::LOOK_INTERVAL;
            self.has_other_sources |= self.overhead.update();
            self.datagrams.iter_mut().for_each(|datagrams| datagrams.update_watches());
            self.connections.iter_mut().for_each(|connections| connections.hold_back(&self.overhead));
        }
        let datagrams = self.datagrams.iter().flat_map(|datagrams| datagrams.sources(&self.overhead));
        let held_back = datagrams.filter(|source| source.is_held_back).map(|source| source.sender);
        let by_connections = self.connections.iter().flat_map(|connections| connections.held_back_sender());
        held_back.chain(by_connections).map(|sender| self.overload_time.available_at(sender)).min()
    }

    /// Says how much they take now, before the node is drained.
    pub(crate) fn report_room(&mut self, node: &mut Node<Buffer>, now: Time) {
        if let Some(connections) = &mut self.connections {
            connections.report_room(node, now);
        }
    }

    /// Sends what the node has put out. Returns how many datagrams the system did not take.
    pub(crate) fn send(&mut self, outbound: &mut Vec<Outbound<Buffer>>, node: &mut Node<Buffer>, now: Time) -> u64 {
        let mut refused = 0;
        if let Some(connections) = &mut self.connections {
            refused += connections.send(outbound, node);
        }
        if let Some(datagrams) = &mut self.datagrams {
            refused += datagrams.send(outbound, node, now);
        }
        refused
    }

    /// The only remote is elsewhere from now on.
    pub(crate) fn set_far_address(&mut self, address: SocketAddr, node: &mut Node<Buffer>, now: Time) {
        if self.datagrams.is_some() {
            Datagrams::set_far_address(address, node, now);
        }
        if let Some(connections) = &mut self.connections {
            connections.set_far_address(address, node, now);
        }
    }

    /// The remotes have other places from now on, by those before; `None` for those that are gone.
    pub(crate) fn move_remotes(&mut self, places: &[Option<usize>], node: &mut Node<Buffer>, now: Time) {
        self.turns = FairTurns::default();
        self.overhead.clear();
        if let Some(connections) = &mut self.connections {
            connections.move_remotes(places, node, now);
        }
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn follow_system(&mut self, node: &mut Node<Buffer>, now: Time) {
        self.datagrams.iter_mut().for_each(|datagrams| datagrams.follow_system(node, now));
        self.connections.iter_mut().for_each(|connections| connections.follow_system());
    }

    /// Does what time brings. Returns when to be called again at the latest.
    pub(crate) fn advance(&mut self, node: &mut Node<Buffer>, now: Time) -> Option<Time> {
        let datagrams = self.datagrams.as_mut().and_then(|datagrams| datagrams.advance(now));
        let held_back = self.hold_back(now);
        let connections = self.connections.as_mut().and_then(|connections| connections.advance(node, now));
        held_back.into_iter().chain(datagrams).chain(connections).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BondedRemote, ConnectionConfig, ConnectionRole, ConnectionTuning, OuterTransportConfig};
    use crate::node::new_node;
    use kumade_daemon::RuntimeDir;
    use kumade_multipath::dataplane::Output;
    use kumade_multipath::message::DataHeader;
    use kumade_multipath::{PathPolicy, Predecessor, UnorderedFlows};
    use kumade_noise_session::stream::{RecordReader, record_prefix};
    use kumade_noise_session::{
        Endpoint, EndpointEvent, HandshakePolicy, HeaderForm, PeerId, PresharedKey, PrivateKey, Route,
        SHORT_HEADER_BYTES, SessionTable, TAG_BYTES,
    };
    use kumade_packet_loop::BufferPool;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    const HONEST: u8 = 1;
    const HOSTILE: u8 = 2;
    const HONEST_PACKETS: u32 = 20;

    fn key(number: u8) -> PrivateKey {
        PrivateKey::from_bytes([number; 32])
    }

    /// An end that listens, with two peers.
    struct ListeningEnd {
        transports: OuterTransports,
        node: Node<Buffer>,
        /// Packets that came of each peer.
        delivered: [u32; 2],
    }

    impl ListeningEnd {
        fn start() -> (Self, SocketAddr) {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let remote = |number: u8| BondedRemote {
                key: key(number).public_key(),
                psk: PresharedKey::default(),
                networks: vec![format!("10.9.0.{number}/32").parse().unwrap()],
                addresses: Vec::new(),
                host: None,
            };
            let connections = ConnectionConfig {
                role: ConnectionRole::Listen { address, handover: None },
                congestion_control: None,
                dscp: Default::default(),
                tuning: ConnectionTuning::default(),
            };
            let config = BondedConfig {
                device: "unused".into(),
                mtu: Some(1500),
                addresses: Vec::new(),
                identity: key(9),
                transports: OuterTransportConfig::Tcp(connections),
                policy: PathPolicy::LeastSent,
                unordered_flows: UnorderedFlows::default(),
                remotes: vec![remote(HONEST), remote(HOSTILE)],
                network_routes: Vec::new(),
                directory: RuntimeDir::from_path(std::env::temp_dir().join("kumade-overlay-io")),
            };
            let transports = OuterTransports::open(&config, 0).unwrap();
            let node = new_node(&config, BufferPool::default()).unwrap();
            (ListeningEnd { transports, node, delivered: [0; 2] }, address)
        }

        /// As [`BondedShard`](crate::shard::BondedShard) does, but for a device.
        fn turn(&mut self, mut is_over: impl FnMut(&Self) -> bool) {
            let mut turn = self.transports.begin_turn(|_| true).unwrap();
            while !is_over(self) && self.transports.receive_next(&mut turn, &mut self.node).unwrap() {
                self.drain();
            }
            self.drain();
            self.transports.advance(&mut self.node, clock::monotonic());
        }

        fn drain(&mut self) {
            let (now, mut output) = (clock::monotonic(), Output::default());
            self.transports.report_room(&mut self.node, now);
            self.node.drain(now, clock::realtime(), &mut output);
            self.transports.send(&mut output.datagrams, &mut self.node, now);
            for packet in output.packets {
                self.delivered[usize::from(packet.bytes()[15]) - 1] += 1;
            }
        }
    }

    /// A peer that sends what it likes over connections.
    struct Peer {
        number: u8,
        endpoint: Endpoint,
        listener: PeerId,
        sessions: SessionTable,
        streams: Vec<TcpStream>,
        sent: u32,
    }

    impl Peer {
        fn connect(number: u8, connections: usize, end: &mut ListeningEnd, address: SocketAddr) -> Self {
            let random = Box::new(StdRng::seed_from_u64(number.into()));
            let mut endpoint = Endpoint::new(key(number), HandshakePolicy::default(), random);
            let listener = endpoint.add_peer(key(9).public_key(), PresharedKey::default()).unwrap();
            let (now, route) = (clock::monotonic(), Route { path: 0, address });
            endpoint.set_routes(listener, vec![route], now);
            endpoint.connect(listener, now);
            let streams = (0..connections).map(|_| TcpStream::connect(address).unwrap()).collect();
            let mut peer = Peer { number, endpoint, listener, sessions: SessionTable::new(), streams, sent: 0 };
            peer.streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
            let mut reader = RecordReader::new();
            while !peer.take_events() {
                end.turn(|_| false);
                match (&peer.streams[0]).read(reader.free_space()) {
                    Ok(count) => reader.add_filled(count),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                while let Some(record) = reader.next_record().unwrap() {
                    let _ = peer.endpoint.receive_from_connection(record, route, clock::monotonic());
                }
            }
            for stream in 0..connections {
                peer.send(stream, 28);
            }
            while end.delivered[usize::from(number) - 1] < connections as u32 {
                end.turn(|_| false);
            }
            peer
        }

        /// Returns whether there is a session.
        fn take_events(&mut self) -> bool {
            let now = clock::monotonic();
            self.endpoint.advance(now, clock::realtime());
            let mut is_established = false;
            while let Some(event) = self.endpoint.next_event() {
                match event {
                    EndpointEvent::Transmit { datagram, .. } => drop(self.write(0, &datagram)),
                    EndpointEvent::Established { peer, session, .. } => {
                        self.sessions.install(peer, session, now);
                        is_established = true;
                    }
                    _ => {}
                }
            }
            is_established
        }

        fn write(&mut self, stream: usize, datagram: &[u8]) -> bool {
            let record = [&record_prefix(datagram.len()).unwrap(), datagram].concat();
            (&self.streams[stream]).write(&record).is_ok_and(|count| count == record.len())
        }

        /// Sends a packet of so many bytes. Returns whether the connection has taken it.
        fn send(&mut self, stream: usize, bytes: usize) -> bool {
            let header = DataHeader { number: self.sent, is_unordered: true, ..Default::default() };
            self.sent += 1;
            let mut room = [0; DataHeader::HEADROOM_BYTES];
            let start = header.write_into_headroom(None::<Predecessor>, &mut room);
            let mut packet = vec![0; bytes];
            (packet[0], packet[3], packet[8], packet[9]) = (0x45, bytes as u8, 64, 17);
            packet[2] = (bytes >> 8) as u8;
            packet[12..16].copy_from_slice(&[10, 9, 0, self.number]);
            let mut datagram = [&[0; SHORT_HEADER_BYTES], &room[start..], &packet, &[0; TAG_BYTES]].concat();
            let counter = (stream as u8, self.sent.into());
            let (form, now) = (HeaderForm::Short, clock::monotonic());
            let sealed = self.sessions.seal_numbered(self.listener, counter, form, &mut datagram, now).unwrap();
            self.write(stream, &datagram[sealed.start..])
        }
    }

    /// How many packets a hostile peer has delivered, of how many that it has sent over 16 connections, when all of an honest one have
    /// been that came after them.
    fn hostile_packets_before_honest_ones() -> (u32, u32) {
        let (mut end, address) = ListeningEnd::start();
        let mut honest = Peer::connect(HONEST, 1, &mut end, address);
        let mut hostile = Peer::connect(HOSTILE, 16, &mut end, address);
        end.delivered = [0; 2];
        let sent_before = hostile.sent;
        // Less where the system takes less.
        for stream in 0..16 {
            let _ = (0..1000).take_while(|_| hostile.send(stream, 28)).count();
        }
        (0..HONEST_PACKETS).for_each(|_| assert!(honest.send(0, 1200)));
        while end.delivered[0] < HONEST_PACKETS {
            end.turn(|end| end.delivered[0] == HONEST_PACKETS);
        }
        (end.delivered[1], hostile.sent - sent_before)
    }

    #[test]
    fn a_peer_with_few_packets_does_not_wait_for_what_another_one_has_sent_over_many_connections() {
        // Where the system takes this thread's processor while it reads the honest peer's, that counts as its time.
        let tries: Vec<_> = (0..5).map(|_| hostile_packets_before_honest_ones()).collect();
        assert!(tries.iter().all(|(_, sent)| *sent > 5000), "{tries:?}");
        assert!(tries.iter().any(|(delivered, sent)| delivered * 4 < *sent), "{tries:?}");
    }
}
