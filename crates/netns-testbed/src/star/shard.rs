use crate::device::Device;
use crate::directed_link::{DirectedLink, IDLE_TICK, MIN_IDLE_TIME, ORDERING_DELAY, PendingPacket, RECORD_LENGTH};
use crate::network::NetworkError;
use kumade_link::{Delivery, LinkConfig};
use kumade_net::clock;
use kumade_packet::Classification;
use kumade_packet_loop::{BufferPool, FlowHasher, Shard, WakeReason};
use kumade_units::Time;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Packets written at most in a turn.
const MAX_WRITES_PER_TURN: usize = 64;

/// One host: its device, and the links between it and the hub.
pub(super) struct StarPort {
    device: Device,
    addresses: Vec<IpAddr>,
    pub(super) up: DirectedLink,
    pub(super) down: DirectedLink,
}

/// All hosts.
pub(super) struct StarShard {
    pub(super) ports: Vec<StarPort>,
    last_tick: Time,
    flows: FlowHasher,
    pool: BufferPool,
}

impl StarPort {
    /// With the links up and down.
    pub(super) fn new(device: Device, addresses: Vec<IpAddr>, links: [LinkConfig; 2]) -> Result<Self, NetworkError> {
        let now = clock::realtime();
        let [up, down] = links.map(|link| DirectedLink::new(link, None, None, now));
        Ok(StarPort { device, addresses, up: up?, down: down? })
    }

    /// Takes the packets that the host has sent.
    fn collect(&mut self, flows: &FlowHasher, pool: &BufferPool) {
        while let Some((stamp, packet)) = self.device.next(|stamp, bytes| (stamp, pool.copy_from(bytes))) {
            let classification = Classification::from_packet(&packet);
            // The stack's multicasts to its neighbours concern nobody here.
            if classification.selector.is_none_or(|selector| selector.destination.is_multicast()) {
                continue;
            }
            let label = flows.attributes_of_both_ends(&classification);
            let arrived = PendingPacket { stamp, packet, label, is_cross: false, has_passed_middlebox: true };
            self.up.record_read(arrived, clock::realtime());
        }
    }
}

impl StarShard {
    pub(super) fn new(ports: Vec<StarPort>) -> Self {
        let (flows, pool) = (FlowHasher::new(), BufferPool::default());
        StarShard { ports, last_tick: clock::realtime(), flows, pool }
    }

    /// Brings all links up to the present, as far as it can be known.
    pub(super) fn catch_up(&mut self) {
        for port in &mut self.ports {
            port.collect(&self.flows, &self.pool);
        }
        let horizon = clock::realtime() - ORDERING_DELAY;
        for place in 0..self.ports.len() {
            let up = &mut self.ports[place].up;
            advance(up, horizon);
            while let Some(Delivery { packet, label, due: stamp, .. }) = self.ports[place].up.pop_due(horizon) {
                let destination = Classification::from_packet(&packet).selector.map(|selector| selector.destination);
                let is_receiver = |port: &&mut StarPort| destination.is_some_and(|to| port.addresses.contains(&to));
                match self.ports.iter_mut().find(is_receiver) {
                    Some(receiver) => receiver.down.push(PendingPacket {
                        stamp,
                        packet,
                        label,
                        is_cross: false,
                        has_passed_middlebox: true,
                    }),
                    None => self.ports[place].up.unroutable += 1,
                }
            }
        }
        for port in &mut self.ports {
            advance(&mut port.down, horizon);
        }
    }

    /// Writes packets that are due, the earliest first.
    fn deliver(&mut self) {
        for _ in 0..MAX_WRITES_PER_TURN {
            let due = |port: &StarPort| port.down.next_due().unwrap_or(Time::MAX);
            let Some(port) = self.ports.iter_mut().min_by_key(|port| due(port)) else { return };
            let now = clock::realtime();
            let Some(delivery) = port.down.pop_due(now) else { return };
            port.down.record_write(delivery.due, now - delivery.due);
            port.device.write(&delivery.packet);
        }
    }

    fn next_event(&self) -> Time {
        // What leaves a link to the hub has time until it is settled.
        let up = self.ports.iter().filter_map(|port| port.up.next_event()).map(|out| out + ORDERING_DELAY);
        let down = self.ports.iter().filter_map(|port| port.down.next_event());
        up.chain(down).fold(self.last_tick + IDLE_TICK, Time::min)
    }

    fn compute_idle(&mut self) {
        let now = clock::realtime();
        if now - self.last_tick >= IDLE_TICK {
            self.last_tick = now;
            let links = self.ports.iter_mut().flat_map(|port| [&mut port.up, &mut port.down]);
            links.for_each(|link| link.forget_before(now - RECORD_LENGTH));
        }
    }
}

fn advance(link: &mut DirectedLink, horizon: Time) {
    while let Some(arrived) = link.pop_ordered(horizon) {
        link.offer(arrived);
    }
    link.advance(horizon);
}

impl Shard for StarShard {
    type Error = NetworkError;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.ports.iter().map(|port| port.device.as_fd()).collect()
    }

    fn process(&mut self, _: WakeReason) -> Result<Time, NetworkError> {
        self.catch_up();
        self.deliver();
        self.compute_idle();
        let next = self.next_event();
        let is_filling = self.ports.iter().any(|port| port.device.needs_drain());
        if next - clock::realtime() > MIN_IDLE_TIME || is_filling {
            self.ports.iter_mut().for_each(|port| port.device.drain());
        }
        // In this order, an interruption between the two readings makes the next turn early and not late.
        let now = clock::monotonic();
        Ok(now + (next - clock::realtime()))
    }

    fn has_work(&self) -> bool {
        self.ports.iter().any(|port| port.device.is_ready())
    }
}
