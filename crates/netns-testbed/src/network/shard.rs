use super::access::AccessLinks;
use super::error::NetworkError;
use super::spec::{AccessSpec, NetworkSpec};
use crate::device::Device;
use crate::directed_link::{DirectedLink, IDLE_TICK, MIN_IDLE_TIME, ORDERING_DELAY, PendingPacket, RECORD_LENGTH};
use kumade_link::{Counters, Delivery, Label};
use kumade_middlebox::{self, Middlebox, PacketAction};
use kumade_net::clock;
use kumade_packet::{Classification, Ecn, ecn};
use kumade_packet_loop::{Buffer, BufferPool, FlowHasher, Shard, WakeReason};
use kumade_units::{Direction, Span, Time};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Packets written at most in a turn.
const MAX_WRITES_PER_TURN: usize = 64;

/// The near end of a host's device, and the host's addresses and access links.
pub(super) struct Attachment {
    pub(super) device: Device,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ect: Option<Ecn>,
    pub(super) access: Vec<AccessSpec>,
}

/// Packets of one direction, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketDrops {
    /// By the link, and its other counts: packets of hosts.
    pub packets: Counters,
    /// By the link: computed cross traffic.
    pub cross: Counters,
    /// By the middlebox, with or without an answer.
    pub refused: u64,
    /// To an address that no host on the other side has.
    pub unroutable: u64,
    /// Never seen, because the packet thread was too slow. Should be zero.
    pub missed: u64,
}

/// Where a host is attached.
struct HostPort {
    device: Device,
    addresses: Vec<IpAddr>,
    ect: Option<Ecn>,
    access: Option<AccessLinks>,
}

impl HostPort {
    fn new(attachment: Attachment) -> Result<Self, NetworkError> {
        let Attachment { device, addresses, ect, access } = attachment;
        let access = AccessLinks::new(&access, clock::realtime())?;
        Ok(HostPort { device, addresses, ect, access })
    }
}

/// All hosts' devices, and both directions of the links between them.
pub(super) struct NetworkShard {
    left: Vec<HostPort>,
    right: Vec<HostPort>,
    up: DirectedLink,
    down: DirectedLink,
    pub(super) middlebox: Option<Middlebox>,
    last_tick: Time,
    flows: FlowHasher,
    pool: BufferPool,
}

impl NetworkShard {
    pub(super) fn new(attachments: Vec<Attachment>, spec: &NetworkSpec) -> Result<Self, NetworkError> {
        let now = clock::realtime();
        let ports = attachments.into_iter().map(HostPort::new);
        let mut left: Vec<_> = ports.collect::<Result<_, _>>()?;
        let right = left.split_off(spec.left.len());
        let up = DirectedLink::new(spec.up.clone(), spec.up_queue.as_ref(), spec.up_second_hop.clone(), now)?;
        let down = DirectedLink::new(spec.down.clone(), spec.down_queue.as_ref(), spec.down_second_hop.clone(), now)?;
        let (flows, pool) = (FlowHasher::new(), BufferPool::default());
        Ok(NetworkShard { left, right, up, down, middlebox: None, last_tick: now, flows, pool })
    }

    pub(super) fn link(&mut self, direction: Direction) -> &mut DirectedLink {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    pub(super) fn drops(&mut self, direction: Direction) -> PacketDrops {
        let senders = match direction {
            Direction::Up => &mut self.left,
            Direction::Down => &mut self.right,
        };
        let missed = senders.iter_mut().map(|port| port.device.missed_packets()).sum();
        let link = self.link(direction);
        let ledger = link.bottleneck().ledger();
        PacketDrops {
            packets: *ledger.packet_counters(),
            cross: *ledger.cross_counters(),
            refused: link.refused,
            unroutable: link.unroutable,
            missed,
        }
    }

    /// Brings both directions up to the present, as far as it can be known.
    pub(super) fn catch_up(&mut self) {
        self.collect();
        self.advance_links(clock::realtime() - ORDERING_DELAY);
    }

    /// Takes the packets that the hosts have sent.
    fn collect(&mut self) {
        let (flows, pool) = (&self.flows, &self.pool);
        for (ports, link) in [(&mut self.left, &mut self.up), (&mut self.right, &mut self.down)] {
            for (index, port) in ports.iter_mut().enumerate() {
                let is_cross = index > 0;
                while let Some((stamp, mut packet)) = port.device.next(|stamp, bytes| (stamp, pool.copy_from(bytes))) {
                    if let Some(ect) = port.ect.filter(|_| ecn::read(&packet) == Ecn::Ect0) {
                        ecn::set(&mut packet, ect);
                    }
                    let classification = Classification::from_packet(&packet);
                    // The stack's multicasts to its neighbours concern nobody here.
                    if classification.selector.is_none_or(|selector| selector.destination.is_multicast()) {
                        continue;
                    }
                    let label = flows.attributes_of_both_ends(&classification);
                    match &mut port.access {
                        Some(access) => access.to_bottleneck.offer(packet, label, stamp),
                        None => {
                            let arrived =
                                PendingPacket { stamp, packet, label, is_cross, has_passed_middlebox: is_cross };
                            link.record_read(arrived, clock::realtime());
                        }
                    }
                }
            }
        }
    }

    /// Brings both directions' links to `horizon`, up to which all that was sent is known.
    fn advance_links(&mut self, horizon: Time) {
        for (index, port) in self.left.iter_mut().enumerate() {
            let Some(access) = &mut port.access else { continue };
            let is_cross = index > 0;
            access.to_bottleneck.advance(horizon, |Delivery { packet, label, due: stamp, .. }| {
                self.up.push(PendingPacket { stamp, packet, label, is_cross, has_passed_middlebox: is_cross });
            });
        }
        while let Some(arrived) = self.up.pop_ordered(horizon) {
            self.process_outbound(arrived);
        }
        while let Some(arrived) = self.down.pop_ordered(horizon) {
            self.down.offer(arrived);
        }
        self.up.advance(horizon);
        self.down.advance(horizon);
    }

    /// The middlebox is in front of the measuring host, on the left: its packets pass it before the link up, and after the
    /// link down.
    fn process_outbound(&mut self, mut arrived: PendingPacket) {
        let action = match &mut self.middlebox {
            Some(middlebox) if !arrived.has_passed_middlebox => {
                let action =
                    middlebox.process_packet(kumade_middlebox::Direction::Outbound, &mut arrived.packet, arrived.stamp);
                // It may have other addresses and ports now.
                arrived.label = label(&self.flows, &arrived.packet);
                action
            }
            _ => PacketAction::Forward,
        };
        self.up.refused +=
            u64::from(!matches!(action, PacketAction::Forward | PacketAction::Hairpin | PacketAction::Hold));
        let stamp = arrived.stamp;
        match action {
            PacketAction::Forward => self.up.offer(arrived),
            PacketAction::Hairpin => self.deliver_to_left_host(arrived.packet, stamp),
            PacketAction::Drop | PacketAction::Hold => {}
            PacketAction::Reply(packet) => drop(write_to_host(&self.left, &packet)),
            PacketAction::Reset(pair) => {
                write_to_host(&self.left, &pair.to_source);
                let packet = self.pool.copy_from(&pair.to_destination);
                let label = label(&self.flows, &packet);
                self.up.offer(PendingPacket { packet, label, ..arrived });
            }
        }
        self.forward_held_fragments(stamp);
    }

    /// Forwards fragments that the middlebox held until the first one of their datagram arrived.
    fn forward_held_fragments(&mut self, stamp: Time) {
        while let Some(released) = self.middlebox.as_mut().and_then(Middlebox::next_released) {
            let packet = self.pool.copy_from(&released.packet);
            match released.direction {
                kumade_middlebox::Direction::Outbound => {
                    let label = label(&self.flows, &packet);
                    self.up.offer(PendingPacket { stamp, packet, label, is_cross: false, has_passed_middlebox: true });
                }
                kumade_middlebox::Direction::Inbound => self.deliver_to_left_host(packet, stamp),
            }
        }
    }

    /// Passes a packet to its host on the left, through the host's access link if it has one.
    fn deliver_to_left_host(&mut self, packet: Buffer, due: Time) {
        let classification = Classification::from_packet(&packet);
        let destination = classification.selector.map(|selector| selector.destination);
        let is_receiver = |port: &&mut HostPort| destination.is_some_and(|address| port.addresses.contains(&address));
        match self.left.iter_mut().find(is_receiver) {
            Some(HostPort { access: Some(access), .. }) => {
                access.to_host.offer(packet, self.flows.attributes_of_both_ends(&classification), due)
            }
            Some(port) => port.device.write(&packet),
            None => self.down.unroutable += 1,
        }
    }

    /// Writes packets that are due to their receivers, the earliest first.
    fn deliver(&mut self) {
        let now = clock::realtime();
        for HostPort { device, access, .. } in &mut self.left {
            if let Some(access) = access {
                access.to_host.advance(now, |delivery| device.write(&delivery.packet));
            }
        }
        for _ in 0..MAX_WRITES_PER_TURN {
            let now = clock::realtime();
            let due = |link: &DirectedLink| link.next_due().unwrap_or(Time::MAX);
            let is_up = due(&self.up) <= due(&self.down);
            let link = if is_up { &mut self.up } else { &mut self.down };
            let Some(delivery) = link.pop_due(now) else { return };
            link.record_write(delivery.due, now - delivery.due);
            if is_up {
                self.up.unroutable += u64::from(!write_to_host(&self.right, &delivery.packet));
            } else {
                self.process_inbound(delivery.packet, delivery.due, now);
            }
        }
    }

    fn process_inbound(&mut self, mut packet: Buffer, due: Time, now: Time) {
        let action = match &mut self.middlebox {
            Some(middlebox) if port_of_packet(&self.left[1..], &packet).is_none() => {
                middlebox.process_packet(kumade_middlebox::Direction::Inbound, &mut packet, now)
            }
            _ => PacketAction::Forward,
        };
        self.down.refused +=
            u64::from(!matches!(action, PacketAction::Forward | PacketAction::Hairpin | PacketAction::Hold));
        let reply = |packet: Buffer| {
            let label = label(&self.flows, &packet);
            PendingPacket { stamp: now, packet, label, is_cross: false, has_passed_middlebox: true }
        };
        match action {
            PacketAction::Forward | PacketAction::Hairpin => self.deliver_to_left_host(packet, due),
            PacketAction::Drop | PacketAction::Hold => {}
            PacketAction::Reply(packet) => self.up.push(reply(self.pool.copy_from(&packet))),
            PacketAction::Reset(pair) => {
                self.up.push(reply(self.pool.copy_from(&pair.to_source)));
                write_to_host(&self.left, &pair.to_destination);
            }
        }
        self.forward_held_fragments(due);
    }

    fn next_event(&self) -> Time {
        let tick = self.last_tick + IDLE_TICK;
        let links = [self.up.next_event(), self.down.next_event()].into_iter().flatten();
        let accesses = self.left.iter().filter_map(|port| port.access.as_ref());
        // What leaves an access link has time until it is settled, and what comes back is due.
        let next = |access: &AccessLinks| {
            [access.to_bottleneck.next_event().map(|out| out + ORDERING_DELAY), access.to_host.next_event()]
        };
        links.chain(accesses.flat_map(next).flatten()).fold(tick, Time::min)
    }

    fn compute_idle(&mut self) {
        let now = clock::realtime();
        if now - self.last_tick >= IDLE_TICK {
            self.last_tick = now;
            self.up.forget_before(now - RECORD_LENGTH);
            self.down.forget_before(now - RECORD_LENGTH);
        }
    }

    fn drain(&mut self) {
        for port in self.left.iter_mut().chain(&mut self.right) {
            port.device.drain();
        }
    }
}

impl Shard for NetworkShard {
    type Error = NetworkError;

    /// Experiments are judged by single packets.
    const MIN_SPIN: Span = Self::MAX_SPIN;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.left.iter().chain(&self.right).map(|port| port.device.as_fd()).collect()
    }

    fn process(&mut self, _: WakeReason) -> Result<Time, NetworkError> {
        self.catch_up();
        self.deliver();
        self.compute_idle();
        let next = self.next_event();
        let is_filling = self.left.iter().chain(&self.right).any(|port| port.device.needs_drain());
        if next - clock::realtime() > MIN_IDLE_TIME || is_filling {
            self.drain();
        }
        // In this order, an interruption between the two readings makes the next turn early and not late.
        let now = clock::monotonic();
        Ok(now + (next - clock::realtime()))
    }

    fn has_work(&self) -> bool {
        self.left.iter().chain(&self.right).any(|port| port.device.is_ready())
    }
}

/// The label of a packet that was made or changed here.
fn label(flows: &FlowHasher, packet: &[u8]) -> Label {
    flows.attributes_of_both_ends(&Classification::from_packet(packet))
}

/// Writes a packet to the host that it is for; false where no host here has that address.
fn write_to_host(ports: &[HostPort], packet: &[u8]) -> bool {
    let Some(port) = port_of_packet(ports, packet) else { return false };
    port.device.write(packet);
    true
}

fn port_of_packet<'a>(ports: &'a [HostPort], packet: &[u8]) -> Option<&'a HostPort> {
    let address = destination(packet)?;
    ports.iter().find(|port| port.addresses.contains(&address))
}

/// The destination of an IP packet.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => <[u8; 4]>::try_from(packet.get(16..20)?).ok().map(IpAddr::from),
        6 => <[u8; 16]>::try_from(packet.get(24..40)?).ok().map(IpAddr::from),
        _ => None,
    }
}
