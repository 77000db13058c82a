//! Two nodes under a virtual clock, and between them paths that shrink, are cut, lead elsewhere, or spoil what they carry.

use kumade_link::Label;
use kumade_multipath::dataplane::{
    HEADROOM_BYTES, Node, NodeConfig, NodeNotice, OuterHeaders, Output, PacketBuffer, RemoteConfig,
};
use kumade_multipath::{
    BondConfig, HeaderCompression, OuterTransport, PathConfig, PathPolicy, ResequencerConfig, TrafficClass,
};
use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey, Route};
use kumade_packet::{Classification, Ecn};
use kumade_units::{Rate, Span, Time};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

pub type Buffer = Box<Vec<u8>>;

/// What outer headers add to a datagram on its path.
pub const OUTER_BYTES: usize = 28;

#[derive(Debug, Clone, Copy)]
pub struct Path {
    pub delay: Span,
    /// Longer IP packets are lost without a word.
    pub mtu: usize,
    pub is_cut: bool,
    pub faults: Faults,
}

/// What becomes of datagrams by chance: probabilities from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    /// Of a byte.
    pub corruption: f64,
    pub reordering: f64,
    /// By how much those that are reordered are late at most.
    pub max_reordering_delay: Span,
}

/// What both nodes have.
#[derive(Debug, Clone)]
struct Settings {
    max_packet: u32,
    policy: PathPolicy,
    /// Peers besides, which do not answer.
    silent_peers: u16,
}

pub struct FaultyNetwork {
    pub now: Time,
    pub nodes: [Node<Buffer>; 2],
    pub paths: Vec<Path>,
    /// What each node's clock shows more than the time.
    pub clock_offsets: [Span; 2],
    /// Where datagrams of node 0 come from.
    pub address_of_first: Ipv4Addr,
    /// By receiving node, in their order.
    pub received: [Vec<Vec<u8>>; 2],
    /// What each node's administrator was told.
    pub notices: [Vec<NodeNotice>; 2],
    /// The next datagram to node 1 that is longer than this is kept in `held_back`.
    pub holds_back: Option<usize>,
    pub held_back: Vec<(usize, Route, Vec<u8>)>,
    settings: Settings,
    keys: [PrivateKey; 2],
    random: StdRng,
    /// By time and order: to which node, from which route, what.
    under_way: BTreeMap<(Time, u64), (usize, Route, Vec<u8>)>,
    sent: u64,
    offered: u32,
}

const RATE: Rate = Rate::from_mbit(100);
const INTERFACE_MTU: u32 = 1500;
const WALL_CLOCK_START: Span = Span::from_secs(1_800_000_000);

pub fn path(delay_millis: i64, mtu: usize) -> Path {
    Path { delay: Span::from_millis(delay_millis), mtu, is_cut: false, faults: Faults::default() }
}

impl FaultyNetwork {
    /// Hosts send packets of at most so many bytes.
    pub fn new(paths: Vec<Path>, max_packet: u32) -> Self {
        FaultyNetwork::with_seed(1, paths, max_packet)
    }

    pub fn with_seed(seed: u64, paths: Vec<Path>, max_packet: u32) -> Self {
        FaultyNetwork::with_settings(
            seed,
            paths,
            Settings { max_packet, policy: PathPolicy::Weighted, silent_peers: 0 },
        )
    }

    pub fn with_policy(paths: Vec<Path>, policy: PathPolicy) -> Self {
        FaultyNetwork::with_settings(1, paths, Settings { max_packet: u32::MAX, policy, silent_peers: 0 })
    }

    /// The nodes try to reach so many others, too, and have given each an index.
    pub fn with_silent_peers(paths: Vec<Path>, silent_peers: u16) -> Self {
        let settings = Settings { max_packet: u32::MAX, policy: PathPolicy::Weighted, silent_peers };
        FaultyNetwork::with_settings(1, paths, settings)
    }

    fn with_settings(seed: u64, paths: Vec<Path>, settings: Settings) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let keys = [0, 1].map(|_| PrivateKey::from_bytes(random.random()));
        let nodes = [0, 1].map(|own| node(own, &keys, paths.len(), &settings, true, &mut random, Time::ZERO));
        FaultyNetwork {
            now: Time::ZERO,
            nodes,
            paths,
            clock_offsets: [Span::ZERO; 2],
            address_of_first: Ipv4Addr::new(192, 0, 2, 1),
            received: [Vec::new(), Vec::new()],
            notices: [Vec::new(), Vec::new()],
            holds_back: None,
            held_back: Vec::new(),
            settings,
            keys,
            random,
            under_way: BTreeMap::new(),
            sent: 0,
            offered: 0,
        }
    }

    /// The node loses all that it knows but its key.
    pub fn restart(&mut self, own: usize) {
        self.nodes[own] = node(own, &self.keys, self.paths.len(), &self.settings, true, &mut self.random, self.now);
    }

    /// The same of a node that waits for the other one, whose addresses it does not know.
    pub fn restart_as_listener(&mut self, own: usize) {
        self.nodes[own] = node(own, &self.keys, self.paths.len(), &self.settings, false, &mut self.random, self.now);
    }

    pub fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.step(end);
        }
    }

    /// Meanwhile node 0 gets numbered packets of so many bytes from its hosts, one each millisecond. Returns their numbers.
    pub fn transfer(&mut self, bytes: usize, span: Span) -> std::ops::Range<u32> {
        let end = self.now + span;
        let first = self.offered;
        while self.now < end {
            self.offer(0, &numbered(self.offered, bytes));
            self.offered += 1;
            self.run(Span::from_millis(1));
        }
        first..self.offered
    }

    /// A host of this node sends a packet.
    pub fn offer(&mut self, own: usize, packet: &[u8]) {
        let mut buffer = vec![0; HEADROOM_BYTES];
        buffer.extend_from_slice(packet);
        let packet = PacketBuffer::new(Box::new(buffer), HEADROOM_BYTES);
        let classification = Classification::from_packet(packet.bytes());
        let label = Label { size: packet.len() as u32, flow: 7, host: 7, ecn: classification.ecn, ..Label::default() };
        let destination = classification.selector.map(|selector| selector.destination);
        self.nodes[own].send(packet, destination, label, TrafficClass::Ordered, self.now);
    }

    /// Bytes that nobody has sealed arrive at this node by the first path, as from the other node.
    pub fn forge(&mut self, to: usize, datagram: Vec<u8>) {
        let from = Route { path: 0, address: self.address(1 - to, 0) };
        self.schedule_arrival(Span::ZERO, (to, from, datagram));
    }

    /// What was held back arrives.
    pub fn release_held_back(&mut self) {
        for held in std::mem::take(&mut self.held_back) {
            self.schedule_arrival(Span::ZERO, held);
        }
    }

    /// Lets what is under way arrive, and takes no notice of it.
    pub fn discard_deliveries(&mut self) {
        self.run(Span::from_secs(1));
        self.received[1].clear();
    }

    /// The numbers of the packets that node 1 has delivered, in their order.
    pub fn numbers(&self) -> Vec<u32> {
        self.received[1].iter().map(|packet| u32::from_be_bytes(packet[20..24].try_into().unwrap())).collect()
    }

    pub fn is_connected(&self) -> bool {
        self.nodes.iter().all(|node| node.remote_statuses()[0].is_connected)
    }

    /// Drains both nodes, and goes on to the next event, at the latest to `latest`.
    fn step(&mut self, latest: Time) {
        for own in 0..2 {
            let mut output = Output::default();
            let wall = self.now + WALL_CLOCK_START + self.clock_offsets[own];
            self.nodes[own].drain(self.now, wall, &mut output);
            for outbound in output.datagrams {
                self.carry(own, outbound.route, outbound.datagram.bytes().to_vec());
            }
            self.notices[own].append(&mut output.notices);
            self.received[own].extend(output.packets.iter().map(|packet| packet.bytes().to_vec()));
        }
        let deadlines = self.nodes.iter().filter_map(|node| node.deadline(self.now));
        let arrival = self.under_way.first_key_value().map(|((time, _), _)| *time);
        let next = deadlines.chain(arrival).min().unwrap_or(latest).min(latest);
        self.now = next.max(self.now + Span::from_nanos(1));
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, from, mut datagram) = entry.remove();
            let size = (datagram.len() + OUTER_BYTES) as u32;
            let outer = OuterHeaders {
                route: from,
                transport: OuterTransport::Udp,
                ecn: Ecn::NotEct,
                packet_bytes: size,
                arrival: self.now,
            };
            self.nodes[to].receive(&mut datagram, outer, self.now);
        }
    }

    fn carry(&mut self, own: usize, to: Route, mut datagram: Vec<u8>) {
        let Some(Path { delay, mtu, is_cut, faults }) = self.paths.get(usize::from(to.path)).copied() else { return };
        let from = Route { path: to.path, address: self.address(own, to.path) };
        let is_there = to.address == self.address(1 - own, to.path);
        if own == 0 && self.holds_back.is_some_and(|bytes| datagram.len() > bytes) {
            self.holds_back = None;
            self.held_back.push((1, from, datagram));
            return;
        }
        if is_cut || !is_there || datagram.len() + OUTER_BYTES > mtu || self.happens(faults.loss) {
            return;
        }
        if self.happens(faults.corruption) {
            let place = self.random.random_range(0..datagram.len());
            datagram[place] ^= 1 << self.random.random_range(0..8);
        }
        let is_late = self.happens(faults.reordering);
        let late = if is_late { faults.max_reordering_delay * self.random.random_range(1..=8) / 8 } else { Span::ZERO };
        if self.happens(faults.duplication) {
            self.schedule_arrival(delay + faults.max_reordering_delay, (1 - own, from, datagram.clone()));
        }
        self.schedule_arrival(delay + late, (1 - own, from, datagram));
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.random_bool(probability)
    }

    fn schedule_arrival(&mut self, delay: Span, datagram: (usize, Route, Vec<u8>)) {
        self.sent += 1;
        self.under_way.insert((self.now + delay, self.sent), datagram);
    }

    fn address(&self, node: usize, path: u8) -> SocketAddr {
        let first = self.address_of_first.octets();
        let ip = if node == 0 { [first[0], first[1], first[2] + path, first[3]] } else { [192, 0, 2 + path, 9] };
        SocketAddr::from((ip, 7273))
    }
}

fn node(
    own: usize,
    keys: &[PrivateKey; 2],
    paths: usize,
    settings: &Settings,
    knows_other: bool,
    random: &mut StdRng,
    now: Time,
) -> Node<Buffer> {
    let config = PathConfig {
        rate: Some(RATE),
        max_rate: None,
        overhead_bytes: OUTER_BYTES as u32 + kumade_multipath::dataplane::OVERHEAD_BYTES,
        ..PathConfig::default()
    };
    let far = |path: u8| SocketAddr::from(([192, 0, 2 + path, if own == 0 { 9 } else { 1 }], 7273));
    let remote = RemoteConfig {
        key: keys[1 - own].public_key(),
        psk: PresharedKey::default(),
        networks: vec![
            format!("10.0.{}.0/24", 1 - own).parse().unwrap(),
            format!("fd0{}::/64", 1 - own).parse().unwrap(),
        ],
        routes: (0..paths as u8).map(|path| knows_other.then(|| Route { path, address: far(path) })).collect(),
        interface_mtus: vec![Some(INTERFACE_MTU); paths],
        max_packet_bytes: settings.max_packet,
        bond: BondConfig {
            policy: settings.policy.clone(),
            queue: BondConfig::managed_queue(),
            paths: vec![config; paths],
            seed: 1,
        },
        resequencer: ResequencerConfig::default(),
    };
    let silent = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let address = SocketAddr::from(([198, 18, high, low], 7273));
        RemoteConfig {
            key: PrivateKey::from_bytes(std::array::from_fn(|place| [7, high, low][place.min(2)])).public_key(),
            networks: vec![format!("10.1.{high}.{low}/32").parse().unwrap()],
            routes: (0..paths as u8).map(|path| Some(Route { path, address })).collect(),
            ..remote.clone()
        }
    };
    let remotes = [remote.clone()].into_iter().chain((0..settings.silent_peers).map(silent)).collect();
    let config = NodeConfig {
        identity: keys[own].clone(),
        policy: HandshakePolicy::default(),
        header_compression: HeaderCompression::default(),
        remotes,
    };
    let seeded = Box::new(StdRng::seed_from_u64(random.random()));
    Node::new(config, seeded, Box::new(|bytes| Box::new(Vec::with_capacity(bytes))), now).unwrap()
}

/// A packet from a host of node 0 to one of node 1, with its number behind the IP header.
pub fn numbered(number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    (packet[0], packet[8], packet[9]) = (0x45, 64, 253);
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[12..20].copy_from_slice(&[10, 0, 0, 9, 10, 0, 1, 9]);
    packet[20..24].copy_from_slice(&number.to_be_bytes());
    packet
}
