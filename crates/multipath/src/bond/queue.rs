use crate::bond::outgoing::WaitingPacket;
use crate::path::id::PathId;
use kumade_link::queue::{DroppedPacket, Queue, QueueConfig, QueueDiscipline, QueuedPacket};
use kumade_link::{Label, Valid};
use kumade_units::{ConfigError, Span, Time};
use std::collections::VecDeque;

/// Where packets wait: a queue for all paths, and one for each path of what is bound to it.
#[derive(Debug)]
pub(crate) struct BondQueues<P> {
    /// Of all queues; each has a seed of its own.
    config: Valid<QueueConfig>,
    seed: u64,
    shared: Queue<WaitingPacket<P>>,
    /// The next of it, where that has been looked at.
    peeked: Option<QueuedPacket<WaitingPacket<P>>>,
    per_path: Vec<PathQueue<P>>,
    drops: Vec<DroppedPacket<WaitingPacket<P>>>,
    dropped_packets: u64,
    /// The flows of dropped packets, until the caller takes them.
    dropped_flows: Vec<u64>,
}

#[derive(Debug)]
struct PathQueue<P> {
    queue: Queue<WaitingPacket<P>>,
    /// Copies of what another path has taken.
    copies: VecDeque<(WaitingPacket<P>, Label)>,
    /// What has been sent from this queue and from that of all, for the numbers of their flows.
    served_bytes_per_flow: f64,
    served_shared_bytes_per_flow: f64,
}

impl<P: Clone> BondQueues<P> {
    pub fn new(config: &QueueConfig, paths: usize, seed: u64) -> Result<Self, ConfigError> {
        let config = config.clone().validate()?;
        let mut queues = BondQueues {
            shared: Queue::new(&config, seed),
            config,
            seed,
            peeked: None,
            per_path: Vec::new(),
            drops: Vec::new(),
            dropped_packets: 0,
            dropped_flows: Vec::new(),
        };
        queues.set_path_count(paths);
        Ok(queues)
    }

    /// There are so many paths, if there were fewer.
    pub fn set_path_count(&mut self, paths: usize) {
        for path in self.per_path.len()..paths {
            let queue = Queue::new(&self.config, self.seed.wrapping_add(1 + path as u64));
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
        let queued = QueuedPacket::with_label(packet, label, now);
        let own = path.map(|path| &mut self.per_path[path.index()]);
        let queue = match own {
            Some(own) => {
                if own.queue.packets() == 0 {
                    own.served_bytes_per_flow = own.served_bytes_per_flow.max(own.served_shared_bytes_per_flow);
                }
                &mut own.queue
            }
            None => {
                if self.shared.packets() == 0 && self.peeked.is_none() {
                    self.per_path.iter_mut().for_each(|own| {
                        own.served_shared_bytes_per_flow =
                            own.served_shared_bytes_per_flow.max(own.served_bytes_per_flow)
                    });
                }
                &mut self.shared
            }
        };
        // What the discipline drops is counted, whichever packet it is.
        let _ = queue.enqueue(queued, &mut self.drops);
        self.count_drops();
    }

    /// The target and the interval of CoDel, where that manages the queues.
    pub fn set_codel_times(&mut self, (target, interval): (Span, Span)) {
        for queue in self.per_path.iter_mut().map(|own| &mut own.queue).chain([&mut self.shared]) {
            if let Queue::FqCoDel(queue) = queue {
                queue.set_times(target, interval);
            }
        }
    }

    /// What a path takes next: its own, or, where it may, what is there for all.
    pub fn dequeue(
        &mut self,
        path: PathId,
        shared: bool,
        (own_flows, all_flows): (u32, u32),
        now: Time,
    ) -> Option<(WaitingPacket<P>, Label)> {
        let own = &mut self.per_path[path.index()];
        if let Some(copy) = own.copies.pop_front() {
            return Some(copy);
        }
        let shared = shared && (self.peeked.is_some() || self.shared.packets() > 0);
        if own.queue.packets() > 0
            && (!shared || own.served_bytes_per_flow <= own.served_shared_bytes_per_flow)
            && let Some(queued) = own.queue.dequeue(now, &mut self.drops)
        {
            own.served_bytes_per_flow += f64::from(queued.size) / f64::from(own_flows);
            self.count_drops();
            return Some(unpack(queued));
        }
        if !shared {
            return None;
        }
        let queued = self.peeked.take().or_else(|| self.shared.dequeue(now, &mut self.drops));
        self.count_drops();
        let queued = queued?;
        self.per_path[path.index()].served_shared_bytes_per_flow += f64::from(queued.size) / f64::from(all_flows);
        Some(unpack(queued))
    }

    /// What is next for all paths, if it is wanted.
    pub fn take_shared_if(
        &mut self,
        path: PathId,
        all_flows: u32,
        now: Time,
        is_wanted: impl FnOnce(&WaitingPacket<P>, u64) -> bool,
    ) -> Option<(WaitingPacket<P>, Label)> {
        let next = self.peeked.take().or_else(|| self.shared.dequeue(now, &mut self.drops));
        self.count_drops();
        let next = next?;
        if !is_wanted(&next.content, next.flow) {
            self.peeked = Some(next);
            return None;
        }
        self.per_path[path.index()].served_shared_bytes_per_flow += f64::from(next.size) / f64::from(all_flows);
        Some(unpack(next))
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
        let taken = std::iter::from_fn(|| own.queue.dequeue(now, &mut self.drops)).map(unpack).collect();
        self.count_drops();
        taken
    }

    pub fn has_packets_for_path(&self, path: PathId) -> bool {
        let own = &self.per_path[path.index()];
        own.queue.packets() > 0 || !own.copies.is_empty()
    }

    pub fn has_shared(&self) -> bool {
        self.peeked.is_some() || self.shared.packets() > 0
    }

    pub fn shared_bytes(&self) -> u64 {
        self.shared.bytes() + self.peeked.as_ref().map_or(0, |ahead| ahead.size.into())
    }

    pub fn path_queue_bytes(&self, path: PathId) -> u64 {
        self.per_path[path.index()].queue.bytes()
    }

    pub fn queued_packets(&self) -> usize {
        usize::from(self.peeked.is_some())
            + self.shared.packets()
            + self.per_path.iter().map(|own| own.queue.packets()).sum::<usize>()
    }

    /// The flow of a packet that was dropped, once for each.
    pub fn take_dropped_flow(&mut self) -> Option<u64> {
        self.dropped_flows.pop()
    }

    pub fn dropped_packets(&self) -> u64 {
        self.dropped_packets
    }

    fn count_drops(&mut self) {
        self.dropped_packets += self.drops.len() as u64;
        self.dropped_flows.extend(self.drops.drain(..).map(|dropped| dropped.packet.flow));
    }
}

fn unpack<P>(queued: QueuedPacket<WaitingPacket<P>>) -> (WaitingPacket<P>, Label) {
    let label = queued.label();
    (WaitingPacket { is_ecn_marked: queued.marked, ..queued.content }, label)
}
