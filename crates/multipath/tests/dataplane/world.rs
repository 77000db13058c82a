//! Two nodes and the paths between them under a virtual clock.

use kumade_link::Label;
use kumade_link::queue::{FqCoDelConfig, QueueConfig, QueueLimit};
use kumade_multipath::dataplane::{
    HEADROOM_BYTES, Node, NodeConfig, OuterHeaders, Output, PacketBuffer, RemoteConfig, ShardMessage,
};
use kumade_multipath::{
    BondConfig, HeaderCompression, OuterTransport, PathConfig, PathId, PathPolicy, PathSet, ResequencerConfig,
    TrafficClass,
};
use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey, PublicKey, Route};
use kumade_packet::offload::{MergePart, PARTIAL_CHECKSUM, merge};
use kumade_packet::{Classification, Ecn};
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

type Buffer = Box<Vec<u8>>;

/// Of the first shards.
const PORT: u16 = 7272;
/// What a shard tells another, that one hears so much later.
const TELLING: Span = Span::from_millis(1);
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
    /// Of the interface on it, where what the path passes is to be found out.
    pub interface_mtu: Option<u32>,
}

pub fn model(mbit: u64, delay_millis: i64) -> PathModel {
    PathModel {
        rate: Rate::from_mbit(mbit),
        delay: Span::from_millis(delay_millis),
        loss: 0,
        is_cut: false,
        marks: false,
        max_bytes: 1500,
        interface_mtu: None,
    }
}

/// The node that it is for and its shard, whence it comes, its mark, and its bytes.
type Datagram = ((usize, usize), Route, Ecn, Vec<u8>);

pub struct World {
    pub now: Time,
    /// Their first shards.
    pub nodes: [Node<Buffer>; 2],
    /// Their other shards.
    pub others: [Vec<Node<Buffer>>; 2],
    /// What shards tell each other, with when, of which node, and to which.
    told: Vec<(Time, usize, usize, ShardMessage)>,
    keys: [PrivateKey; 2],
    choice: PathPolicy,
    pub paths: Vec<PathModel>,
    /// Nodes with another address on a path than the other one is configured with.
    pub moved: BTreeSet<(usize, usize)>,
    /// For each direction and path: when the bottleneck is free.
    free: [Vec<Time>; 2],
    /// By time and order.
    under_way: BTreeMap<(Time, u64), Datagram>,
    sent: u64,
    random: Pcg64Mcg,
    /// The ECN field of packets of hosts.
    pub ecn: Ecn,
    /// So many packets of one flow are sent as one, where the node takes such; there is one flow then.
    pub packets_at_once: u32,
    /// Packets that stood for several.
    pub large_packets: u32,
    /// What nodes do with headers, from their next start on.
    pub header_compression: [HeaderCompression; 2],
    /// By receiving node: packets whose transport checksum was partial.
    pub partial: [usize; 2],
    /// Packets that stand for themselves have partial checksums, too, where the node takes such.
    pub sends_partial: bool,
    /// Packets belong to so many flows, in turns.
    pub flows: u32,
    /// An end forgets its peer and gets to know it again, without having been restarted: what was compressed for it before is lost.
    pub forgets_peer: bool,
    pub offered: [u32; 2],
    /// By receiving node: packets that were marked under way.
    pub marked: [usize; 2],
    /// By receiving node: numbers of packets in the order in which they came.
    pub received: [Vec<u32>; 2],
}

impl World {
    pub fn new(seed: u64, choice: PathPolicy, paths: Vec<PathModel>) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let keys = [0, 1].map(|_| PrivateKey::from_bytes(random.random()));
        let nodes = [0, 1].map(|own| {
            node(own, &keys, &choice, &paths, (1, HeaderCompression::default()), random.random(), Time::ZERO)
        });
        let free = [0, 1].map(|_| vec![Time::ZERO; paths.len()]);
        let (under_way, received) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
        World {
            now: Time::ZERO,
            nodes,
            others: [Vec::new(), Vec::new()],
            told: Vec::new(),
            keys,
            choice,
            paths,
            moved: BTreeSet::new(),
            free,
            under_way,
            sent: 0,
            random,
            ecn: Ecn::NotEct,
            packets_at_once: 1,
            large_packets: 0,
            header_compression: [HeaderCompression::default(); 2],
            partial: [0, 0],
            flows: 1,
            sends_partial: false,
            forgets_peer: false,
            offered: [0, 0],
            marked: [0, 0],
            received,
        }
    }

    /// The same with nodes of several shards. Flow number *n* is that of shard *n* modulo their number.
    pub fn with_shards(seed: u64, choice: PathPolicy, paths: Vec<PathModel>, shards: [usize; 2]) -> Self {
        let mut world = World::new(seed, choice, paths);
        (0..2).for_each(|own| world.restart_with(own, shards[own]));
        world
    }

    /// Another path between the nodes, which neither uses yet.
    pub fn add_path(&mut self, path: PathModel) {
        self.paths.push(path);
        self.free.iter_mut().for_each(|free| free.push(self.now));
    }

    /// A node has the first paths, so many, from now on, shares packets so, and has the other one for these networks; the paths that
    /// are `changed` are others than before.
    pub fn reconfigure(&mut self, own: usize, choice: &PathPolicy, paths: usize, networks: &[&str], changed: &[u8]) {
        let mut remote = remote_config(own, &self.keys, choice, &self.paths[..paths], self.random.random());
        remote.networks.extend(networks.iter().map(|network| network.parse::<ipnet::IpNet>().unwrap()));
        let changed = PathSet::from_paths(changed.iter().filter_map(|number| PathId::new(*number)));
        self.nodes[own].reconfigure(vec![remote], changed, self.now).unwrap();
    }

    /// The node loses all that it knows.
    pub fn restart(&mut self, own: usize) {
        self.restart_with(own, self.others[own].len() + 1);
    }

    /// It loses all that it knows, and has so many shards then.
    pub fn restart_with(&mut self, own: usize, shards: usize) {
        let seed = self.random.random();
        let kind = (shards, self.header_compression[own]);
        self.nodes[own] = node(own, &self.keys, &self.choice, &self.paths, kind, seed, self.now);
        let other = |shard| Node::from_seed(self.nodes[own].shard_seed(shard), Box::new(buffer), self.now).unwrap();
        self.others[own] = (1..shards).map(other).collect();
        self.told.retain(|(_, of, ..)| *of != own);
    }

    /// The other node, as this one has it.
    pub fn remote(&mut self, own: usize) -> RemoteConfig {
        remote_config(own, &self.keys, &self.choice, &self.paths, self.random.random())
    }

    /// A node that is none of them, for this one, with this network.
    pub fn stranger(&mut self, own: usize, network: &str) -> RemoteConfig {
        let key = PrivateKey::from_bytes(self.random.random()).public_key();
        RemoteConfig { key, networks: vec![network.parse().unwrap()], ..self.remote(own) }
    }

    /// The node's own key.
    pub fn public_key(&self, own: usize) -> PublicKey {
        self.keys[own].public_key()
    }

    fn shard(&mut self, own: usize, shard: usize) -> Option<&mut Node<Buffer>> {
        match shard.checked_sub(1) {
            None => Some(&mut self.nodes[own]),
            Some(place) => self.others[own].get_mut(place),
        }
    }

    /// Node `from` gets packets of its hosts at a constant rate until `end`.
    pub fn run(&mut self, from: usize, mbit: u64, end: Time) {
        let gap = Rate::from_mbit(mbit).time_for(PACKET_BYTES as u64);
        let mut next = self.now;
        while self.now < end {
            while next <= self.now {
                next += gap * self.offer(from).into();
            }
            self.step(next.min(end));
        }
        assert!(self.forgets_peer || self.header_totals().1 == 0, "packets could not be decompressed");
    }

    /// Bytes by which packets of all shards were shorter, and packets that could not be decompressed.
    pub fn header_totals(&self) -> (u64, u64) {
        let nodes = self.nodes.iter().chain(self.others.iter().flatten());
        let totals = nodes.flat_map(Node::remote_statuses);
        let totals = totals.map(|status| (status.saved_header_bytes, status.undecompressed_packets));
        totals.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// Returns how many packets.
    fn offer(&mut self, from: usize) -> u32 {
        let first = packet(from, self.ecn, self.flows, self.offered[from]);
        let classification = Classification::from_packet(&first);
        // As a hash of addresses and ports would be.
        let flow = u64::from(self.offered[from] % self.flows + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let destination = classification.selector.map(|selector| selector.destination);
        let (shard, now) = ((self.offered[from] % self.flows) as usize % (self.others[from].len() + 1), self.now);
        let node = self.shard(from, shard).unwrap();
        let max_bytes = node.max_offloaded_packet_bytes(destination).unwrap_or(0);
        let is_partial = node.takes_partial_checksums(destination);
        let (packet, count) = self.large_packet(from, first, max_bytes);
        let is_partial = is_partial && (count > 1 || self.sends_partial);
        let mut packet = packet.with_partial_checksum(is_partial);
        if is_partial {
            packet.bytes_mut()[26..28].copy_from_slice(&PARTIAL_CHECKSUM);
        }
        let label = Label { size: packet.len() as u32, flow, host: flow, ecn: classification.ecn, ..Label::default() };
        self.shard(from, shard).unwrap().send(packet, destination, label, TrafficClass::Ordered, now);
        self.offered[from] += count;
        count
    }

    /// The next packets as one, no longer than this, and how many.
    fn large_packet(&mut self, from: usize, first: Vec<u8>, max_bytes: usize) -> (PacketBuffer<Buffer>, u32) {
        let mut buffer = vec![0; HEADROOM_BYTES];
        buffer.extend_from_slice(&first);
        let (mut segment_bytes, mut count) = (None, 1);
        while count < self.packets_at_once && buffer.len() - HEADROOM_BYTES + PACKET_BYTES - 28 <= max_bytes {
            let next = packet(from, self.ecn, self.flows, self.offered[from] + count);
            let next = MergePart { packet: &next, segment_bytes: None, has_partial_checksum: false };
            segment_bytes = Some(merge(&mut buffer, HEADROOM_BYTES, (segment_bytes, false), next).expect("the next"));
            count += 1;
        }
        self.large_packets += u32::from(count > 1);
        (PacketBuffer::new(Box::new(buffer), HEADROOM_BYTES).with_segments(segment_bytes), count)
    }

    /// Drains both nodes, and goes on to the next event, at the latest to `latest`.
    fn step(&mut self, latest: Time) {
        self.tell();
        let shards = |own: usize| (0..=self.others[own].len()).map(move |shard| (own, shard));
        for (own, shard) in shards(0).chain(shards(1)).collect::<Vec<_>>() {
            let mut output = Output::default();
            let (now, wall) = (self.now, self.now + Span::from_secs(1_700_000_000));
            let node = self.shard(own, shard).unwrap();
            node.drain(now, wall, &mut output);
            let messages = node.take_messages().into_iter();
            self.told.extend(messages.map(|(to, message)| (now + TELLING, own, to, message)));
            for outbound in output.datagrams {
                self.carry((own, shard), outbound.route, outbound.ds_field.ecn(), outbound.datagram.bytes().to_vec());
            }
            // Hosts are told of packets that are too long (ICMP).
            for mut packet in output.packets.into_iter().filter(|packet| packet.bytes()[9] == 17) {
                if packet.has_partial_checksum() {
                    self.partial[own] += 1;
                    kumade_packet::checksum::set(packet.bytes_mut()).unwrap();
                }
                let number = u32::from_be_bytes(packet.bytes()[28..32].try_into().unwrap());
                let mut expected = self::packet(1 - own, self.ecn, self.flows, number);
                if kumade_packet::ecn::read(packet.bytes()) != self.ecn {
                    assert!(kumade_packet::ecn::mark(&mut expected));
                    self.marked[own] += 1;
                }
                assert_eq!(packet.bytes(), expected, "it was altered");
                self.received[own].push(number);
            }
        }
        let nodes = self.nodes.iter().chain(self.others.iter().flatten());
        let deadlines = nodes.filter_map(|node| node.deadline(self.now));
        let told = self.told.iter().map(|(time, ..)| *time);
        let arrival = self.under_way.first_key_value().map(|((time, _), _)| *time);
        let next = deadlines.chain(arrival).chain(told).min().unwrap_or(latest).min(latest);
        self.now = next.max(self.now + Span::from_nanos(1));
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let ((to, shard), from, ecn, mut datagram) = entry.remove();
            let size = (datagram.len() + OUTER_BYTES) as u32;
            let outer = OuterHeaders {
                route: from,
                transport: OuterTransport::Udp,
                ecn,
                packet_bytes: size,
                arrival: self.now,
            };
            let now = self.now;
            if let Some(node) = self.shard(to, shard) {
                node.receive(&mut datagram, outer, now);
            }
        }
    }

    fn tell(&mut self) {
        let now = self.now;
        for (_, own, shard, message) in self.told.extract_if(.., |(time, ..)| *time <= now).collect::<Vec<_>>() {
            if let Some(node) = self.shard(own, shard) {
                node.receive_message(message, now);
            }
        }
    }

    fn carry(&mut self, (own, shard): (usize, usize), to: Route, ecn: Ecn, datagram: Vec<u8>) {
        let path = usize::from(to.path);
        let PathModel { rate, delay, loss, is_cut, marks, max_bytes, .. } = self.paths[path];
        let (own_address, far_address) = (self.address(own, path), self.address(1 - own, path));
        let free = &mut self.free[own][path];
        let start = (*free).max(self.now);
        let is_too_large = datagram.len() + OUTER_BYTES > max_bytes;
        if is_cut
            || is_too_large
            || to.address.ip() != far_address.ip()
            || (loss > 0 && self.random.random_range(0..loss) == 0)
            || start - self.now > Span::from_millis(200)
        {
            return;
        }
        *free = start + rate.time_for((datagram.len() + OUTER_BYTES) as u64);
        self.sent += 1;
        let mut from = Route { path: to.path, address: own_address };
        from.address.set_port(PORT + shard as u16);
        let far = usize::from(to.address.port() - PORT);
        let ecn = if marks && ecn != Ecn::NotEct { Ecn::Ce } else { ecn };
        self.under_way.insert((*free + delay, self.sent), ((1 - own, far), from, ecn, datagram));
    }

    /// Where a node is on a path.
    fn address(&self, node: usize, path: usize) -> SocketAddr {
        address(node + if self.moved.contains(&(node, path)) { 100 } else { 0 }, path)
    }

    /// Megabits per second that arrived at `to` since as many had.
    pub fn goodput(&self, to: usize, before: usize, span: Span) -> f64 {
        ((self.received[to].len() - before) * PACKET_BYTES * 8) as f64 / span.as_secs_f64() / 1e6
    }
}

fn address(node: usize, path: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2 + path as u8, 1 + node as u8), PORT))
}

fn node(
    own: usize,
    keys: &[PrivateKey; 2],
    choice: &PathPolicy,
    paths: &[PathModel],
    (shards, header_compression): (usize, HeaderCompression),
    seed: u64,
    now: Time,
) -> Node<Buffer> {
    let remotes = vec![remote_config(own, keys, choice, paths, seed)];
    let config =
        NodeConfig { identity: keys[own].clone(), policy: HandshakePolicy::default(), header_compression, remotes };
    let random = Box::new(rand::rngs::StdRng::seed_from_u64(seed));
    Node::first_shard(shards, config, random, Box::new(buffer), now).unwrap()
}

fn remote_config(
    own: usize,
    keys: &[PrivateKey; 2],
    choice: &PathPolicy,
    paths: &[PathModel],
    seed: u64,
) -> RemoteConfig {
    let config = |path: &PathModel| PathConfig {
        rate: Some(path.rate),
        max_rate: None,
        overhead_bytes: (OUTER_BYTES + kumade_noise_session::OVERHEAD_BYTES + 16) as u32,
        ..PathConfig::default()
    };
    let routes = (0..paths.len()).map(|path| Some(Route { path: path as u8, address: address(1 - own, path) }));
    let bond = BondConfig {
        policy: choice.clone(),
        queue: QueueConfig { limit: QueueLimit::Bytes(4_000_000), discipline: FqCoDelConfig::default().into() },
        paths: paths.iter().map(config).collect(),
        seed,
    };
    RemoteConfig {
        key: keys[1 - own].public_key(),
        psk: PresharedKey::default(),
        networks: vec![format!("10.0.{}.0/24", 1 - own).parse().unwrap()],
        routes: routes.collect(),
        interface_mtus: paths.iter().filter_map(|path| path.interface_mtu).map(Some).collect(),
        max_packet_bytes: u32::MAX,
        bond,
        resequencer: ResequencerConfig::default(),
    }
}

fn buffer(bytes: usize) -> Buffer {
    Box::new(Vec::with_capacity(bytes))
}

/// A UDP packet to the other node's network, of one of so many flows, whose payload begins with its number.
fn packet(from: usize, ecn: Ecn, flows: u32, number: u32) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..PACKET_BYTES).map(|index| (index as u32 ^ number) as u8).collect();
    packet[..28].fill(0);
    (packet[0], packet[1], packet[8], packet[9]) = (0x45, ecn as u8, 64, 17);
    packet[2..4].copy_from_slice(&(PACKET_BYTES as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&[10, 0, from as u8, 9]);
    packet[16..20].copy_from_slice(&[10, 0, 1 - from as u8, 9]);
    packet[4..6].copy_from_slice(&((number / flows) as u16).to_be_bytes());
    packet[20..22].copy_from_slice(&((number % flows) as u16).to_be_bytes());
    packet[24..26].copy_from_slice(&(PACKET_BYTES as u16 - 20).to_be_bytes());
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    kumade_packet::checksum::set(&mut packet).unwrap();
    packet
}
