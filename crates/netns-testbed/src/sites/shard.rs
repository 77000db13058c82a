use super::links::PathLinks;
use crate::device::Device;
use crate::directed_link::{
    DirectedLink, IDLE_TICK, Lateness, MIN_IDLE_TIME, ORDERING_DELAY, PendingPacket, RECORD_LENGTH,
};
use crate::network::NetworkError;
use kumade_link::Counters;
use kumade_net::clock;
use kumade_packet::Classification;
use kumade_packet_loop::{BufferPool, FlowHasher, Shard, WakeReason};
use kumade_units::{Span, Time};
use std::os::fd::{AsFd, BorrowedFd};

/// Packets written at most in a turn.
const MAX_WRITES_PER_TURN: usize = 64;

/// One path: its device at either gateway, and the link that begins there.
pub(super) struct PathShard {
    ends: [Device; 2],
    links: [DirectedLink; 2],
    is_cut: bool,
}

/// All paths.
pub(super) struct SitesShard {
    paths: Vec<PathShard>,
    last_tick: Time,
    flows: FlowHasher,
    pool: BufferPool,
}

impl PathShard {
    pub(super) fn new(links: PathLinks, ends: [Device; 2]) -> Result<Self, NetworkError> {
        let now = clock::realtime();
        let link = |config| DirectedLink::new(config, None, None, now);
        Ok(PathShard { ends, links: [link(links.up)?, link(links.down)?], is_cut: false })
    }

    /// Takes the packets that the gateways have sent.
    fn collect(&mut self, flows: &FlowHasher, pool: &BufferPool) {
        for (end, link) in self.ends.iter_mut().zip(&mut self.links) {
            while let Some((stamp, packet)) = end.next(|stamp, bytes| (stamp, pool.copy_from(bytes))) {
                let classification = Classification::from_packet(&packet);
                // The stack's multicasts to its neighbours concern nobody here.
                if classification.selector.is_none_or(|selector| selector.destination.is_multicast()) {
                    continue;
                }
                let label = flows.attributes_of_both_ends(&classification);
                link.record_read(
                    PendingPacket { stamp, packet, label, is_cross: false, has_passed_middlebox: true },
                    clock::realtime(),
                );
            }
        }
    }

    /// Brings both links to `horizon`, up to which all that was sent is known.
    fn advance_links(&mut self, horizon: Time) {
        for link in &mut self.links {
            while let Some(arrived) = link.pop_ordered(horizon) {
                if !self.is_cut {
                    link.offer(arrived);
                }
            }
            link.advance(horizon);
        }
    }

    /// Writes the next packet that is due, if there is one, to the gateway at the far end.
    fn deliver_one(&mut self) -> bool {
        let [up, down] = self.links.each_ref().map(|link| link.next_due().unwrap_or(Time::MAX));
        let direction = usize::from(down < up);
        let now = clock::realtime();
        let Some(delivery) = self.links[direction].pop_due(now) else { return false };
        self.links[direction].record_write(delivery.due, now - delivery.due);
        if !self.is_cut {
            self.ends[1 - direction].write(&delivery.packet);
        }
        true
    }

    fn next_due(&self) -> Time {
        self.links.iter().filter_map(DirectedLink::next_due).min().unwrap_or(Time::MAX)
    }
}

impl SitesShard {
    pub(super) fn new(paths: Vec<PathShard>) -> Self {
        let (flows, pool) = (FlowHasher::new(), BufferPool::default());
        SitesShard { paths, last_tick: clock::realtime(), flows, pool }
    }

    /// Brings all links up to the present, as far as it can be known.
    pub(super) fn catch_up(&mut self) {
        for path in &mut self.paths {
            path.collect(&self.flows, &self.pool);
            path.advance_links(clock::realtime() - ORDERING_DELAY);
        }
    }

    pub(super) fn set_cut(&mut self, place: usize, is_cut: bool) {
        if let Some(path) = self.paths.get_mut(place) {
            path.is_cut = is_cut;
        }
    }

    pub(super) fn lateness(&self, from: Time, to: Time) -> Lateness {
        let all = self.paths.iter().flat_map(|path| &path.links).map(|link| link.lateness(from, to));
        all.max_by_key(|lateness| lateness.p99).unwrap_or_default()
    }

    pub(super) fn counters(&self) -> Vec<[Counters; 2]> {
        let of = |path: &PathShard| path.links.each_ref().map(|link| *link.bottleneck().ledger().packet_counters());
        self.paths.iter().map(of).collect()
    }

    pub(super) fn missed_packets(&mut self) -> u64 {
        self.paths.iter_mut().flat_map(|path| &mut path.ends).map(Device::missed_packets).sum()
    }

    /// Writes packets that are due, the earliest first.
    fn deliver(&mut self) {
        for _ in 0..MAX_WRITES_PER_TURN {
            let next = self.paths.iter_mut().min_by_key(|path| path.next_due());
            if !next.is_some_and(PathShard::deliver_one) {
                return;
            }
        }
    }

    fn next_event(&self) -> Time {
        let events = self.paths.iter().flat_map(|path| &path.links).filter_map(DirectedLink::next_event);
        events.fold(self.last_tick + IDLE_TICK, Time::min)
    }

    fn compute_idle(&mut self) {
        let now = clock::realtime();
        if now - self.last_tick >= IDLE_TICK {
            self.last_tick = now;
            let links = self.paths.iter_mut().flat_map(|path| &mut path.links);
            links.for_each(|link| link.forget_before(now - RECORD_LENGTH));
        }
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.paths.iter().flat_map(|path| &path.ends)
    }
}

impl Shard for SitesShard {
    type Error = NetworkError;

    /// Experiments are judged by single packets.
    const MIN_SPIN: Span = Self::MAX_SPIN;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.devices().map(AsFd::as_fd).collect()
    }

    fn process(&mut self, _: WakeReason) -> Result<Time, NetworkError> {
        self.catch_up();
        self.deliver();
        self.compute_idle();
        let next = self.next_event();
        if next - clock::realtime() > MIN_IDLE_TIME || self.devices().any(Device::needs_drain) {
            self.paths.iter_mut().flat_map(|path| &mut path.ends).for_each(Device::drain);
        }
        // In this order, an interruption between the two readings makes the next turn early and not late.
        let now = clock::monotonic();
        Ok(now + (next - clock::realtime()))
    }

    fn has_work(&self) -> bool {
        self.devices().any(Device::is_ready)
    }
}
