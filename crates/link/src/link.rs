mod flight;
mod reconfigure;

pub use flight::{Delivery, invert_bit};

use crate::config::LinkConfig;
use crate::cross_traffic::{CrossArrival, CrossTraffic};
use crate::ledger::{DropCause, Ledger, LedgerEntry, PacketOrigin, PacketOutcome};
use crate::medium::token_bucket::PolicerState;
use crate::queue::{
    DroppedPacket, Ecn, Label, Queue, QueueConfig, QueueDiscipline, QueueLimit, QueuedPacket, TailDropConfig,
};
use crate::server::LinkServer;
use crate::valid::Valid;
use flight::{LaunchedPacket, PacketsInFlight};
use kumade_units::{Span, Time};
use std::mem;

/// A run in which an emulated link was late by more than this shows the machine's behaviour, not the link's.
pub const MAX_UNDISTURBED_LATENESS: Span = Span::from_micros(300);

/// One direction of a link, carrying packets of type `P`. See the crate's page for how to drive it.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    now: Time,
    /// Whether the queue is not that of [`LinkConfig::queue_bytes`].
    has_own_queue: bool,
    /// Computed cross traffic has no content.
    queue: Queue<Option<P>>,
    /// Dropped by the queue, on the way to the ledger.
    drops: Vec<DroppedPacket<Option<P>>>,
    /// Waiting packets that are not cross traffic.
    queued_packets: usize,
    policing: Option<PolicerState>,
    /// What a packet takes on the heap, if that counts.
    heap_bytes: Option<fn(&P) -> u64>,
    /// Memory of those that wait, if it counts.
    queued_memory_bytes: u64,
    server: LinkServer,
    /// What is served together, until its departure is known.
    aggregate: Vec<QueuedPacket<Option<P>>>,
    flight: PacketsInFlight<P>,
    /// The packet whose service began last, unless it is lost or cross traffic.
    last_launched: Option<LaunchedPacket>,
    cross: Vec<CrossSource>,
    /// The flow of the source added last; they count downwards, far from what is offered.
    last_cross_flow: u64,
    ledger: Ledger,
}

#[derive(Debug)]
struct CrossSource {
    next_arrival: CrossArrival,
    traffic: CrossTraffic,
    flow: u64,
}

/// Before any event; the link's time starts here so that the first arrival sets it.
const MIN_TIME: Time = Time::from_nanos(i64::MIN);

impl<P> Link<P> {
    /// An idle link with a tail-drop queue of [`LinkConfig::queue_bytes`].
    pub fn new(config: Valid<LinkConfig>) -> Self {
        let queue = tail_drop_config(&config);
        Link::build(config, &queue, false)
    }

    /// An idle link with this queue instead.
    pub fn with_queue(config: Valid<LinkConfig>, queue: &Valid<QueueConfig>) -> Self {
        Link::build(config, queue, true)
    }

    fn build(Valid(config): Valid<LinkConfig>, queue: &Valid<QueueConfig>, queue_given: bool) -> Self {
        Link {
            now: MIN_TIME,
            has_own_queue: queue_given,
            queue: Queue::new(queue, config.seed),
            drops: Vec::new(),
            queued_packets: 0,
            policing: new_policing(&config, MIN_TIME),
            heap_bytes: None,
            queued_memory_bytes: 0,
            server: LinkServer::new(&config, MIN_TIME),
            aggregate: Vec::new(),
            flight: PacketsInFlight::new(&config),
            last_launched: None,
            cross: Vec::new(),
            last_cross_flow: 0,
            ledger: Ledger::new(),
            config,
        }
    }

    /// From now on, [`LinkConfig::in_flight_bytes`] bounds the memory that packets take, those that wait included: what
    /// `heap_bytes` says of each, which must not change, and what the link itself takes for it. What exceeds that is dropped.
    pub fn bound_memory(&mut self, heap_bytes: fn(&P) -> u64) {
        self.heap_bytes = Some(heap_bytes);
        self.flight.bound_memory(heap_bytes);
    }

    /// Memory of the packets that wait and of those in flight, in bytes; see [`Link::bound_memory`].
    pub fn memory_bytes(&self) -> u64 {
        self.queued_memory_bytes + self.flight.memory_bytes()
    }

    /// What a waiting packet takes, if that counts. Buffers grow by doubling, hence twice the packet's own part.
    fn queued_memory(&self, packet: &QueuedPacket<Option<P>>) -> u64 {
        let (Some(heap_bytes), Some(content)) = (self.heap_bytes, &packet.content) else { return 0 };
        heap_bytes(content) + 2 * size_of::<QueuedPacket<Option<P>>>() as u64
    }

    /// Adds computed cross traffic. Packets that it should have sent before the link's current time arrive now, so let it
    /// start at that time or later. For the queue, each source is a flow of its own, and of
    /// a host of its own.
    pub fn add_cross_traffic(&mut self, mut traffic: CrossTraffic) {
        if let Some(next) = traffic.next() {
            self.last_cross_flow = self.last_cross_flow.wrapping_sub(1);
            self.cross.push(CrossSource { next_arrival: next, traffic, flow: self.last_cross_flow });
        }
    }

    /// Ends all computed cross traffic. What is queued is still transmitted.
    pub fn stop_cross_traffic(&mut self) {
        self.cross.clear();
    }

    /// A packet of `size` IP bytes reaches the queue at `arrival`. An arrival before the link's current time counts as
    /// arriving at that time; cross traffic of the same instant goes first. For a queue discipline that distinguishes
    /// flows, all packets offered like this are one flow (0) of one host (0) without ECN support.
    ///
    /// # Errors
    /// The packet was dropped.
    pub fn offer(&mut self, packet: P, size: u32, arrival: Time) -> Result<(), DropCause> {
        self.offer_labelled(packet, Label { size, ..Label::default() }, arrival)
    }

    /// As [`Link::offer`], for a queue discipline that distinguishes flows or marks packets. It may still drop later what
    /// it has queued.
    ///
    /// # Errors
    /// The packet was dropped.
    #[inline]
    pub fn offer_labelled(&mut self, packet: P, label: Label, arrival: Time) -> Result<(), DropCause> {
        self.advance(arrival);
        self.accept(QueuedPacket::with_label(Some(packet), label, self.now))
    }

    /// Advances the link up to and including `now`; a time that has already passed changes nothing.
    pub fn advance(&mut self, now: Time) {
        if now < self.now {
            return;
        }
        while let Some((arrival, flow)) = self.next_cross_arrival(now) {
            self.now = self.now.max(arrival.time);
            self.serve_until(self.now);
            // A dropped cross packet is in the ledger; nobody else wants to know.
            let _ = self.accept(QueuedPacket::new(None, arrival.size, flow, self.now));
        }
        self.serve_until(now);
        self.now = now;
        self.ledger.record_time(now);
    }

    /// The next packet that is due by `now`, in order of due time. Does not advance the link.
    pub fn pop_due(&mut self, now: Time) -> Option<Delivery<P>>
    where
        P: Clone,
    {
        self.flight.pop_due(now)
    }

    /// The due time of the earliest packet whose transmission has begun. Those of queued packets are not known yet.
    pub fn next_due(&self) -> Option<Time> {
        self.flight.next_due()
    }

    /// When to call [`Link::advance`] and [`Link::pop_due`] again at the latest so that no packet is late: the earliest
    /// known due time, or the earliest one that a queued packet can have. `None` while no packet is on the link.
    pub fn next_event(&self) -> Option<Time> {
        let waiting = (self.queued_packets > 0).then(|| self.server.ready_at() + self.config.shortest_delay());
        self.next_due().into_iter().chain(waiting).min()
    }

    /// No packet that arrives at `arrival` or later is due before this, as long as the settings stay as they are. Until then
    /// a driver need not look for packets whose times of arrival it learns later.
    pub fn earliest_due(&self, arrival: Time) -> Time {
        self.server.free_at().max(arrival) + self.config.shortest_delay()
    }

    /// How far the link has been advanced; `None` before the first call that says the time.
    pub fn now(&self) -> Option<Time> {
        (self.now > MIN_TIME).then_some(self.now)
    }

    /// Bytes in the queue, cross traffic included.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// The settings.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What has happened on the link.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// To switch recording on, and to report deliveries.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// The earliest arrival of cross traffic by `now` and its flow; of simultaneous ones that of the source added first.
    fn next_cross_arrival(&mut self, now: Time) -> Option<(CrossArrival, u64)> {
        let index = (0..self.cross.len()).min_by_key(|index| self.cross[*index].next_arrival.time)?;
        let CrossSource { next_arrival: next, traffic, flow } = &mut self.cross[index];
        let (arrival, flow) = (*next, *flow);
        if arrival.time > now {
            return None;
        }
        match traffic.next() {
            Some(following) => *next = following,
            None => drop(self.cross.remove(index)),
        }
        Some((arrival, flow))
    }

    /// Puts a packet that arrives now into service if the link is idle, else into the queue.
    #[inline]
    fn accept(&mut self, packet: QueuedPacket<Option<P>>) -> Result<(), DropCause> {
        let now = packet.arrival;
        self.ledger.record_offer(packet.origin(), packet.size, now);
        if self.policing.as_mut().is_some_and(|policing| !policing.conforms(packet.size, now)) {
            self.ledger.record_outcome(packet.to_entry(PacketOutcome::Dropped(now, DropCause::Policed)));
            return Err(DropCause::Policed);
        }
        self.queued_packets += usize::from(packet.origin() == PacketOrigin::Offered);
        let cost = self.queued_memory(&packet);
        self.queued_memory_bytes += cost;
        if cost > 0 && self.memory_bytes() > self.config.in_flight_bytes {
            let outcome = packet.drop_into(DropCause::InFlightFull, &mut self.drops);
            self.record_drops(now);
            return outcome;
        }
        let nothing_waits = self.queue.packets() == 0;
        if nothing_waits {
            self.server.begin_busy_period(now);
        }
        let outcome = if nothing_waits && self.server.ready_at() <= now {
            self.queue.pass_through(packet, &mut self.drops).map(|packet| self.transmit(packet, now))
        } else {
            self.queue.enqueue(packet, &mut self.drops)
        };
        self.record_drops(now);
        outcome
    }

    /// Begins every service whose turn comes by `time`.
    fn serve_until(&mut self, time: Time) {
        while self.queue.packets() > 0 && self.server.ready_at() <= time {
            let now = self.server.ready_at();
            let next = self.queue.dequeue(now, &mut self.drops);
            self.record_drops(now);
            let Some(packet) = next else { return };
            if self.server.has_room(1, packet.size.into(), packet.size) {
                self.transmit_together(packet, now);
            } else {
                self.transmit(packet, now);
            }
        }
    }

    fn record_drops(&mut self, now: Time) {
        if self.drops.is_empty() {
            return;
        }
        let mut drops = mem::take(&mut self.drops);
        for DroppedPacket { packet, cause } in drops.drain(..) {
            self.queued_memory_bytes -= self.queued_memory(&packet);
            self.queued_packets -= usize::from(packet.origin() == PacketOrigin::Offered);
            self.ledger.record_outcome(packet.to_entry(PacketOutcome::Dropped(now, cause)));
        }
        // To be filled again without an allocation.
        self.drops = drops;
    }

    /// Begins the service of a packet. From then on its departure is certain, unless the link is reconfigured, and so
    /// are loss and due time.
    fn transmit(&mut self, queued: QueuedPacket<Option<P>>, now: Time) {
        let departure = self.server.serve(queued.size, queued.arrival);
        self.depart(queued, now, departure);
    }

    /// Begins the service of a packet and of those that join it.
    fn transmit_together(&mut self, first: QueuedPacket<Option<P>>, now: Time) {
        let (mut bytes, mut last) = (u64::from(first.size), first.size);
        self.aggregate.push(first);
        while self.server.has_room(self.aggregate.len() as u32, bytes, last)
            && let Some(next) = self.queue.dequeue(now, &mut self.drops)
        {
            (bytes, last) = (bytes + u64::from(next.size), next.size);
            self.aggregate.push(next);
        }
        self.record_drops(now);
        let departure = self.server.serve_together(self.aggregate.len() as u32, bytes);
        let mut aggregate = std::mem::take(&mut self.aggregate);
        aggregate.drain(..).for_each(|packet| self.depart(packet, now, departure));
        self.aggregate = aggregate;
    }

    fn depart(&mut self, queued: QueuedPacket<Option<P>>, now: Time, departure: Time) {
        let (kind, arrival, marked) = (queued.origin(), queued.arrival, queued.marked);
        let label = Label { ecn: if marked { Ecn::Ce } else { queued.ecn }, ..queued.label() };
        self.queued_memory_bytes -= self.queued_memory(&queued);
        self.queued_packets -= usize::from(kind == PacketOrigin::Offered);
        if marked {
            self.ledger.record_mark(kind, label.size);
        }
        let mut entry = queued.to_entry(PacketOutcome::Departed(departure));
        self.last_launched = None;
        if let Some(packet) = queued.content {
            let delivery = Delivery {
                packet,
                label,
                is_marked: marked,
                is_duplicate: false,
                inverted_bit: None,
                arrival,
                service_start: now,
                due: departure,
            };
            match self.flight.launch(delivery, departure, &self.config) {
                Ok(launched) => {
                    self.record_impairments(label.size, &launched);
                    self.last_launched = Some(launched);
                }
                Err(cause) => entry.outcome = PacketOutcome::Dropped(departure, cause),
            }
        }
        self.ledger.record_outcome(entry);
    }
}

impl<P> Link<P> {
    /// Counts what will be seen of a packet on its way.
    fn record_impairments(&mut self, size: u32, launched: &LaunchedPacket) {
        let counters = self.ledger.offered_counters();
        for (happened, counter) in [
            (launched.is_held_back, &mut counters.reordered),
            (launched.is_duplicated, &mut counters.duplicated),
            (launched.is_corrupted, &mut counters.corrupted),
        ] {
            if happened {
                counter.count_packet(size);
            }
        }
    }
}

/// The queue of a link that is given no other.
fn tail_drop_config(config: &LinkConfig) -> Valid<QueueConfig> {
    // Tail drop has no parameters.
    Valid(QueueConfig { limit: QueueLimit::Bytes(config.queue_bytes), discipline: TailDropConfig.into() })
}

/// With a full bucket.
fn new_policing(config: &LinkConfig, now: Time) -> Option<PolicerState> {
    config.policer.map(|bucket| PolicerState::new(bucket, now))
}

impl<P> QueuedPacket<Option<P>> {
    fn origin(&self) -> PacketOrigin {
        if self.content.is_some() { PacketOrigin::Offered } else { PacketOrigin::CrossTraffic }
    }

    fn to_entry(&self, fate: PacketOutcome) -> LedgerEntry {
        LedgerEntry { arrival: self.arrival, size: self.size, origin: self.origin(), flow: self.flow, outcome: fate }
    }
}

#[cfg(test)]
mod tests;
