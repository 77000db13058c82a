//! Two nodes and the paths between them under a virtual clock.

use dataplane::{HEADROOM, Node, NodeConfig, Output, PacketBuffer, RemoteConfig};
use link::Label;
use link::queue::{FqCoDelConfig, Limit, QueueConfig};
use multipath::{BondConfig, Class, PathChoice, PathConfig, ResequencerConfig};
use packet::Classification;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use secure::{Policy, PresharedKey, PrivateKey, Route};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use units::{Rate, Span, Time};

type Buffer = Box<Vec<u8>>;

/// What outer headers add to a datagram on its path.
const OUTER_BYTES: usize = 28;
const PACKET_BYTES: usize = 1200;

#[derive(Debug, Clone, Copy)]
struct PathModel {
    rate: Rate,
    delay: Span,
    /// One packet in so many is lost; 0 for none.
    loss: u32,
    is_cut: bool,
}

fn model(mbit: u64, delay_millis: i64) -> PathModel {
    PathModel { rate: Rate::from_mbit(mbit), delay: Span::from_millis(delay_millis), loss: 0, is_cut: false }
}

struct World {
    now: Time,
    nodes: [Node<Buffer>; 2],
    keys: [PrivateKey; 2],
    choice: PathChoice,
    paths: Vec<PathModel>,
    /// For each direction and path: when the bottleneck is free.
    free: [Vec<Time>; 2],
    /// By time and order: to which node, from which route, what.
    under_way: BTreeMap<(Time, u64), (usize, Route, Vec<u8>)>,
    sent: u64,
    random: Pcg64Mcg,
    offered: [u32; 2],
    /// By receiving node: numbers of packets in the order in which they came.
    received: [Vec<u32>; 2],
}

impl World {
    fn new(seed: u64, choice: PathChoice, paths: Vec<PathModel>) -> Self {
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
            offered: [0, 0],
            received,
        }
    }

    /// The node loses all that it knows.
    fn restart(&mut self, own: usize) {
        self.nodes[own] = node(own, &self.keys, &self.choice, &self.paths, self.random.random(), self.now);
    }

    /// Node `from` gets packets of its hosts at a constant rate until `end`.
    fn run(&mut self, from: usize, mbit: u64, end: Time) {
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
        buffer.extend_from_slice(&packet(from, self.offered[from]));
        let packet = PacketBuffer::new(Box::new(buffer), HEADROOM);
        let classification = Classification::of(packet.bytes());
        let label = Label { size: PACKET_BYTES as u32, flow: 7, ecn: classification.ecn };
        self.nodes[from].send(packet, &classification, label, Class::Ordered, self.now);
        self.offered[from] += 1;
    }

    /// Drains both nodes, and goes on to the next event, at the latest to `latest`.
    fn step(&mut self, latest: Time) {
        for own in 0..2 {
            let mut output = Output::default();
            let wall = self.now + Span::from_secs(1_700_000_000);
            self.nodes[own].drain(self.now, wall, &mut output);
            for outbound in output.datagrams {
                self.carry(own, outbound.to, outbound.datagram.bytes().to_vec());
            }
            for packet in output.packets {
                let number = u32::from_be_bytes(packet.bytes()[20..24].try_into().unwrap());
                assert_eq!(packet.bytes(), self::packet(1 - own, number), "it was altered");
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
            let (to, from, datagram) = entry.remove();
            let size = (datagram.len() + OUTER_BYTES) as u32;
            self.nodes[to].receive(PacketBuffer::new(Box::new(datagram), 0), from, size, self.now);
        }
    }

    fn carry(&mut self, own: usize, to: Route, datagram: Vec<u8>) {
        let path = usize::from(to.path);
        let PathModel { rate, delay, loss, is_cut } = self.paths[path];
        let free = &mut self.free[own][path];
        let start = (*free).max(self.now);
        if is_cut || (loss > 0 && self.random.random_range(0..loss) == 0) || start - self.now > Span::from_millis(200) {
            return;
        }
        *free = start + rate.time_for((datagram.len() + OUTER_BYTES) as u64);
        self.sent += 1;
        let from = Route { path: to.path, address: address(own, path) };
        self.under_way.insert((*free + delay, self.sent), (1 - own, from, datagram));
    }

    /// Megabits per second that arrived at `to` since as many had.
    fn goodput(&self, to: usize, before: usize, span: Span) -> f64 {
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
        bond,
        resequencer: ResequencerConfig::default(),
    };
    let config = NodeConfig { identity: keys[own].clone(), policy: Policy::default(), remotes: vec![remote] };
    let random = Box::new(rand::rngs::StdRng::seed_from_u64(seed));
    Node::new(config, random, Box::new(|bytes| Box::new(Vec::with_capacity(bytes))), now).unwrap()
}

/// A UDP packet to the other node's network, with its number in place of the ports, which no one reads.
fn packet(from: usize, number: u32) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..PACKET_BYTES).map(|index| (index as u32 ^ number) as u8).collect();
    packet[..20].fill(0);
    (packet[0], packet[8], packet[9]) = (0x45, 64, 253);
    packet[2..4].copy_from_slice(&(PACKET_BYTES as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&[10, 0, from as u8, 9]);
    packet[16..20].copy_from_slice(&[10, 0, 1 - from as u8, 9]);
    packet[20..24].copy_from_slice(&number.to_be_bytes());
    packet
}

fn is_ordered(numbers: &[u32]) -> bool {
    numbers.is_sorted()
}

#[test]
fn unequal_paths_carry_their_sum_in_order() {
    for choice in [PathChoice::Weighted, PathChoice::EarliestArrival] {
        let mut world = World::new(1, choice.clone(), vec![model(8, 1), model(8, 25)]);
        world.run(0, 20, Time::ZERO + Span::from_secs(2));
        let before = world.received[1].len();
        world.run(0, 20, Time::ZERO + Span::from_secs(12));
        let goodput = world.goodput(1, before, Span::from_secs(10));
        // Of 16 Mbit/s, encapsulation leaves 1200 of 1304 bytes.
        assert!(goodput > 0.97 * 16.0 * 1200.0 / 1304.0, "{choice:?}: {goodput} Mbit/s");
        assert!(is_ordered(&world.received[1]), "{choice:?}: nothing was lost on the paths");
    }
}

#[test]
fn a_path_that_dies_stops_nothing_for_long_and_is_used_again() {
    let mut world = World::new(2, PathChoice::Weighted, vec![model(8, 10), model(8, 20)]);
    world.run(0, 12, Time::ZERO + Span::from_secs(3));
    world.paths[0].is_cut = true;
    world.run(0, 12, Time::ZERO + Span::from_secs(4));
    let before = world.received[1].len();
    world.run(0, 12, Time::ZERO + Span::from_secs(8));
    assert!(world.goodput(1, before, Span::from_secs(4)) > 7.0, "the other path's");
    world.paths[0].is_cut = false;
    world.run(0, 12, Time::ZERO + Span::from_secs(20));
    let before = world.received[1].len();
    world.run(0, 12, Time::ZERO + Span::from_secs(24));
    assert!(world.goodput(1, before, Span::from_secs(4)) > 11.5, "both paths'");
    assert!(is_ordered(&world.received[1]));
}

#[test]
fn a_peer_that_restarts_is_served_again() {
    for own in 0..2 {
        let mut world = World::new(3, PathChoice::Weighted, vec![model(8, 10), model(8, 20)]);
        world.run(0, 4, Time::ZERO + Span::from_secs(3));
        world.restart(own);
        world.run(0, 4, Time::ZERO + Span::from_secs(30));
        let before = world.received[1].len();
        world.run(0, 4, Time::ZERO + Span::from_secs(32));
        assert!(world.goodput(1, before, Span::from_secs(2)) > 3.9, "node {own} restarted");
    }
}

#[test]
fn keys_change_without_a_trace() {
    let mut world = World::new(4, PathChoice::Weighted, vec![model(8, 1), model(8, 25)]);
    world.run(0, 1, Time::ZERO + Span::from_secs(400));
    world.run(0, 0, Time::ZERO + Span::from_secs(401));
    let received = &world.received[1];
    assert!(is_ordered(received));
    // The first ones wait for the session in a queue that drops what waits too long.
    assert!(
        u32::try_from(received.len()).unwrap() > world.offered[0] - 20,
        "{} of {}",
        received.len(),
        world.offered[0]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn packets_arrive_once_and_unaltered_whatever_paths_do(
        seed: u64,
        paths in prop::collection::vec((1u64..50, 0i64..80, 0u32..200), 1..5),
        cuts in prop::collection::vec((0usize..5, any::<bool>()), 0..6),
        choice in prop::sample::select(vec![
            PathChoice::Weighted, PathChoice::EarliestArrival, PathChoice::Redundant, PathChoice::Pinned,
        ]),
    ) {
        let paths: Vec<_> = paths
            .into_iter()
            .map(|(mbit, delay, loss)| PathModel { loss: if loss < 20 { 0 } else { loss }, ..model(mbit, delay) })
            .collect();
        let mut world = World::new(seed, choice, paths);
        world.run(0, 10, Time::ZERO + Span::from_secs(1));
        for (path, is_cut) in cuts {
            let path = path % world.paths.len();
            world.paths[path].is_cut = is_cut;
            world.run(0, 10, world.now + Span::from_millis(300));
            world.run(1, 10, world.now + Span::from_millis(300));
        }
        for numbers in &world.received {
            prop_assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "none twice");
        }
    }
}
