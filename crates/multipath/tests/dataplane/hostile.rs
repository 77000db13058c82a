//! A peer with a valid key that says anything: messages of each kind whose numbers are as great and as small as they can be.
//! Overflow is checked in tests, so that each place that relies on a peer's numbers fails here.

use kumade_link::Label;
use kumade_multipath::dataplane::{HEADROOM_BYTES, Node, NodeConfig, OuterHeaders, Output, PacketBuffer, RemoteConfig};
use kumade_multipath::message::{DataHeader, Message, Missing, MtuQuery, Probe};
use kumade_multipath::{
    BondConfig, HeaderCompression, OuterTransport, PathConfig, PathId, PathPolicy, PathReport, Predecessor,
    ResequencerConfig, TrafficClass,
};
use kumade_noise_session::{
    DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, HandshakePolicy, HeaderForm, PeerId, PresharedKey, PrivateKey,
    Route, SHORT_HEADER_BYTES, SessionTable, TAG_BYTES,
};
use kumade_packet::{Classification, Ecn};
use kumade_units::{Rate, Span, Time};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

type Buffer = Box<Vec<u8>>;

/// Where the hostile peer is.
const PEER_NETWORK: [u8; 3] = [10, 0, 1];
const HOST: [u8; 4] = [10, 0, 0, 5];
const START: Time = Time::from_nanos(1 << 40);

struct Hostile {
    node: Node<Buffer>,
    endpoint: Endpoint,
    table: SessionTable,
    peer: PeerId,
    now: Time,
    paths: u8,
    random: StdRng,
    /// Datagrams that the node has sent to it, which honest numbers are near.
    node_datagrams: u64,
    /// Packets of its hosts.
    offered: u64,
    /// Of each path, the last that it has given a datagram.
    counters: [u64; PathId::MAX_PATHS],
    is_connected: bool,
}

fn buffer(bytes: usize) -> Buffer {
    Box::new(Vec::with_capacity(bytes))
}

fn address(path: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, path], 7272))
}

impl Hostile {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let keys = [0, 1].map(|_| PrivateKey::generate(&mut random));
        let paths = random.random_range(1..=3);
        let policies = [PathPolicy::EarliestArrival, PathPolicy::Redundant, PathPolicy::Weighted];
        let transports = [OuterTransport::Udp, OuterTransport::Tcp];
        let path_config = |number: u8| PathConfig {
            rate: Some(Rate::from_mbit(50)),
            overhead_bytes: 28 + kumade_multipath::dataplane::OVERHEAD_BYTES,
            transport: transports[usize::from(number) % 2],
            ..PathConfig::default()
        };
        let bond = BondConfig {
            policy: policies[random.random_range(0..policies.len())].clone(),
            queue: BondConfig::managed_queue(),
            paths: (0..paths).map(path_config).collect(),
            seed,
        };
        let remote = RemoteConfig {
            key: keys[1].public_key(),
            psk: PresharedKey::default(),
            networks: vec![format!("{}/24", IpAddr::from([10, 0, 1, 0])).parse().unwrap()],
            routes: (0..paths).map(|path| Some(Route { path, address: address(path) })).collect(),
            interface_mtus: vec![Some(1500); usize::from(paths)],
            max_packet_bytes: 1500,
            bond,
            resequencer: ResequencerConfig::default(),
        };
        let config = NodeConfig {
            identity: keys[0].clone(),
            policy: HandshakePolicy::default(),
            header_compression: HeaderCompression::default(),
            remotes: vec![remote],
        };
        let node = Node::new(config, Box::new(StdRng::seed_from_u64(seed)), Box::new(buffer), START).unwrap();
        let own = Box::new(StdRng::seed_from_u64(seed ^ 1));
        let mut endpoint = Endpoint::new(
            keys[1].clone(),
            HandshakePolicy { capabilities: u8::MAX, ..HandshakePolicy::default() },
            own,
        );
        let peer = endpoint.add_peer(keys[0].public_key(), PresharedKey::default()).unwrap();
        endpoint.set_routes(peer, vec![Route { path: 0, address: address(0) }], START);
        endpoint.connect(peer, START);
        Hostile {
            node,
            endpoint,
            table: SessionTable::new(),
            peer,
            now: START,
            paths,
            random,
            node_datagrams: 0,
            offered: 0,
            counters: [0; PathId::MAX_PATHS],
            is_connected: false,
        }
    }

    /// Any number, extreme ones above all, and those near one that is honest.
    fn number(&mut self, honest: u64) -> u64 {
        match self.random.random_range(0..7) {
            0 => self.random.random(),
            1 => u64::MAX - self.random.random_range(0..3),
            2 => self.random.random_range(0..2),
            3 => 1 << self.random.random_range(0..64),
            4 => (1 << self.random.random_range(0..64)) - 1,
            5 => honest.wrapping_sub(self.random.random_range(0..3)),
            _ => honest.wrapping_add(self.random.random_range(0..3000)),
        }
    }

    /// A packet, as it is, or with headers that are compressed, or to be kept.
    fn compressed_packet(&mut self) -> Vec<u8> {
        let mut packet = self.packet();
        if packet.len() >= 40 && self.random.random_bool(0.5) {
            let length = packet.len() as u16 - 20;
            packet[4..12].copy_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0]);
            packet[24..26].copy_from_slice(&length.to_be_bytes());
            // Others than IPv4 stay what they are.
            let _ = kumade_packet::checksum::set(&mut packet);
        }
        let kept = self.number(3) as u8 % 4;
        match (packet.first_mut(), self.random.random_range(0..4)) {
            (Some(first), 0) => *first |= 0x10,
            (Some(first), flags @ 1..=2) => {
                *first = 0x40 + 0x40 * flags;
                packet.insert(1, kept);
            }
            _ => {}
        }
        packet
    }

    /// A packet from its network, or anything.
    fn packet(&mut self) -> Vec<u8> {
        let mut packet = vec![0; self.random.random_range(0..1500)];
        self.random.fill_bytes(&mut packet);
        let length = (packet.len() as u16).to_be_bytes();
        if packet.len() >= 40 && self.random.random_bool(0.9) {
            packet[..4].copy_from_slice(&[0x45, 0, length[0], length[1]]);
            packet[9] = [6, 17, 1, 253][self.random.random_range(0..4)];
            packet[12..15].copy_from_slice(&PEER_NETWORK);
            packet[16..20].copy_from_slice(&HOST);
        }
        packet
    }

    fn message(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let honest = self.node_datagrams;
        match self.random.random_range(0..11) {
            0..=2 => {
                let header = DataHeader {
                    bucket: self.random.random_range(0..3),
                    number: self.number(honest) as u32,
                    is_unordered: self.random.random_bool(0.2),
                    is_redundant: self.random.random_bool(0.2),
                    requests_report: self.random.random_bool(0.3),
                    segment_bytes: NonZeroU16::new([0, 0, 1, 1400, u16::MAX][self.random.random_range(0..5)]),
                };
                let count = self.random.random_range(0..4);
                let predecessors: Vec<_> = (0..count)
                    .map(|_| {
                        let path = PathId::new(self.random.random_range(0..16)).unwrap();
                        Predecessor::new(path, self.number(honest))
                    })
                    .collect();
                let mut room = [0; DataHeader::HEADROOM_BYTES];
                let start = header.write_into_headroom(predecessors, &mut room);
                text.extend_from_slice(&room[start..]);
                text.extend(self.compressed_packet());
            }
            3 => Message::Probe(Probe { size: 32 }).write(&mut text),
            4 | 5 => {
                let nanos = self.now.as_nanos() as u64;
                let report = PathReport {
                    highest_counter: self.number(honest),
                    received_packets: self.number(honest),
                    received_bytes: self.number(honest * 1000),
                    arrival: Time::from_nanos(self.number(nanos) as i64),
                    hold_time: Span::from_nanos(i64::from(self.number(1000) as u32)),
                };
                Message::Report(report).write(&mut text);
            }
            8 => {
                let first_counter = self.number(honest) % PathReport::MAX_COUNT;
                let offsets: Vec<_> =
                    (1..self.random.random_range(1..80u16)).map(|step| (step * 3).to_be_bytes()).collect();
                let path = PathId::new(self.random.random_range(0..16)).unwrap();
                Message::Missing(Missing { path, first_counter, offsets: &offsets }).write(&mut text);
            }
            9 => {
                let entry = |attacker: &mut Self| {
                    let number = attacker.number(honest) as u32;
                    [attacker.random.random_range(0..16), 0, 0, (number >> 8) as u8, number as u8, 0, number as u8]
                };
                text.push(0xe6);
                (0..self.random.random_range(1..70)).for_each(|_| text.extend(entry(self)));
            }
            10 => Message::ForgetHeaders(self.number(honest) as u16 & 0x3fff).write(&mut text),
            6 => Message::MtuAnswer(self.number(honest) as u32).write(&mut text),
            _ => Message::MtuProbe(MtuQuery { number: self.number(honest) as u32, size: 1400 }).write(&mut text),
        }
        text
    }

    fn send(&mut self) {
        let path = self.random.random_range(0..self.paths);
        let text = self.message();
        let form = if self.random.random_bool(0.7) { HeaderForm::Short } else { HeaderForm::Whole };
        let header_bytes = if form == HeaderForm::Short { SHORT_HEADER_BYTES } else { HEADER_BYTES };
        let mut datagram = [&[0; HEADER_BYTES][..header_bytes], &text, &[0; TAG_BYTES]].concat();
        let sealed = if self.random.random_bool(0.1) {
            let mut uncounted = [&[0; HEADER_BYTES][..], &text, &[0; TAG_BYTES]].concat();
            std::mem::swap(&mut datagram, &mut uncounted);
            self.table.seal(self.peer, path, &mut datagram, self.now)
        } else {
            // Most often the next one, sometimes one that is far ahead.
            let is_next = self.random.random_bool(0.95);
            let step = if is_next { 1 } else { 1 << self.random.random_range(0..44) };
            self.counters[usize::from(path)] += step;
            let counter = (path, self.counters[usize::from(path)]);
            self.table.seal_numbered(self.peer, counter, form, &mut datagram, self.now)
        };
        match sealed {
            Ok(sealed) => self.deliver(datagram.split_off(sealed.start), path),
            Err(_) => self.endpoint.connect(self.peer, self.now),
        }
    }

    fn deliver(&mut self, mut datagram: Vec<u8>, path: u8) {
        let transport = if path.is_multiple_of(2) { OuterTransport::Udp } else { OuterTransport::Tcp };
        let packet_bytes = datagram.len() as u32 + 28;
        let route = Route { path, address: address(path) };
        let outer = OuterHeaders { route, transport, ecn: Ecn::NotEct, packet_bytes, arrival: self.now };
        self.node.receive(&mut datagram, outer, self.now);
    }

    /// A host of the node sends.
    fn offer(&mut self) {
        let mut packet = vec![0; self.random.random_range(28..1400)];
        let length = (packet.len() as u16).to_be_bytes();
        packet[..4].copy_from_slice(&[0x45, 0, length[0], length[1]]);
        (packet[8], packet[9]) = (64, 17);
        packet[12..16].copy_from_slice(&HOST);
        packet[16..19].copy_from_slice(&PEER_NETWORK);
        let datagram_bytes = packet.len() as u16 - 20;
        packet[24..26].copy_from_slice(&datagram_bytes.to_be_bytes());
        kumade_packet::checksum::set(&mut packet).unwrap();
        let packet = PacketBuffer::new(Box::new([&[0; HEADROOM_BYTES][..], &packet].concat()), HEADROOM_BYTES);
        let Classification { selector, ecn, .. } = Classification::from_packet(packet.bytes());
        let label =
            Label { size: packet.len() as u32, flow: self.random.random_range(0..9), host: 7, ecn, ..Label::default() };
        let destination = selector.map(|selector| selector.destination);
        self.offered += 1;
        self.node.send(packet, destination, label, TrafficClass::Ordered, self.now);
    }

    fn exchange(&mut self) {
        let wall = START + Span::from_secs(1_800_000_000);
        self.endpoint.advance(self.now, wall);
        while let Some(event) = self.endpoint.next_event() {
            match event {
                EndpointEvent::Transmit { datagram, .. } => self.deliver(datagram, 0),
                EndpointEvent::Established { peer, session, .. } => {
                    self.table.install(peer, session, self.now);
                    self.is_connected = true;
                }
                EndpointEvent::Unreachable { .. } | EndpointEvent::Notice(_) => {}
            }
        }
        let mut output = Output::default();
        self.node.drain(self.now, wall, &mut output);
        for sent in output.datagrams {
            self.node_datagrams += 1;
            let mut datagram = sent.datagram.bytes().to_vec();
            if DatagramKind::from_datagram(&datagram) == Some(DatagramKind::Data) {
                let _ = self.table.open(&mut datagram, self.now);
                self.endpoint.record_data_received(self.peer, self.now);
            } else {
                let _ = self.endpoint.receive(&datagram, Route { path: 0, address: address(0) }, self.now);
            }
        }
        for packet in &output.packets {
            let source = Classification::from_packet(packet.bytes()).selector.map(|selector| selector.source);
            let is_own = matches!(source, Some(IpAddr::V4(source)) if source.octets()[..3] == PEER_NETWORK);
            // The node itself tells its hosts of packets that are too long.
            let is_icmp = packet.bytes().get(9) == Some(&1);
            assert!(is_own || is_icmp, "a packet from {source:?}");
        }
        let statuses = self.node.remote_statuses();
        assert!(statuses[0].waiting_packets <= 100_000, "{}", statuses[0].waiting_packets);
        // Of what a path has taken, one in 32, and 64 at once; what is repeated is taken, too.
        let most = (64 + self.offered / 32) * 32 / 31 + 1;
        assert!(statuses[0].repeated_packets <= most, "{} of {}", statuses[0].repeated_packets, self.offered);
        let mut sum = statuses[0].clone();
        sum.merge(&statuses[0]);
        let _ = (self.node.mtu(), self.node.deadline(self.now));
    }

    fn step(&mut self) {
        match self.random.random_range(0..12) {
            0 => self.now += Span::from_millis([1, 20, 1000, 6000][self.random.random_range(0..4)]),
            1 | 2 => self.now += Span::from_micros(self.random.random_range(0..3000)),
            3..=5 => self.offer(),
            _ => self.send(),
        }
        self.exchange();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_peer_whose_numbers_are_as_great_as_can_be_does_no_harm(seed: u64) {
        let mut hostile = Hostile::new(seed);
        (0..3).for_each(|_| hostile.exchange());
        prop_assert!(hostile.is_connected);
        (0..400).for_each(|_| hostile.step());
    }
}
