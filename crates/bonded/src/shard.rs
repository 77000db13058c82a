use crate::config::BondedConfig;
use crate::path_routes::{PathRoutes, RouteError};
use crate::status::BondedStatus;
use dataplane::{HEADROOM, Node, NodeConfig, NodeError, Outbound, OuterHeaders, Output, PacketBuffer, RemoteConfig};
use multipath::{BondConfig, Class, PathConfig, ResequencerConfig, UnorderedFlows};
use net::interface::{self, Family};
use net::tun::TunQueue;
use net::udp::{BatchReceiver, BatchSocket, Refusal};
use net::{Binding, SetupError, clock};
use packet::{Classification, Detail};
use rand::SeedableRng;
use rand::rngs::StdRng;
use runtime::{Buffer, BufferPool, FlowHasher, Shard, StampClock, Wake};
use secure::{Policy, Route};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;
use units::{Span, Time};

/// Why the bonded plane cannot start, or ended.
#[derive(Debug, Error)]
pub enum BondedError {
    /// The system refuses a device, a socket or a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Datagrams cannot be routed by their paths' next hops.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Two remote sites share what only one can have.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The TUN device has gone.
    #[error("cannot read packets of local hosts from {device}: {cause}")]
    Device {
        /// Its name.
        device: String,
        /// What happened.
        cause: io::Error,
    },
    /// A socket has failed.
    #[error("cannot receive datagrams on path {path}: {cause}")]
    Receive {
        /// The path's number.
        path: usize,
        /// What happened.
        cause: io::Error,
    },
    /// No randomness for keys.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

/// What queues are tuned for, as RFC 8289 §4.3 recommends for paths that are not known.
const ROUND_TRIP: Span = Span::from_millis(100);
/// Reads of a source in a turn, so that no source keeps the thread from the others, however much comes: 16 messages of a
/// socket each, …
const MAX_SOCKET_READS: usize = 2;
/// … and a packet of up to 64 kB of the TUN device.
const MAX_TUN_READS: usize = 8;
/// A packet may leave later than its path's pace has it by this: several that leave together cost little more than one.
const BATCH_INTERVAL: Span = Span::from_micros(150);
/// The longest time between two turns.
const MAX_SLEEP: Span = Span::from_millis(500);

/// A TUN device and the sockets of all paths, and what lies between.
pub(crate) struct BondedShard {
    device: String,
    /// Of the device, where it follows what the paths pass.
    mtu: Option<u32>,
    tun: TunQueue,
    sockets: Vec<BatchSocket>,
    receivers: Vec<BatchReceiver>,
    node: Node<Buffer>,
    unordered: UnorderedFlows,
    flows: FlowHasher,
    pool: BufferPool,
    output: Output<Buffer>,
    stamps: StampClock,
    check_clock_at: Time,
    /// Datagrams and packets that the system did not take.
    refused: u64,
    routes: PathRoutes,
}

impl BondedShard {
    pub(crate) fn new(config: BondedConfig) -> Result<Self, BondedError> {
        let routes = PathRoutes::install(&config.routes, &config.directory, clock::monotonic())?;
        let mut sockets = Vec::new();
        for (place, (binding, _)) in config.paths.iter().enumerate() {
            sockets.push(BatchSocket::bind(binding, config.family(place), config.port)?);
        }
        let pool = BufferPool::default();
        let node = node(&config, pool.clone())?;
        let device_mtu = config.mtu.map_or_else(|| device_mtu(&node), u32::from);
        let tun = open_device(&config, device_mtu as u16)?;
        let mtu = config.mtu.is_none().then_some(device_mtu);
        let receivers = sockets.iter().map(BatchReceiver::new).collect();
        let BondedConfig { device, unordered, .. } = config;
        let (flows, output) = (FlowHasher::new(), Output::default());
        let (stamps, check_clock_at) = (StampClock::new(), clock::monotonic());
        Ok(BondedShard {
            device,
            mtu,
            tun,
            sockets,
            receivers,
            node,
            unordered,
            flows,
            pool,
            output,
            stamps,
            check_clock_at,
            refused: 0,
            routes,
        })
    }

    pub(crate) fn node_mut(&mut self) -> &mut Node<Buffer> {
        &mut self.node
    }

    /// What it has done so far.
    pub(crate) fn status(&self) -> BondedStatus {
        BondedStatus { node: self.node.statistics(), refused: self.refused, remotes: self.node.remotes() }
    }

    fn take_datagrams(&mut self) -> Result<(), BondedError> {
        let BondedShard { receivers, node, stamps, .. } = self;
        for (path, receiver) in receivers.iter_mut().enumerate() {
            for _ in 0..MAX_SOCKET_READS {
                let count = receiver.receive(|received| {
                    let now = clock::monotonic();
                    let stamp = received.stamp.map(|stamp| stamps.to_monotonic(stamps.from_stamp(stamp, Time::ZERO)));
                    let arrived = stamp.map_or(now, |stamp| stamp.min(now));
                    let from = Route { path: path as u8, address: received.from };
                    let (ecn, outer) = (received.ecn, BondedConfig::outer_bytes(Family::of(from.address.ip())));
                    for datagram in received.datagrams() {
                        let size = datagram.len() as u32 + outer;
                        node.receive(datagram, OuterHeaders { from, ecn, size, arrived }, now);
                    }
                });
                match count {
                    Ok(0) => break,
                    Ok(_) => {}
                    // What a router or the far end reported of an earlier datagram.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(cause) => return Err(BondedError::Receive { path, cause }),
                }
            }
        }
        Ok(())
    }

    fn take_packets(&mut self) -> Result<(), BondedError> {
        let BondedShard { tun, node, pool, flows, unordered, .. } = self;
        for _ in 0..MAX_TUN_READS {
            let mut packets = match tun.read(HEADROOM) {
                Ok(packets) => packets,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(cause) => return Err(BondedError::Device { device: self.device.clone(), cause }),
            };
            let now = clock::monotonic();
            // All packets of a read are of one flow.
            let mut flow = None;
            let mut buffer = pool.with_capacity(packets.longest() + secure::TAG);
            while packets.write_next(&mut buffer) {
                let packet = PacketBuffer::new(buffer, HEADROOM);
                let (destination, mut label, class) = *flow.get_or_insert_with(|| {
                    let classification = Classification::of(packet.bytes());
                    let destination = classification.selector.map(|selector| selector.destination);
                    (destination, flows.label(&classification), class(unordered, &packet, &classification))
                });
                label.size = packet.len().max(1) as u32;
                node.send(packet, destination, label, class, now);
                buffer = pool.with_capacity(packets.longest() + secure::TAG);
            }
        }
        Ok(())
    }

    fn send_output(&mut self, now: Time) {
        let BondedShard { tun, sockets, node, output, refused, .. } = self;
        // Only those of one path need their order, and what goes to one address leaves together.
        output.datagrams.sort_by_key(|datagram| datagram.to.path);
        for run in output.datagrams.chunk_by(|one, other| one.to == other.to && one.ecn == other.ecn) {
            let Some(Outbound { to, ecn, .. }) = run.first() else { continue };
            let Some(socket) = sockets.get(usize::from(to.path)) else { continue };
            let sent = socket.send(to.address, *ecn, run, |index, refusal| {
                *refused += 1;
                if matches!(refusal, Refusal::TooLong) {
                    node.refused(*to, run[index].datagram.len(), now);
                }
            });
            // A full send buffer is a full queue.
            *refused += (run.len() - sent) as u64;
        }
        output.datagrams.clear();
        tun.write_batch(&output.packets, |_, _| *refused += 1);
        output.packets.clear();
    }

    /// The device takes from hosts what all paths pass.
    fn follow_mtu(&mut self) {
        let mtu = device_mtu(&self.node);
        if self.mtu.is_some_and(|before| before != mtu) {
            self.mtu = Some(mtu);
            if let Err(error) = interface::set_mtu(&self.device, mtu as u16) {
                tracing::warn!("{error}");
            }
        }
    }
}

impl Shard for BondedShard {
    type Error = BondedError;

    const SPIN: Span = Span::ZERO;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.receivers.iter().map(AsFd::as_fd).chain([self.tun.as_fd()]).collect()
    }

    fn turn(&mut self, _: Wake) -> Result<Time, BondedError> {
        self.take_datagrams()?;
        self.take_packets()?;
        // Packets leave now: how long it took to take them is no delay of a path.
        let now = clock::monotonic();
        self.node.drain(now, clock::realtime(), &mut self.output);
        self.send_output(now);
        self.follow_mtu();
        self.routes.follow_interfaces(now);
        if now >= self.check_clock_at {
            self.check_clock_at = now + MAX_SLEEP;
            self.stamps.check_for_step();
        }
        let latest = now + MAX_SLEEP;
        Ok(self.node.deadline(now).map_or(latest, |deadline| deadline.clamp(now + BATCH_INTERVAL, latest)))
    }
}

fn class(unordered: &UnorderedFlows, packet: &PacketBuffer<Buffer>, classification: &Classification) -> Class {
    let dscp = match packet.bytes() {
        [first, second, ..] if first >> 4 == 4 => second >> 2,
        [first, second, ..] if first >> 4 == 6 => (first & 15) << 2 | second >> 6,
        _ => 0,
    };
    let ports = match classification.selector.map(|selector| selector.detail) {
        Some(Detail::Ports(source, destination)) => Some((source, destination)),
        _ => None,
    };
    unordered.class(dscp, ports)
}

fn open_device(config: &BondedConfig, mtu: u16) -> Result<TunQueue, BondedError> {
    let mut queues = TunQueue::open(&config.device, mtu, 1)?;
    for address in &config.addresses {
        interface::add_address(&config.device, *address)?;
    }
    for network in config.remotes.iter().flat_map(|remote| &remote.networks) {
        interface::add_route(&config.device, *network)?;
    }
    // There is one.
    Ok(queues.remove(0))
}

fn interface_mtu(binding: &Binding) -> Result<u32, SetupError> {
    const ETHERNET: u32 = 1500;
    binding.interface.as_deref().map_or(Ok(ETHERNET), interface::mtu)
}

/// The longest packet that all paths pass; at least what IPv6 needs (RFC 8200 §5).
fn device_mtu(node: &Node<Buffer>) -> u32 {
    const MIN: u32 = 1280;
    node.mtu().map_or(MIN, |mtu| mtu.max(MIN))
}

fn node(config: &BondedConfig, pool: BufferPool) -> Result<Node<Buffer>, BondedError> {
    let interface_mtus =
        config.paths.iter().map(|(binding, _)| interface_mtu(binding)).collect::<Result<Vec<_>, _>>()?;
    let remotes = config.remotes.iter().enumerate().map(|(number, remote)| {
        let paths = config.paths.iter().enumerate().map(|(path, (_, rate))| PathConfig {
            rate: *rate,
            max_rate: None,
            overhead_bytes: BondedConfig::outer_bytes(config.family(path)) + dataplane::OVERHEAD,
        });
        let routes = remote.addresses.iter().enumerate();
        let routes = routes.map(|(path, address)| address.map(|address| Route { path: path as u8, address }));
        RemoteConfig {
            key: remote.key,
            psk: remote.psk.clone(),
            networks: remote.networks.clone(),
            routes: routes.collect(),
            interface_mtus: interface_mtus.clone(),
            max_packet: config.mtu.map_or(u32::MAX, u32::from),
            bond: BondConfig {
                choice: config.choice.clone(),
                queue: BondConfig::queue_for(ROUND_TRIP),
                paths: paths.collect(),
                seed: number as u64,
            },
            resequencer: ResequencerConfig::default(),
        }
    });
    let node = NodeConfig { identity: config.identity.clone(), policy: Policy::default(), remotes: remotes.collect() };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(BondedError::Random)?;
    let random = Box::new(StdRng::from_seed(seed));
    let buffers = Box::new(move |bytes| pool.with_capacity(bytes));
    Ok(Node::new(node, random, buffers, clock::monotonic())?)
}
