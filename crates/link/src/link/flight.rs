use crate::config::LinkConfig;
use crate::ledger::DropCause;
use crate::loss::LossProcess;
use crate::queue::Label;
use crate::random::{happens, random_stream};
use kumade_units::{Span, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// A packet that comes out of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The packet that was offered.
    pub packet: P,
    /// What it was offered with; its ECN field is CE where the queue has marked it. A link that follows takes it so.
    pub label: Label,
    /// Whether the queue has marked it: its ECN field has to say so (RFC 3168) when it is delivered.
    pub is_marked: bool,
    /// Whether it is the duplicate of a packet.
    pub is_duplicate: bool,
    /// When it reached the queue.
    pub arrival: Time,
    /// When its transmission began; the time from `arrival` is its sojourn time (RFC 8289).
    pub service_start: Time,
    /// When it has to be delivered: end of transmission, plus delay, jitter and the extra delay of reordering.
    pub due: Time,
}

/// What a packet in flight counts besides its own bytes, where its memory is not known.
const DELIVERY_OVERHEAD_BYTES: u64 = 64;
const MIN_TIME: Time = Time::from_nanos(i64::MIN);

/// Packets whose service has begun, and what becomes of them after it.
#[derive(Debug)]
pub(super) struct PacketsInFlight<P> {
    /// In order of due time. Those held back have a lane of their own, so that either needs no sorting.
    ordered: VecDeque<PacketInFlight<P>>,
    held_back: VecDeque<PacketInFlight<P>>,
    /// The latest due time of either.
    latest: LatestDueTimes,
    /// Bytes that they keep.
    memory_bytes: u64,
    /// What a packet takes on the heap, if that is known.
    heap_bytes: Option<fn(&P) -> u64>,
    loss: LossProcess,
    jitter: Pcg64Mcg,
    reordering: Pcg64Mcg,
    duplication: Pcg64Mcg,
}

#[derive(Debug)]
struct PacketInFlight<P> {
    delivery: Delivery<P>,
    /// It is delivered once more.
    is_duplicated: bool,
}

#[derive(Debug, Clone, Copy)]
struct LatestDueTimes {
    /// When the latest packet would be due if none was held back.
    ordered: Time,
    held_back: Time,
}

/// A packet that has been sent on its way, with what its due time was made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchedPacket {
    pub(super) is_held_back: bool,
    pub(super) is_duplicated: bool,
    due: Time,
    jitter: Span,
    latest_before: LatestDueTimes,
}

impl<P> PacketsInFlight<P> {
    pub(super) fn new(config: &LinkConfig) -> Self {
        PacketsInFlight {
            ordered: VecDeque::new(),
            held_back: VecDeque::new(),
            latest: LatestDueTimes { ordered: MIN_TIME, held_back: MIN_TIME },
            memory_bytes: 0,
            heap_bytes: None,
            loss: LossProcess::new(config.loss, config.seed),
            jitter: random_stream(config.seed, 1),
            reordering: random_stream(config.seed, 2),
            duplication: random_stream(config.seed, 3),
        }
    }

    /// Counts what packets take, from now on. None may be in flight.
    pub(super) fn bound_memory(&mut self, heap_bytes: fn(&P) -> u64) {
        self.heap_bytes = Some(heap_bytes);
    }

    /// Bytes that the packets in flight count.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Buffers grow by doubling, hence twice the packet's own part.
    fn delivery_memory(&self, delivery: &Delivery<P>) -> u64 {
        let own = 2 * size_of::<PacketInFlight<P>>() as u64;
        let known = self.heap_bytes.map(|heap_bytes| heap_bytes(&delivery.packet) + own);
        known.unwrap_or(u64::from(delivery.label.size) + DELIVERY_OVERHEAD_BYTES)
    }

    /// Other probabilities from now on.
    pub(super) fn apply_config(&mut self, config: &LinkConfig) {
        self.loss.set_loss(config.loss);
    }

    /// Sends a packet on its way, whose due time is yet to be told; or says why it is lost.
    pub(super) fn launch(
        &mut self,
        mut delivery: Delivery<P>,
        departure: Time,
        config: &LinkConfig,
    ) -> Result<LaunchedPacket, DropCause> {
        // All is drawn for every packet, so that what one draws does not depend on the others.
        let lost = self.loss.loses_next();
        let most = config.jitter.as_nanos();
        let jitter = Span::from_nanos(if most > 0 { self.jitter.random_range(0..=most) } else { 0 });
        let held = happens(&mut self.reordering, config.reordering.probability);
        let twice = happens(&mut self.duplication, config.duplication);
        if lost {
            return Err(DropCause::Loss);
        }
        let cost = self.delivery_memory(&delivery);
        if self.memory_bytes.saturating_add(cost) > config.in_flight_bytes {
            return Err(DropCause::InFlightFull);
        }
        self.memory_bytes += cost;
        let mut launched = LaunchedPacket {
            is_held_back: held,
            is_duplicated: twice,
            due: departure,
            jitter,
            latest_before: self.latest,
        };
        launched.due = self.due_time(&launched, departure, config);
        delivery.due = launched.due;
        let lane = if held { &mut self.held_back } else { &mut self.ordered };
        lane.push_back(PacketInFlight { delivery, is_duplicated: twice });
        Ok(launched)
    }

    /// Makes the due time of the packet launched last.
    fn due_time(&mut self, launched: &LaunchedPacket, departure: Time, config: &LinkConfig) -> Time {
        let ordered = (departure + config.delay + launched.jitter).max(launched.latest_before.ordered);
        self.latest = LatestDueTimes { ordered, held_back: launched.latest_before.held_back };
        if launched.is_held_back {
            self.latest.held_back = (ordered + config.reordering.extra).max(launched.latest_before.held_back);
            return self.latest.held_back;
        }
        ordered
    }

    /// The packet launched last departs at another time, or its delay is another.
    pub(super) fn revise_due_time(&mut self, launched: &mut LaunchedPacket, departure: Time, config: &LinkConfig) {
        let due = self.due_time(launched, departure, config);
        let lane = if launched.is_held_back { &mut self.held_back } else { &mut self.ordered };
        // It is gone where a driver took it before it was due.
        if let Some(last) = lane.back_mut().filter(|last| last.delivery.due == launched.due) {
            last.delivery.due = due;
        }
        launched.due = due;
    }

    /// The earliest due time.
    pub(super) fn next_due(&self) -> Option<Time> {
        let due = |lane: &VecDeque<PacketInFlight<P>>| lane.front().map(|flying| flying.delivery.due);
        match (due(&self.ordered), due(&self.held_back)) {
            (Some(ordered), Some(held)) => Some(ordered.min(held)),
            (ordered, held) => ordered.or(held),
        }
    }

    /// The earliest packet, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Delivery<P>>
    where
        P: Clone,
    {
        let due = self.next_due().filter(|due| *due <= now)?;
        // Of two due at once, the one held back was served before the other.
        let held = self.held_back.front().is_some_and(|flying| flying.delivery.due == due);
        let lane = if held { &mut self.held_back } else { &mut self.ordered };
        if let Some(first) = lane.front_mut().filter(|first| first.is_duplicated) {
            first.is_duplicated = false;
            let original = first.delivery.clone();
            first.delivery.is_duplicate = true;
            return Some(original);
        }
        let flying = lane.pop_front()?;
        self.memory_bytes -= self.delivery_memory(&flying.delivery);
        Some(flying.delivery)
    }
}
