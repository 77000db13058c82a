//! Two nodes and the paths between them under a virtual clock.
#![allow(dead_code, reason = "each test uses its part")]

use dataplane::{HEADROOM, Node, NodeConfig, OuterHeaders, Output, PacketBuffer, RemoteConfig};
use link::Label;
use link::queue::{FqCoDelConfig, Limit, QueueConfig};
use multipath::{BondConfig, Class, PathChoice, PathConfig, ResequencerConfig};
use packet::{Classification, Ecn};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use secure::{Policy, PresharedKey, PrivateKey, Route};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use units::{Rate, Span, Time};

type Buffer = Box<Vec<u8>>;

/// What outer headers add to a datagram on its path.
const OUTER_BYTES: usize = 28;
pub const PACKET_BYTES: usize = 1200;

#[derive(Debug, Clone, Copy)]
pub struct PathModel {
    pub rate: Rate,
    pub delay: Span,
    /// One packet in so many is lost; 0 for none.
    pub loss: u32,
    pub is_cut: bool,
    /// Its queue marks what it may (RFC 3168).
    pub marks: bool,
    /// Larger packets vanish on it.
    pub max_bytes: usize,
}

pub fn model(mbit: u64, delay_millis: i64) -> PathModel {
    PathModel {
        rate: Rate::from_mbit(mbit),
        delay: Span::from_millis(delay_millis),
        loss: 0,
        is_cut: false,
        marks: false,
        max_bytes: 1500,
    }
}

/// The node that it is for, whence it comes, its mark, and its bytes.
type Datagram = (usize, Route, Ecn, Vec<u8>);

pub struct World {
    pub now: Time,
    pub nodes: [Node<Buffer>; 2],
    keys: [PrivateKey; 2],
    choice: PathChoice,
    pub paths: Vec<PathModel>,
    /// For each direction and path: when the bottleneck is free.
    free: [Vec<Time>; 2],
    /// By time and order.
    under_way: BTreeMap<(Time, u64), Datagram>,
    sent: u64,
    random: Pcg64Mcg,
    /// The ECN field of packets of hosts.
    pub ecn: Ecn,
    /// Packets belong to so many flows, in turns.
    pub flows: u32,
    pub offered: [u32; 2],
    /// By receiving node: packets that were marked under way.
    pub marked: [usize; 2],
    /// By receiving node: numbers of packets in the order in which they came.
    pub received: [Vec<u32>; 2],
}

impl World {
    pub fn new(seed: u64, choice: PathChoice, paths: Vec<PathModel>) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let keys = [0, 1].map(|_| PrivateKey::from_bytes(random.random()));
        let nodes = [0, 1].map(|own| node(own, &keys, &choice, &paths, random.random(), Time::ZERO));
        let free = [0, 1].map(|_| vec![Time::ZERO; paths.len()]);
        let (under_way, received) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
        World {
            now: Time::ZERO,
            nodes,
            keys,
            choice,
            paths,
            free,
            under_way,
            sent: 0,
            random,
            ecn: Ecn::NotEct,
            flows: 1,
            offered: [0, 0],
            marked: [0, 0],
            received,
        }
    }

    /// The node loses all that it knows.
    pub fn restart(&mut self, own: usize) {
        self.nodes[own] = node(own, &self.keys, &self.choice, &self.paths, self.random.random(), self.now);
    }

    /// Node `from` gets packets of its hosts at a constant rate until `end`.
    pub fn run(&mut self, from: usize, mbit: u64, end: Time) {
        let gap = Rate::from_mbit(mbit).time_for(PACKET_BYTES as u64);
        let mut next = self.now;
        while self.now < end {
            while next <= self.now {
                self.offer(from);
                next += gap;
            }
            self.step(next.min(end));
        }
    }

    fn offer(&mut self, from: usize) {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&packet(from, self.ecn, self.offered[from]));
        let packet = PacketBuffer::new(Box::new(buffer), HEADROOM);
        let classification = Classification::of(packet.bytes());
        // As a hash of addresses and ports would be.
        let flow = u64::from(self.offered[from] % self.flows + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let label = Label { size: PACKET_BYTES as u32, flow, ecn: classification.ecn };
        let destination = classification.selector.map(|selector| selector.destination);
        self.nodes[from].send(packet, destination, label, Class::Ordered, self.now);
        self.offered[from] += 1;
    }

    /// Drains both nodes, and goes on to the next event, at the latest to `latest`.
    fn step(&mut self, latest: Time) {
        for own in 0..2 {
            let mut output = Output::default();
            let wall = self.now + Span::from_secs(1_700_000_000);
            self.nodes[own].drain(self.now, wall, &mut output);
            for outbound in output.datagrams {
                self.carry(own, outbound.to, outbound.ecn, outbound.datagram.bytes().to_vec());
            }
            for packet in output.packets {
                let number = u32::from_be_bytes(packet.bytes()[20..24].try_into().unwrap());
                let mut expected = self::packet(1 - own, self.ecn, number);
                if packet::ecn::read(packet.bytes()) != self.ecn {
                    assert!(packet::ecn::mark(&mut expected));
                    self.marked[own] += 1;
                }
                assert_eq!(packet.bytes(), expected, "it was altered");
                self.received[own].push(number);
            }
        }
        let deadlines = self.nodes.iter().filter_map(|node| node.deadline(self.now));
        let arrival = self.under_way.first_key_value().map(|((time, _), _)| *time);
        let next = deadlines.chain(arrival).min().unwrap_or(latest).min(latest);
        self.now = next.max(self.now + Span::from_nanos(1));
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, from, ecn, mut datagram) = entry.remove();
            let size = (datagram.len() + OUTER_BYTES) as u32;
            let outer = OuterHeaders { from, ecn, size, arrived: self.now };
            self.nodes[to].receive(&mut datagram, outer, self.now);
        }
    }

    fn carry(&mut self, own: usize, to: Route, ecn: Ecn, datagram: Vec<u8>) {
        let path = usize::from(to.path);
        let PathModel { rate, delay, loss, is_cut, marks, max_bytes } = self.paths[path];
        let free = &mut self.free[own][path];
        let start = (*free).max(self.now);
        let is_too_large = datagram.len() + OUTER_BYTES > max_bytes;
        if is_cut
            || is_too_large
            || (loss > 0 && self.random.random_range(0..loss) == 0)
            || start - self.now > Span::from_millis(200)
        {
            return;
        }
        *free = start + rate.time_for((datagram.len() + OUTER_BYTES) as u64);
        self.sent += 1;
        let from = Route { path: to.path, address: address(own, path) };
        let ecn = if marks && ecn != Ecn::NotEct { Ecn::Ce } else { ecn };
        self.under_way.insert((*free + delay, self.sent), (1 - own, from, ecn, datagram));
    }

    /// Megabits per second that arrived at `to` since as many had.
    pub fn goodput(&self, to: usize, before: usize, span: Span) -> f64 {
        ((self.received[to].len() - before) * PACKET_BYTES * 8) as f64 / span.as_secs_f64() / 1e6
    }
}

fn address(node: usize, path: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2 + path as u8, 1 + node as u8), 7272))
}

fn node(
    own: usize,
    keys: &[PrivateKey; 2],
    choice: &PathChoice,
    paths: &[PathModel],
    seed: u64,
    now: Time,
) -> Node<Buffer> {
    let config = |path: &PathModel| PathConfig {
        rate: Some(path.rate),
        max_rate: None,
        overhead_bytes: (OUTER_BYTES + secure::OVERHEAD + 16) as u32,
        ..PathConfig::default()
    };
    let routes = (0..paths.len()).map(|path| Some(Route { path: path as u8, address: address(1 - own, path) }));
    let bond = BondConfig {
        choice: choice.clone(),
        queue: QueueConfig { limit: Limit::Bytes(4_000_000), discipline: FqCoDelConfig::default().into() },
        paths: paths.iter().map(config).collect(),
        seed,
    };
    let remote = RemoteConfig {
        key: keys[1 - own].public(),
        psk: PresharedKey::default(),
        networks: vec![format!("10.0.{}.0/24", 1 - own).parse().unwrap()],
        routes: routes.collect(),
        interface_mtus: Vec::new(),
        max_packet: u32::MAX,
        bond,
        resequencer: ResequencerConfig::default(),
    };
    let config = NodeConfig { identity: keys[own].clone(), policy: Policy::default(), remotes: vec![remote] };
    let random = Box::new(rand::rngs::StdRng::seed_from_u64(seed));
    Node::new(config, random, Box::new(|bytes| Box::new(Vec::with_capacity(bytes))), now).unwrap()
}

/// A UDP packet to the other node's network, with its number in place of the ports, which no one reads.
fn packet(from: usize, ecn: Ecn, number: u32) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..PACKET_BYTES).map(|index| (index as u32 ^ number) as u8).collect();
    packet[..20].fill(0);
    (packet[0], packet[1], packet[8], packet[9]) = (0x45, ecn as u8, 64, 253);
    packet[2..4].copy_from_slice(&(PACKET_BYTES as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&[10, 0, from as u8, 9]);
    packet[16..20].copy_from_slice(&[10, 0, 1 - from as u8, 9]);
    packet[20..24].copy_from_slice(&number.to_be_bytes());
    packet
}
