use crate::config::LinkConfig;
use crate::ledger::DropCause;
use crate::loss::LossProcess;
use crate::queue::Label;
use crate::random::{chance, stream};
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
    pub marked: bool,
    /// Whether it is the duplicate of a packet.
    pub copy: bool,
    /// When it reached the queue.
    pub arrival: Time,
    /// When its transmission began; the time from `arrival` is its sojourn time (RFC 8289).
    pub service_start: Time,
    /// When it has to be delivered: end of transmission, plus delay, jitter and the extra delay of reordering.
    pub due: Time,
}

/// What a packet in flight counts besides its own bytes, where its memory is not known.
const OVERHEAD_BYTES: u64 = 64;
const BEGINNING: Time = Time::from_nanos(i64::MIN);

/// Packets whose service has begun, and what becomes of them after it.
#[derive(Debug)]
pub(super) struct Flight<P> {
    /// In order of due time. Those held back have a lane of their own, so that either needs no sorting.
    ordered: VecDeque<Flying<P>>,
    held: VecDeque<Flying<P>>,
    /// The latest due time of either.
    last: Lasts,
    /// Bytes that they keep.
    memory: u64,
    /// What a packet takes on the heap, if that is known.
    heap_bytes: Option<fn(&P) -> u64>,
    loss: LossProcess,
    jitter: Pcg64Mcg,
    reordering: Pcg64Mcg,
    duplication: Pcg64Mcg,
}

#[derive(Debug)]
struct Flying<P> {
    delivery: Delivery<P>,
    /// It is delivered once more.
    twice: bool,
}

#[derive(Debug, Clone, Copy)]
struct Lasts {
    /// When the latest packet would be due if none was held back.
    ordered: Time,
    held: Time,
}

/// A packet that has been sent on its way, with what its due time was made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launched {
    pub(super) held: bool,
    pub(super) twice: bool,
    due: Time,
    jitter: Span,
    before: Lasts,
}

impl<P> Flight<P> {
    pub(super) fn new(config: &LinkConfig) -> Self {
        Flight {
            ordered: VecDeque::new(),
            held: VecDeque::new(),
            last: Lasts { ordered: BEGINNING, held: BEGINNING },
            memory: 0,
            heap_bytes: None,
            loss: LossProcess::new(config.loss, config.seed),
            jitter: stream(config.seed, 1),
            reordering: stream(config.seed, 2),
            duplication: stream(config.seed, 3),
        }
    }

    /// Counts what packets take, from now on. None may be in flight.
    pub(super) fn bound_memory(&mut self, heap_bytes: fn(&P) -> u64) {
        self.heap_bytes = Some(heap_bytes);
    }

    /// Bytes that the packets in flight count.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Buffers grow by doubling, hence twice the packet's own part.
    fn cost(&self, delivery: &Delivery<P>) -> u64 {
        let own = 2 * size_of::<Flying<P>>() as u64;
        let known = self.heap_bytes.map(|heap_bytes| heap_bytes(&delivery.packet) + own);
        known.unwrap_or(u64::from(delivery.label.size) + OVERHEAD_BYTES)
    }

    /// Other probabilities from now on.
    pub(super) fn set(&mut self, config: &LinkConfig) {
        self.loss.set(config.loss);
    }

    /// Sends a packet on its way, whose due time is yet to be told; or says why it is lost.
    pub(super) fn launch(
        &mut self,
        mut delivery: Delivery<P>,
        departure: Time,
        config: &LinkConfig,
    ) -> Result<Launched, DropCause> {
        // All is drawn for every packet, so that what one draws does not depend on the others.
        let lost = self.loss.takes();
        let most = config.jitter.as_nanos();
        let jitter = Span::from_nanos(if most > 0 { self.jitter.random_range(0..=most) } else { 0 });
        let held = chance(&mut self.reordering, config.reordering.probability);
        let twice = chance(&mut self.duplication, config.duplication);
        if lost {
            return Err(DropCause::Loss);
        }
        let cost = self.cost(&delivery);
        if self.memory.saturating_add(cost) > config.in_flight_bytes {
            return Err(DropCause::InFlightFull);
        }
        self.memory += cost;
        let mut launched = Launched { held, twice, due: departure, jitter, before: self.last };
        launched.due = self.time(&launched, departure, config);
        delivery.due = launched.due;
        let lane = if held { &mut self.held } else { &mut self.ordered };
        lane.push_back(Flying { delivery, twice });
        Ok(launched)
    }

    /// Makes the due time of the packet launched last.
    fn time(&mut self, launched: &Launched, departure: Time, config: &LinkConfig) -> Time {
        let ordered = (departure + config.delay + launched.jitter).max(launched.before.ordered);
        self.last = Lasts { ordered, held: launched.before.held };
        if launched.held {
            self.last.held = (ordered + config.reordering.extra).max(launched.before.held);
            return self.last.held;
        }
        ordered
    }

    /// The packet launched last departs at another time, or its delay is another.
    pub(super) fn revise(&mut self, launched: &mut Launched, departure: Time, config: &LinkConfig) {
        let due = self.time(launched, departure, config);
        let lane = if launched.held { &mut self.held } else { &mut self.ordered };
        // It is gone where a driver took it before it was due.
        if let Some(last) = lane.back_mut().filter(|last| last.delivery.due == launched.due) {
            last.delivery.due = due;
        }
        launched.due = due;
    }

    /// The earliest due time.
    pub(super) fn next_due(&self) -> Option<Time> {
        let due = |lane: &VecDeque<Flying<P>>| lane.front().map(|flying| flying.delivery.due);
        match (due(&self.ordered), due(&self.held)) {
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
        let held = self.held.front().is_some_and(|flying| flying.delivery.due == due);
        let lane = if held { &mut self.held } else { &mut self.ordered };
        if let Some(first) = lane.front_mut().filter(|first| first.twice) {
            first.twice = false;
            let original = first.delivery.clone();
            first.delivery.copy = true;
            return Some(original);
        }
        let flying = lane.pop_front()?;
        self.memory -= self.cost(&flying.delivery);
        Some(flying.delivery)
    }
}
