use crate::config::LinkConfig;
use crate::jitter::JitterProcess;
use crate::ledger::DropCause;
use crate::loss::{Loss, LossProcess};
use crate::queue::Label;
use crate::random::{happens, random_stream};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;

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
    /// Which of its bits arrives inverted, from the first of its IP header on: the highest of its first byte is bit 0. Its
    /// checksum fails at the receiver, which drops it. A driver that carries bytes calls [`invert_bit`]; one without content drops it itself.
    pub inverted_bit: Option<u32>,
    /// When it reached the queue.
    pub arrival: Time,
    /// When its transmission began; the time from `arrival` is its sojourn time (RFC 8289).
    pub service_start: Time,
    /// When it has to be delivered: end of transmission, plus delay, jitter and the extra delay of reordering.
    pub due: Time,
}

/// Inverts a bit of a packet, which begins with its IP header; see [`Delivery::inverted_bit`].
pub fn invert_bit(packet: &mut [u8], bit: u32) {
    if let Some(byte) = packet.get_mut((bit / 8) as usize) {
        *byte ^= 0x80 >> (bit % 8);
    }
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
    /// Those that jitter lets overtake each other, the earliest on top.
    unordered: BinaryHeap<UnorderedPacket<P>>,
    /// How many have been there.
    unordered_count: u64,
    /// The latest due time of either.
    latest: LatestDueTimes,
    /// Bytes that they keep.
    memory_bytes: u64,
    /// What a packet takes on the heap, if that is known.
    heap_bytes: Option<fn(&P) -> u64>,
    loss: LossProcess,
    jitter: JitterProcess,
    reordering: Pcg64Mcg,
    duplication: LossProcess,
    corruption: LossProcess,
    inverted_bit: Pcg64Mcg,
}

#[derive(Debug)]
struct PacketInFlight<P> {
    delivery: Delivery<P>,
    /// It is delivered once more.
    is_duplicated: bool,
}

#[derive(Debug)]
struct UnorderedPacket<P> {
    flying: PacketInFlight<P>,
    /// Of two due at once, that with the lower number goes first.
    number: u64,
}

impl<P> UnorderedPacket<P> {
    fn key(&self) -> (Time, u64) {
        (self.flying.delivery.due, self.number)
    }
}

impl<P> PartialEq for UnorderedPacket<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for UnorderedPacket<P> {}

impl<P> PartialOrd for UnorderedPacket<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for UnorderedPacket<P> {
    /// The earliest is the greatest: it is on top of a heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Where a packet waits until it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Ordered,
    HeldBack,
    /// With its number.
    Unordered(u64),
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
    pub(super) is_corrupted: bool,
    lane: Lane,
    /// Whether jitter lets it overtake others.
    may_overtake: bool,
    due: Time,
    jitter: Span,
    latest_before: LatestDueTimes,
}

impl<P> PacketsInFlight<P> {
    pub(super) fn new(config: &LinkConfig) -> Self {
        PacketsInFlight {
            ordered: VecDeque::new(),
            held_back: VecDeque::new(),
            unordered: BinaryHeap::new(),
            unordered_count: 0,
            latest: LatestDueTimes { ordered: MIN_TIME, held_back: MIN_TIME },
            memory_bytes: 0,
            heap_bytes: None,
            loss: LossProcess::new(config.loss, Pcg64Mcg::seed_from_u64(config.seed)),
            jitter: JitterProcess::new(config.seed, 1),
            reordering: random_stream(config.seed, 2),
            duplication: LossProcess::new(duplication(config), random_stream(config.seed, 3)),
            corruption: LossProcess::new(corruption(config), random_stream(config.seed, 5)),
            inverted_bit: random_stream(config.seed, 6),
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

    /// Other settings from now on than these before.
    pub(super) fn apply_config(&mut self, config: &LinkConfig, before: &LinkConfig) {
        self.loss.set_loss(config.loss);
        self.duplication.set_loss(duplication(config));
        self.corruption.set_loss(corruption(config));
        if config.jitter != before.jitter {
            self.jitter.forget_last();
        }
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
        let jitter = self.jitter.draw_next(&config.jitter);
        let held = happens(&mut self.reordering, config.reordering.probability);
        let twice = self.duplication.loses_next();
        let is_corrupted = self.corruption.loses_next();
        if is_corrupted {
            let bits = delivery.label.size.max(1).saturating_mul(8);
            delivery.inverted_bit = Some(self.inverted_bit.random_range(0..bits));
        }
        if lost {
            return Err(DropCause::Loss);
        }
        let cost = self.delivery_memory(&delivery);
        if self.memory_bytes.saturating_add(cost) > config.in_flight_bytes {
            return Err(DropCause::InFlightFull);
        }
        self.memory_bytes += cost;
        let lane = match (held, config.jitter.reorders) {
            (true, _) => Lane::HeldBack,
            (false, true) => Lane::Unordered(self.unordered_count),
            (false, false) => Lane::Ordered,
        };
        let mut launched = LaunchedPacket {
            is_held_back: held,
            is_duplicated: twice,
            is_corrupted,
            lane,
            may_overtake: config.jitter.reorders,
            due: departure,
            jitter,
            latest_before: self.latest,
        };
        launched.due = self.due_time(&launched, departure, config);
        delivery.due = launched.due;
        self.enqueue(lane, PacketInFlight { delivery, is_duplicated: twice });
        Ok(launched)
    }

    fn enqueue(&mut self, lane: Lane, flying: PacketInFlight<P>) {
        match lane {
            Lane::Ordered => self.ordered.push_back(flying),
            Lane::HeldBack => self.held_back.push_back(flying),
            Lane::Unordered(number) => {
                self.unordered_count += 1;
                self.unordered.push(UnorderedPacket { flying, number });
            }
        }
    }

    /// Makes the due time of the packet launched last.
    fn due_time(&mut self, launched: &LaunchedPacket, departure: Time, config: &LinkConfig) -> Time {
        let latest = launched.latest_before;
        let own = departure + (config.delay + launched.jitter).max(Span::ZERO);
        let straight = if launched.may_overtake { own } else { own.max(latest.ordered) };
        self.latest = LatestDueTimes { ordered: straight.max(latest.ordered), held_back: latest.held_back };
        if launched.is_held_back {
            self.latest.held_back = (straight + config.reordering.extra).max(latest.held_back);
            return self.latest.held_back;
        }
        straight
    }

    /// The packet launched last departs at another time, or its delay is another.
    pub(super) fn revise_due_time(&mut self, launched: &mut LaunchedPacket, departure: Time, config: &LinkConfig) {
        // It was drawn from what the jitter was before, and may be more, or less, than it is now.
        launched.jitter = launched.jitter.clamp(config.jitter.lowest(), config.jitter.highest());
        let due = self.due_time(launched, departure, config);
        let last = match launched.lane {
            Lane::Ordered => self.ordered.back_mut(),
            Lane::HeldBack => self.held_back.back_mut(),
            Lane::Unordered(number) => {
                let mut packets = mem::take(&mut self.unordered).into_vec();
                if let Some(last) = packets.iter_mut().find(|packet| packet.number == number) {
                    last.flying.delivery.due = due;
                }
                self.unordered = packets.into();
                None
            }
        };
        // It is gone where a driver took it before it was due.
        if let Some(last) = last.filter(|last| last.delivery.due == launched.due) {
            last.delivery.due = due;
        }
        launched.due = due;
    }

    /// The earliest due time.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.earliest().map(|(due, _)| due)
    }

    /// When the earliest packet is due, and where it waits. Of several due at once, one held back was served before the others.
    fn earliest(&self) -> Option<(Time, Lane)> {
        let due = |flying: &PacketInFlight<P>, lane| (flying.delivery.due, lane);
        let ordered = self.ordered.front().map(|flying| due(flying, Lane::Ordered));
        // Asked several times for each packet, of links most of which reorder none.
        if self.held_back.is_empty() && self.unordered.is_empty() {
            return ordered;
        }
        let held = self.held_back.front().map(|flying| due(flying, Lane::HeldBack));
        let unordered = self.unordered.peek().map(|packet| due(&packet.flying, Lane::Unordered(packet.number)));
        [held, ordered, unordered].into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// The earliest packet, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Delivery<P>>
    where
        P: Clone,
    {
        let (_, lane) = self.earliest().filter(|(due, _)| *due <= now)?;
        if let Some(original) = self.original_of_duplicate(lane) {
            return Some(original);
        }
        let flying = match lane {
            Lane::Ordered => self.ordered.pop_front()?,
            Lane::HeldBack => self.held_back.pop_front()?,
            Lane::Unordered(_) => self.unordered.pop()?.flying,
        };
        self.memory_bytes -= self.delivery_memory(&flying.delivery);
        Some(flying.delivery)
    }

    /// The first packet of the lane, if it is to be delivered twice; its duplicate is left.
    fn original_of_duplicate(&mut self, lane: Lane) -> Option<Delivery<P>>
    where
        P: Clone,
    {
        let duplicate = |flying: &mut PacketInFlight<P>| {
            let original = flying.delivery.clone();
            flying.is_duplicated = false;
            (flying.delivery.is_duplicate, flying.delivery.inverted_bit) = (true, None);
            original
        };
        match lane {
            Lane::Ordered => self.ordered.front_mut().filter(|first| first.is_duplicated).map(duplicate),
            Lane::HeldBack => self.held_back.front_mut().filter(|first| first.is_duplicated).map(duplicate),
            // Only what is changed is put in order again.
            Lane::Unordered(_) if !self.unordered.peek()?.flying.is_duplicated => None,
            Lane::Unordered(_) => self.unordered.peek_mut().map(|mut first| duplicate(&mut first.flying)),
        }
    }
}

/// Which packets are delivered twice.
fn duplication(config: &LinkConfig) -> Loss {
    Loss::correlated(config.duplication, config.duplication_correlation)
}

/// Which packets arrive with an inverted bit.
fn corruption(config: &LinkConfig) -> Loss {
    Loss::correlated(config.corruption, config.corruption_correlation)
}
