use crate::address_follower::AddressFollower;
use crate::bonded_status::BondedStatus;
use crate::config::BondedConfig;
use crate::device_routes::DeviceRoutes;
use crate::error::BondedError;
use crate::node::{new_node, remote_configs};
use crate::outer_transports::OuterTransports;
use crate::policy_routes::recover;
use crate::shard_link::ShardLink;
use crate::system_watch::SystemWatch;
use kumade_daemon::{ActivityWatch, EndNotice};
use kumade_multipath::dataplane::{HEADROOM_BYTES, Node, NodeNotice, Output, PacketBuffer, ShardSeed};
use kumade_multipath::{PathSet, TrafficClass, UnorderedFlows};
use kumade_net::tun::TunQueue;
use kumade_net::{ResolvedHost, clock, interface};
use kumade_packet::{Classification, FlowDetail};
use kumade_packet_loop::{Buffer, BufferPool, FlowHasher, ReadySources, Shard, WakeReason};
use kumade_units::{Span, Time};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};

/// Reads of the TUN device in a turn, of a packet of up to 64 kB each, so that it does not keep the thread from others.
const MAX_TUN_READS: usize = 8;
/// A packet may leave later than its path's pace has it by this: several that leave together cost little more than one.
const BATCH_INTERVAL: Span = Span::from_micros(150);
/// What IPv6 needs (RFC 8200 §5), in bytes.
const MIN_MTU: u32 = 1280;
/// Notices that are kept until they are asked for, the last ones: of all paths of a tunnel several times over.
const MAX_NOTICES: usize = 256;
/// The longest time between two turns where a far end is not reached: its name may have other addresses by now.
const MAX_SEARCH_SLEEP: Span = Span::from_millis(500);
/// And otherwise: all else has a deadline.
const MAX_SLEEP: Span = Span::from_secs(60);
/// Places of sources, before those of the outer transports.
const SYSTEM_PLACE: usize = 0;
const TUN_PLACE: usize = 1;
const LINK_PLACE: usize = 2;
const FIRST_TRANSPORT_PLACE: usize = 3;

/// A queue of a TUN device and carriers of all paths, and what lies between.
pub(crate) struct BondedShard {
    device: String,
    /// Of the device, where it follows what the paths pass.
    device_mtu: Option<u32>,
    /// Where it does not.
    fixed_mtu: Option<u16>,
    system: SystemWatch,
    /// What was ready when the turn began.
    ready: ReadySources,
    tun: TunQueue,
    /// The device's other queues, until other shards take them.
    queues: Vec<TunQueue>,
    /// Of the first shard, for all.
    routes: Option<DeviceRoutes>,
    link: ShardLink,
    /// Who is told of notices and packets.
    activity: ActivityWatch,
    _end_notice: EndNotice,
    transports: OuterTransports,
    /// Of the first shard, where the only remote is known by its name.
    address_follower: Option<AddressFollower>,
    node: Node<Buffer>,
    unordered_flows: UnorderedFlows,
    flow_hasher: FlowHasher,
    pool: BufferPool,
    output: Output<Buffer>,
    /// Since it was last asked.
    has_other_sources: bool,
    /// What nobody has been told yet.
    notices: Vec<NodeNotice>,
    /// Datagrams and packets that the system did not take.
    refused_packets: u64,
}

impl BondedShard {
    /// The first one.
    pub(crate) fn new(config: BondedConfig, link: ShardLink, activity: ActivityWatch) -> Result<Self, BondedError> {
        recover(&config.directory);
        // From before anything is changed on.
        let system = SystemWatch::open()?;
        let carriers = OuterTransports::open(&config, 0)?;
        let pool = BufferPool::default();
        let node = new_node(&config, pool.clone())?;
        let device_mtu = config.mtu.map_or_else(|| device_mtu(&node), u32::from);
        let mut queues = TunQueue::open(&config.device, device_mtu as u16, config.thread_count())?;
        let routes = DeviceRoutes::install(&config)?;
        let mtu = config.mtu.is_none().then_some(device_mtu);
        let named = config.remotes.first().and_then(|remote| remote.host.clone()).filter(ResolvedHost::is_named);
        let address_follower = named.map(|host| AddressFollower::new(host, clock::monotonic()));
        // There is one at least.
        let tun = queues.remove(0);
        Ok(BondedShard {
            device_mtu: mtu,
            queues,
            routes: Some(routes),
            address_follower,
            ..BondedShard::with_parts(config, tun, carriers, (node, pool), link, (system, activity))
        })
    }

    /// Another one, with a queue that the first has opened.
    pub(crate) fn from_shard_parts(
        config: BondedConfig,
        seed: ShardSeed,
        tun: TunQueue,
        link: ShardLink,
        activity: ActivityWatch,
    ) -> Result<Self, BondedError> {
        let carriers = OuterTransports::open(&config, seed.shard())?;
        let pool = BufferPool::default();
        let buffers = pool.clone();
        let node = Node::from_seed(seed, Box::new(move |bytes| buffers.with_capacity(bytes)), clock::monotonic())?;
        Ok(BondedShard::with_parts(config, tun, carriers, (node, pool), link, (SystemWatch::open()?, activity)))
    }

    fn with_parts(
        config: BondedConfig,
        tun: TunQueue,
        carriers: OuterTransports,
        (node, pool): (Node<Buffer>, BufferPool),
        link: ShardLink,
        (system, activity): (SystemWatch, ActivityWatch),
    ) -> Self {
        let BondedConfig { device, unordered_flows: unordered, mtu: fixed_mtu, .. } = config;
        let (flows, output) = (FlowHasher::new(), Output::default());
        let (mtu, queues, routes) = (None, Vec::new(), None);
        BondedShard {
            device,
            device_mtu: mtu,
            fixed_mtu,
            system,
            ready: ReadySources::default(),
            tun,
            queues,
            routes,
            link,
            _end_notice: activity.end_notice(),
            activity,
            transports: carriers,
            address_follower: None,
            node,
            unordered_flows: unordered,
            flow_hasher: flows,
            pool,
            output,
            has_other_sources: false,
            notices: Vec::new(),
            refused_packets: 0,
        }
    }

    /// Takes over what may change while it runs: the far ends with their networks, the paths, the policy, which flows prefer speed to
    /// order, the device's addresses and MTU. Of several shards, the first one tells the others of far ends. The paths that are
    /// `changed` begin anew.
    ///
    /// # Errors
    /// As when it was made. What came before the error is done; to take over the earlier configuration again undoes it.
    pub(crate) fn reconfigure(&mut self, config: &BondedConfig, changed: PathSet) -> Result<(), BondedError> {
        self.transports.reconfigure(config)?;
        self.has_other_sources = true;
        self.unordered_flows = config.unordered_flows.clone();
        let Some(routes) = &mut self.routes else { return Ok(()) };
        routes.replace(config)?;
        let now = clock::monotonic();
        let places = self.node.reconfigure(remote_configs(config), changed, now)?;
        self.transports.move_remotes(&places, &mut self.node, now);
        self.fixed_mtu = config.mtu;
        match config.mtu {
            // The next turn sets it.
            None => self.device_mtu = self.device_mtu.or(Some(0)),
            Some(mtu) => {
                self.device_mtu = None;
                interface::set_mtu(&self.device, mtu).unwrap_or_else(|error| tracing::warn!("{error}"));
            }
        }
        Ok(())
    }

    /// What another shard begins with; none if it has been asked for all.
    pub(crate) fn next_shard_parts(&mut self) -> Option<(ShardSeed, TunQueue)> {
        let tun = self.queues.pop()?;
        // Queues are taken from the last on.
        Some((self.node.shard_seed(self.queues.len() + 1), tun))
    }

    pub(crate) fn node_mut(&mut self) -> &mut Node<Buffer> {
        &mut self.node
    }

    /// What an administrator has to know, since this was last asked.
    pub(crate) fn take_notices(&mut self) -> Vec<NodeNotice> {
        mem::take(&mut self.notices)
    }

    /// What it has done so far.
    pub(crate) fn status(&self) -> BondedStatus {
        BondedStatus {
            node: self.node.statistics(),
            refused_packets: self.refused_packets,
            threads: 1,
            remotes: self.node.remote_statuses(),
        }
    }

    fn read_packets(&mut self) -> Result<(), BondedError> {
        let BondedShard { tun, node, pool, flow_hasher: flows, unordered_flows: unordered, activity, .. } = self;
        for _ in 0..MAX_TUN_READS {
            let mut packets = match tun.read(HEADROOM_BYTES) {
                Ok(packets) => packets,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return self.replace_device(),
                Err(cause) => return Err(BondedError::Device { device: self.device.clone(), cause }),
            };
            activity.record_movement();
            let now = clock::monotonic();
            // All packets of a read are of one flow.
            let read = packets.frame().get(HEADROOM_BYTES..).unwrap_or_default();
            let classification = Classification::from_packet(read);
            let class = delivery_order(unordered, read, &classification);
            let destination = classification.selector.map(|selector| selector.destination);
            let mut label = flows.queueing_attributes(&classification);
            let is_partial = node.takes_partial_checksums(destination) && packets.leave_checksums_partial();
            let max_bytes = node.max_offloaded_packet_bytes(destination).unwrap_or(0);
            loop {
                let mut buffer = pool.with_capacity(packets.next_bytes(max_bytes) + kumade_noise_session::TAG_BYTES);
                let Some(segment_bytes) = packets.write_next_large(max_bytes, &mut buffer) else { break };
                let packet = PacketBuffer::new(buffer, HEADROOM_BYTES).with_segments(segment_bytes);
                let packet = packet.with_partial_checksum(is_partial);
                label.size = packet.len().max(1) as u32;
                node.send(packet, destination, label, class, now);
            }
        }
        Ok(())
    }

    /// Somebody has deleted the device. The first shard makes it again, since hosts are to use the tunnel and nothing else, until
    /// it is ended.
    fn replace_device(&mut self) -> Result<(), BondedError> {
        let Some(routes) = &mut self.routes else {
            if let Some(queue) = self.link.take_queue() {
                (self.tun, self.has_other_sources) = (queue, true);
            }
            return Ok(());
        };
        tracing::warn!("somebody has deleted {}: making it again", self.device);
        let mtu = self.fixed_mtu.map_or_else(|| device_mtu(&self.node), u32::from);
        let queues = TunQueue::open(&self.device, mtu as u16, self.link.shard_count())?;
        for (shard, queue) in queues.into_iter().enumerate() {
            match shard {
                0 => (self.tun, self.has_other_sources) = (queue, true),
                shard => self.link.hand_over_queue(shard, queue),
            }
        }
        self.device_mtu = self.fixed_mtu.is_none().then_some(mtu);
        routes.restore();
        Ok(())
    }

    fn receive_messages(&mut self) {
        let now = clock::monotonic();
        for message in self.link.receive() {
            self.node.receive_message(message, now);
        }
    }

    /// Sends and delivers what is due. Returns when that was.
    fn drain(&mut self) -> Time {
        // Packets leave now: how long it took to take them is no delay of a path.
        let now = clock::monotonic();
        self.transports.report_room(&mut self.node, now);
        self.node.drain(now, clock::realtime(), &mut self.output);
        self.send_output(now);
        now
    }

    fn send_output(&mut self, now: Time) {
        let BondedShard { tun, link, transports: carriers, node, output, refused_packets: refused, .. } = self;
        let messages = node.take_messages();
        if !messages.is_empty() {
            *refused += link.send(messages);
        }
        *refused += carriers.send(&mut output.datagrams, node, now);
        let is_single = |packet: &PacketBuffer<Buffer>| packet.segment_bytes().is_none();
        if !output.packets.is_empty() {
            self.activity.record_movement();
        }
        for packets in output.packets.chunk_by_mut(|one, next| is_single(one) && is_single(next)) {
            match packets {
                [packet] if let Some(segment_bytes) = packet.segment_bytes() => {
                    *refused += u64::from(tun.write_large(packet.bytes_mut(), segment_bytes).is_err());
                }
                packets => tun.write_batch(packets, PacketBuffer::has_partial_checksum, |_, _| *refused += 1),
            }
        }
        output.packets.clear();
        if !output.notices.is_empty() || node.take_transport_changes() {
            self.activity.notify();
        }
        let excess = (self.notices.len() + output.notices.len()).saturating_sub(MAX_NOTICES);
        self.notices.append(&mut output.notices);
        self.notices.drain(..excess.min(self.notices.len()));
    }

    /// Has what depends on interfaces, addresses and routes looked at where these have changed.
    fn follow_system(&mut self) {
        let now = clock::monotonic();
        if self.system.take_change(self.ready.contains(SYSTEM_PLACE), now) {
            self.routes.iter_mut().for_each(DeviceRoutes::record_change);
            self.transports.follow_system(&mut self.node, now);
        }
    }

    fn follow_far_address(&mut self, now: Time) {
        let BondedShard { address_follower, node, transports, .. } = self;
        let Some(follower) = address_follower else { return };
        if let Some(address) = follower.advance(node.is_reachable(0), now) {
            transports.set_far_address(address, node, now);
        }
    }

    /// The device takes from hosts what all paths pass.
    fn update_device_mtu(&mut self) {
        // While no path's is known to be bounded, it stays as it is.
        let Some(mtu) = self.node.mtu().map(|mtu| mtu.max(MIN_MTU)) else { return };
        if self.device_mtu.is_some_and(|before| before != mtu) {
            self.device_mtu = Some(mtu);
            if let Err(error) = interface::set_mtu(&self.device, mtu as u16) {
                tracing::warn!("{error}");
            }
        }
    }
}

impl Shard for BondedShard {
    type Error = BondedError;

    const MAX_SPIN: Span = Span::ZERO;

    const FOLLOWS_READINESS: bool = true;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let own = [self.system.as_fd(), self.tun.as_fd(), self.link.source()];
        own.into_iter().chain(self.transports.sources()).collect()
    }

    fn take_sources_change(&mut self) -> bool {
        mem::take(&mut self.has_other_sources)
    }

    fn record_ready(&mut self, ready: &ReadySources) {
        self.ready.clone_from(ready);
    }

    fn deferrable_sources(&self) -> u64 {
        u64::from(self.system.deadline().is_some()) << SYSTEM_PLACE
    }

    fn process(&mut self, _: WakeReason) -> Result<Time, BondedError> {
        if self.ready.contains(LINK_PLACE) && self.node.has_other_shards() {
            self.receive_messages();
        }
        self.follow_system();
        let mut turn = self.transports.begin_turn(|place| self.ready.contains(FIRST_TRANSPORT_PLACE + place))?;
        while self.transports.receive_next(&mut turn, &mut self.node)? {
            self.drain();
        }
        if self.ready.contains(TUN_PLACE) {
            self.read_packets()?;
        }
        let now = self.drain();
        self.update_device_mtu();
        self.routes.iter_mut().for_each(|routes| routes.restore_if_due(now));
        self.follow_far_address(now);
        let carriers = self.transports.advance(&mut self.node, now);
        self.has_other_sources |= self.transports.take_sources_change();
        if self.has_other_sources {
            // They are waited for from the next turn on.
            return Ok(now);
        }
        let latest = now + if self.node.is_settled() { MAX_SLEEP } else { MAX_SEARCH_SLEEP };
        let routes = self.routes.as_ref().and_then(DeviceRoutes::deadline);
        let due = self.node.deadline(now).into_iter().chain(carriers).chain(routes).chain(self.system.deadline());
        Ok(due.fold(latest, Time::min).max(now + BATCH_INTERVAL))
    }
}

fn delivery_order(unordered: &UnorderedFlows, packet: &[u8], classification: &Classification) -> TrafficClass {
    let dscp = match packet {
        [first, second, ..] if first >> 4 == 4 => second >> 2,
        [first, second, ..] if first >> 4 == 6 => (first & 15) << 2 | second >> 6,
        _ => 0,
    };
    let ports = match classification.selector.map(|selector| selector.detail) {
        Some(FlowDetail::Ports(source, destination)) => Some((source, destination)),
        _ => None,
    };
    unordered.classify(dscp, ports)
}

/// The longest packet that all paths pass; at least what IPv6 needs.
fn device_mtu(node: &Node<Buffer>) -> u32 {
    node.mtu().map_or(MIN_MTU, |mtu| mtu.max(MIN_MTU))
}
