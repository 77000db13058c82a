use crate::bond_outgoing::Waiting;
use crate::path_id::PathId;
use kumade_link::Label;
use kumade_link::queue::{Dropped, Queue, QueueConfig, QueueDiscipline, Queued};
use kumade_units::{ConfigError, Span, Time};
use std::collections::VecDeque;

/// Where packets wait: a queue for all paths, and one for each path of what is bound to it.
#[derive(Debug)]
pub(crate) struct BondQueues<P> {
    shared: Queue<Waiting<P>>,
    /// The next of it, where that has been looked at.
    ahead: Option<Queued<Waiting<P>>>,
    own: Vec<OwnQueue<P>>,
    drops: Vec<Dropped<Waiting<P>>>,
    dropped: u64,
    /// The flows of dropped packets, until the caller takes them.
    dropped_flows: Vec<u64>,
}

#[derive(Debug)]
struct OwnQueue<P> {
    queue: Queue<Waiting<P>>,
    /// Copies of what another path has taken.
    copies: VecDeque<(Waiting<P>, Label)>,
    /// What has been sent from this queue and from that of all, for the numbers of their flows.
    served: f64,
    served_shared: f64,
}

impl<P: Clone> BondQueues<P> {
    pub fn new(config: &QueueConfig, paths: usize, seed: u64) -> Result<Self, ConfigError> {
        let config = config.clone().validate()?;
        let own = |path| {
            let queue = Queue::new(&config, seed.wrapping_add(1 + path as u64));
            OwnQueue { queue, copies: VecDeque::new(), served: 0.0, served_shared: 0.0 }
        };
        let own = (0..paths).map(own).collect();
        Ok(BondQueues {
            shared: Queue::new(&config, seed),
            ahead: None,
            own,
            drops: Vec::new(),
            dropped: 0,
            dropped_flows: Vec::new(),
        })
    }

    pub fn offer(&mut self, packet: Waiting<P>, label: Label, path: Option<PathId>, now: Time) {
        let Label { size, flow, host, ecn } = label;
        let queued = Queued { content: packet, size, flow, host, ecn, marked: false, arrival: now };
        let own = path.map(|path| &mut self.own[path.index()]);
        let queue = match own {
            Some(own) => {
                if own.queue.packets() == 0 {
                    own.served = own.served.max(own.served_shared);
                }
                &mut own.queue
            }
            None => {
                if self.shared.packets() == 0 && self.ahead.is_none() {
                    self.own.iter_mut().for_each(|own| own.served_shared = own.served_shared.max(own.served));
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
        for queue in self.own.iter_mut().map(|own| &mut own.queue).chain([&mut self.shared]) {
            if let Queue::FqCoDel(queue) = queue {
                queue.set_times(target, interval);
            }
        }
    }

    /// What a path takes next: its own, or, where it may, what is there for all.
    pub fn pull(
        &mut self,
        path: PathId,
        shared: bool,
        (own_flows, all_flows): (u32, u32),
        now: Time,
    ) -> Option<(Waiting<P>, Label)> {
        let own = &mut self.own[path.index()];
        if let Some(copy) = own.copies.pop_front() {
            return Some(copy);
        }
        let shared = shared && (self.ahead.is_some() || self.shared.packets() > 0);
        if own.queue.packets() > 0
            && (!shared || own.served <= own.served_shared)
            && let Some(queued) = own.queue.dequeue(now, &mut self.drops)
        {
            own.served += f64::from(queued.size) / f64::from(own_flows);
            self.count_drops();
            return Some(unpack(queued));
        }
        if !shared {
            return None;
        }
        let queued = self.ahead.take().or_else(|| self.shared.dequeue(now, &mut self.drops));
        self.count_drops();
        let queued = queued?;
        self.own[path.index()].served_shared += f64::from(queued.size) / f64::from(all_flows);
        Some(unpack(queued))
    }

    /// What is next for all paths, if it is wanted.
    pub fn take_shared_if(
        &mut self,
        path: PathId,
        all_flows: u32,
        now: Time,
        is_wanted: impl FnOnce(&Waiting<P>, u64) -> bool,
    ) -> Option<(Waiting<P>, Label)> {
        let next = self.ahead.take().or_else(|| self.shared.dequeue(now, &mut self.drops));
        self.count_drops();
        let next = next?;
        if !is_wanted(&next.content, next.flow) {
            self.ahead = Some(next);
            return None;
        }
        self.own[path.index()].served_shared += f64::from(next.size) / f64::from(all_flows);
        Some(unpack(next))
    }

    /// Copies that wait for a path; nothing else leaves before them.
    pub fn copies(&self, path: PathId) -> u64 {
        self.own[path.index()].copies.len() as u64
    }

    /// A path is to send this, too.
    pub fn copy(&mut self, path: PathId, packet: Waiting<P>, label: Label) {
        self.own[path.index()].copies.push_back((packet, label));
    }

    /// All that waits for a path; copies are not missed.
    pub fn take_own(&mut self, path: PathId, now: Time) -> Vec<(Waiting<P>, Label)> {
        let own = &mut self.own[path.index()];
        own.copies.clear();
        let taken = std::iter::from_fn(|| own.queue.dequeue(now, &mut self.drops)).map(unpack).collect();
        self.count_drops();
        taken
    }

    pub fn has_own(&self, path: PathId) -> bool {
        let own = &self.own[path.index()];
        own.queue.packets() > 0 || !own.copies.is_empty()
    }

    pub fn has_shared(&self) -> bool {
        self.ahead.is_some() || self.shared.packets() > 0
    }

    pub fn shared_bytes(&self) -> u64 {
        self.shared.bytes() + self.ahead.as_ref().map_or(0, |ahead| ahead.size.into())
    }

    pub fn own_bytes(&self, path: PathId) -> u64 {
        self.own[path.index()].queue.bytes()
    }

    pub fn packets(&self) -> usize {
        usize::from(self.ahead.is_some())
            + self.shared.packets()
            + self.own.iter().map(|own| own.queue.packets()).sum::<usize>()
    }

    /// The flow of a packet that was dropped, once for each.
    pub fn take_dropped(&mut self) -> Option<u64> {
        self.dropped_flows.pop()
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn count_drops(&mut self) {
        self.dropped += self.drops.len() as u64;
        self.dropped_flows.extend(self.drops.drain(..).map(|dropped| dropped.packet.flow));
    }
}

fn unpack<P>(queued: Queued<Waiting<P>>) -> (Waiting<P>, Label) {
    let label = queued.label();
    (Waiting { marked: queued.marked, ..queued.content }, label)
}
