use crate::bond::outgoing::{Divide, WaitingPacket};
use crate::bond::waiting_queue::{Follower, WaitingQueue};
use crate::path::id::PathId;
use kumade_link::queue::{DroppedPacket, QueueConfig};
use kumade_link::{Label, Valid};
use kumade_units::{ConfigError, Span, Time};
use std::collections::VecDeque;

/// Where packets wait: a queue for all paths, and one for each path of what is bound to it.
#[derive(Debug)]
pub(crate) struct BondQueues<P> {
    /// Of all queues; each has a seed of its own.
    config: Valid<QueueConfig>,
    seed: u64,
    shared: WaitingQueue<P>,
    per_path: Vec<PathQueue<P>>,
    drops: Vec<DroppedPacket<WaitingPacket<P>>>,
    dropped_packets: u64,
    /// Packets that wait, copies apart.
    queued_packets: usize,
    /// The flows of dropped packets and how many these stood for, until the caller takes them.
    dropped_flows: Vec<(u64, u16)>,
}

/// What has been taken from a queue, and what may leave together with it.
#[derive(Debug)]
pub(crate) struct Dequeued<P> {
    pub packet: WaitingPacket<P>,
    pub label: Label,
    pub follower: Option<QueueFollower>,
}

/// The rest of a packet that stands for several, at the front of its flow's queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueFollower {
    /// Whose queue it is; none for the one of all.
    path: Option<PathId>,
    follower: Follower,
}

#[derive(Debug)]
struct PathQueue<P> {
    queue: WaitingQueue<P>,
    /// Copies of what another path has taken.
    copies: VecDeque<(WaitingPacket<P>, Label)>,
    /// What has been sent from this queue and from that of all, for the numbers of their flows.
    served_bytes_per_flow: f64,
    served_shared_bytes_per_flow: f64,
}

/// Segments that may follow one that has left: they have no state of their own, and wait as all packets do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub path: PathId,
    pub follower: QueueFollower,
    /// As of now; later, the pace decides.
    pub started: Time,
    /// So much has left, of so much that may.
    pub sent_bytes: u64,
    pub max_bytes: u64,
    /// The longest segment.
    pub segment_bytes: u32,
}

impl<P: Clone> BondQueues<P> {
    pub fn new(config: &QueueConfig, paths: usize, seed: u64) -> Result<Self, ConfigError> {
        let config = config.clone().validate()?;
        let mut queues = BondQueues {
            shared: WaitingQueue::new(&config, seed),
            config,
            seed,
            per_path: Vec::new(),
            drops: Vec::new(),
            dropped_packets: 0,
            queued_packets: 0,
            dropped_flows: Vec::new(),
        };
        queues.set_path_count(paths);
        Ok(queues)
    }

    /// There are so many paths, if there were fewer.
    pub fn set_path_count(&mut self, paths: usize) {
        for path in self.per_path.len()..paths {
            let queue = WaitingQueue::new(&self.config, self.seed.wrapping_add(1 + path as u64));
            let (copies, none_served) = (VecDeque::new(), 0.0);
            self.per_path.push(PathQueue {
                queue,
                copies,
                served_bytes_per_flow: none_served,
                served_shared_bytes_per_flow: none_served,
            });
        }
    }

    pub fn enqueue(&mut self, packet: WaitingPacket<P>, label: Label, path: Option<PathId>, now: Time) {
        self.queued_packets += usize::from(packet.segments);
        let own = path.map(|path| &mut self.per_path[path.index()]);
        let queue = match own {
            Some(own) => {
                if own.queue.is_empty() {
                    own.served_bytes_per_flow = own.served_bytes_per_flow.max(own.served_shared_bytes_per_flow);
                }
                &mut own.queue
            }
            None => {
                if self.shared.is_empty() {
                    self.per_path.iter_mut().for_each(|own| {
                        own.served_shared_bytes_per_flow =
                            own.served_shared_bytes_per_flow.max(own.served_bytes_per_flow)
                    });
                }
                &mut self.shared
            }
        };
        queue.enqueue(packet, label, now, &mut self.drops);
        self.count_drops();
    }

    /// The target and the interval of CoDel, where that manages the queues.
    pub fn set_codel_times(&mut self, (target, interval): (Span, Span)) {
        for queue in self.per_path.iter_mut().map(|own| &mut own.queue).chain([&mut self.shared]) {
            queue.set_codel_times(target, interval);
        }
    }

    /// Whether packets that stand for several are served as these would be.
    pub fn divides_packets(&self) -> bool {
        self.shared.divides_packets()
    }

    /// What a path takes next: its own, or, where it may, what is there for all. Of a packet that `divide` divides it is the first segment.
    pub fn dequeue(
        &mut self,
        path: PathId,
        shared: bool,
        (own_flows, all_flows): (u32, u32),
        divide: Option<&mut Divide<'_, P>>,
        now: Time,
    ) -> Option<Dequeued<P>> {
        let own = &mut self.per_path[path.index()];
        if let Some((packet, label)) = own.copies.pop_front() {
            return Some(Dequeued { packet, label, follower: None });
        }
        let shared = shared && !self.shared.is_empty();
        let is_own =
            !own.queue.is_empty() && (!shared || own.served_bytes_per_flow <= own.served_shared_bytes_per_flow);
        let mut none = |_: &mut P| None;
        let divide = divide.unwrap_or(&mut none);
        let own_taken = if is_own { own.queue.dequeue(now, divide, &mut self.drops) } else { None };
        let (from, taken) = match own_taken {
            Some(taken) => (Some(path), Some(taken)),
            None if shared => (None, self.shared.dequeue(now, divide, &mut self.drops)),
            None => (None, None),
        };
        self.count_drops();
        let (packet, label, follower) = taken?;
        self.record_served(path, from, (&packet, &label), (own_flows, all_flows));
        let follower = follower.map(|follower| QueueFollower { path: from, follower });
        Some(Dequeued { packet, label, follower })
    }

    /// What follows a segment at the front of its flow's queue, by the same path, if that is its turn still.
    pub fn dequeue_following(
        &mut self,
        path: PathId,
        (following, burst): (QueueFollower, (u64, u64)),
        (own_flows, all_flows): (u32, u32),
        divide: &mut Divide<'_, P>,
    ) -> Option<(WaitingPacket<P>, Label)> {
        let QueueFollower { path: from, follower } = following;
        let queue = from.map_or(&mut self.shared, |from| &mut self.per_path[from.index()].queue);
        let (packet, label) = queue.dequeue_following(follower, burst, divide)?;
        self.record_served(path, from, (&packet, &label), (own_flows, all_flows));
        Some((packet, label))
    }

    /// A packet leaves the queue of a path, or of all, for this path.
    fn record_served(
        &mut self,
        path: PathId,
        from: Option<PathId>,
        (packet, label): (&WaitingPacket<P>, &Label),
        (own_flows, all_flows): (u32, u32),
    ) {
        self.queued_packets -= usize::from(packet.segments);
        let own = &mut self.per_path[path.index()];
        match from {
            Some(_) => own.served_bytes_per_flow += f64::from(label.size) / f64::from(own_flows),
            None => own.served_shared_bytes_per_flow += f64::from(label.size) / f64::from(all_flows),
        }
    }

    /// What is next for all paths, if it is wanted.
    pub fn take_shared_if(
        &mut self,
        path: PathId,
        all_flows: u32,
        now: Time,
        is_wanted: impl FnOnce(&WaitingPacket<P>, u64) -> bool,
    ) -> Option<(WaitingPacket<P>, Label)> {
        let taken = self.shared.take_if(now, is_wanted, &mut self.drops);
        self.count_drops();
        let (packet, label) = taken?;
        self.record_served(path, None, (&packet, &label), (1, all_flows));
        Some((packet, label))
    }

    /// Copies that wait for a path; nothing else leaves before them.
    pub fn queued_copies(&self, path: PathId) -> u64 {
        self.per_path[path.index()].copies.len() as u64
    }

    /// Their bytes.
    pub fn copied_bytes(&self, path: PathId) -> u64 {
        self.per_path[path.index()].copies.iter().map(|(_, label)| u64::from(label.size)).sum()
    }

    /// A path is to send this, too.
    pub fn enqueue_copy(&mut self, path: PathId, packet: WaitingPacket<P>, label: Label) {
        self.per_path[path.index()].copies.push_back((packet, label));
    }

    /// All that waits for a path; copies are not missed.
    pub fn drain_path_queue(&mut self, path: PathId, now: Time) -> Vec<(WaitingPacket<P>, Label)> {
        let own = &mut self.per_path[path.index()];
        own.copies.clear();
        let taken: Vec<_> = std::iter::from_fn(|| own.queue.dequeue(now, &mut |_| None, &mut self.drops)).collect();
        self.count_drops();
        self.queued_packets -= taken.iter().map(|(packet, ..)| usize::from(packet.segments)).sum::<usize>();
        taken.into_iter().map(|(packet, label, _)| (packet, label)).collect()
    }

    pub fn has_packets_for_path(&self, path: PathId) -> bool {
        let own = &self.per_path[path.index()];
        !own.queue.is_empty() || !own.copies.is_empty()
    }

    pub fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    pub fn shared_bytes(&self) -> u64 {
        self.shared.bytes()
    }

    pub fn path_queue_bytes(&self, path: PathId) -> u64 {
        self.per_path[path.index()].queue.bytes()
    }

    pub fn queued_packets(&self) -> usize {
        self.queued_packets
    }

    /// The flow of a packet that was dropped and for how many it stood, once for each.
    pub fn take_dropped_flow(&mut self) -> Option<(u64, u16)> {
        self.dropped_flows.pop()
    }

    pub fn dropped_packets(&self) -> u64 {
        self.dropped_packets
    }

    fn count_drops(&mut self) {
        for DroppedPacket { packet, .. } in self.drops.drain(..) {
            self.dropped_packets += u64::from(packet.content.segments);
            self.queued_packets -= usize::from(packet.content.segments);
            self.dropped_flows.push((packet.flow, packet.content.segments));
        }
    }
}
