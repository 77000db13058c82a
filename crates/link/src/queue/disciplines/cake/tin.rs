//! A tin: flows with a queue each, that take turns.

use super::cobalt::{Cobalt, CobaltParameters, Signal};
use super::isolation::Isolation;
use super::layout::TinShare;
use crate::framing::Framing;
use crate::ledger::DropCause;
use crate::queue::flow_table::FlowTable;
use crate::queue::packet::{DroppedPacket, QueuedPacket};
use crate::queue::slab::{PacketSlab, SlabList};
use crate::random::mix_bits;
use crate::sparse_table::SparseTable;
use kumade_units::{Rate, Span, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// What a tin has to know of the whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct TinConfig {
    pub(super) share: TinShare,
    pub(super) isolation: Isolation,
    pub(super) rtt: Span,
    /// Of the link.
    pub(super) rate: Option<Rate>,
    pub(super) framing: Framing,
}

#[derive(Debug)]
pub(super) struct Tin {
    isolation: Isolation,
    framing: Framing,
    /// That of its share.
    rate: Option<Rate>,
    cobalt: CobaltParameters,
    /// Bytes of a flow's turn, where its host has no other.
    flow_quantum: u32,
    /// Where each flow's queue is.
    places: FlowTable<Place>,
    flows: SparseTable<Flow>,
    /// How many flows of each host always have packets.
    sources: FlowTable<u16>,
    destinations: FlowTable<u16>,
    /// Flows that have just begun to send come first. Each stands in one of the two lists at most.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// When what it has sent so far has ended at its own rate.
    next_time: Time,
    /// Where there is no rate: what it may send, and what it gets in each turn.
    deficit: i64,
    quantum: i64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// A flow has been here since it was given to one.
    is_used: bool,
    is_listed: bool,
}

/// A flow's queue.
#[derive(Debug, Default)]
struct Flow {
    chain: SlabList,
    cobalt: Cobalt,
    /// Since when nothing waits.
    empty_since: Time,
    turns: Turns,
    /// Bytes that it may still send in this turn; negative when it has sent more.
    deficit: i64,
    source: u64,
    destination: u64,
    /// Where its hosts are counted, while it is.
    host_places: Option<[u32; 2]>,
}

/// How a flow takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Turns {
    #[default]
    None,
    /// It has sent no more than a quantum since it began.
    Sparse,
    /// So has it, and waits among those that send more, without a packet.
    SparseWaiting,
    /// It always has packets.
    Bulk,
}

/// Queues in a tin.
const FLOWS_PER_TIN: u32 = 1024;
/// The longest turn: a full Ethernet frame. On slow links it is shorter, so that small packets don't wait for many large ones.
const MAX_QUANTUM_BYTES: u64 = 1514;
const MIN_QUANTUM_BYTES: u64 = 300;
/// At so many turns a second of a quantum each, the quantum is neither.
const QUANTA_PER_SECOND: u64 = 4096;
/// No IP packet is larger; whatever claims to be may not send the turns round for ever.
const MAX_PACKET_BYTES: u32 = 65_535;
/// Of the tin that may have all, where tins take turns; the others have theirs by their shares.
const TIN_QUANTUM_BYTES: i64 = 1024;

impl Tin {
    pub(super) fn new(config: TinConfig, seed: u64) -> Self {
        let TinConfig { share, isolation, rtt, rate, framing } = config;
        let part =
            |rate: Rate| Rate::from_bits_per_second((rate.bits_per_second() * u64::from(share.numerator) / 16).max(1));
        let rate = rate.map(part);
        let quantum =
            |rate: Rate| (rate.bits_per_second() / 8 / QUANTA_PER_SECOND).clamp(MIN_QUANTUM_BYTES, MAX_QUANTUM_BYTES);
        Tin {
            isolation,
            framing,
            rate,
            cobalt: CobaltParameters::new(rtt, rate),
            flow_quantum: rate.map_or(MAX_QUANTUM_BYTES, quantum) as u32,
            places: FlowTable::new(FLOWS_PER_TIN, mix_bits(seed)),
            flows: SparseTable::new(FLOWS_PER_TIN as usize, Flow::default),
            sources: FlowTable::new(FLOWS_PER_TIN, mix_bits(seed ^ 1 << 32)),
            destinations: FlowTable::new(FLOWS_PER_TIN, mix_bits(seed ^ 2 << 32)),
            new: VecDeque::new(),
            old: VecDeque::new(),
            next_time: Time::from_nanos(i64::MIN / 4),
            deficit: 0,
            quantum: TIN_QUANTUM_BYTES * i64::from(share.numerator) / 16,
        }
    }

    /// Whether a flow waits for its turn, perhaps without a packet.
    pub(super) fn has_flows(&self) -> bool {
        !self.new.is_empty() || !self.old.is_empty()
    }

    /// When it is within its share again.
    pub(super) fn next_time(&self) -> Time {
        self.next_time
    }

    /// Whether it sends next where tins take turns; else it gets its quantum for the next one.
    pub(super) fn takes_turn(&mut self) -> bool {
        if self.has_flows() && self.deficit >= 0 {
            return true;
        }
        if self.deficit <= 0 {
            self.deficit += self.quantum;
        }
        false
    }

    /// The bytes of the longest queue, and its place.
    pub(super) fn longest(&self) -> Option<(u64, u32)> {
        let listed = self.new.iter().chain(&self.old);
        let bytes = |place: &u32| self.flows.get(*place as usize).map_or(0, |flow| flow.chain.bytes());
        listed.map(|place| (bytes(place), *place)).filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes)
    }

    pub(super) fn is_empty(&self, place: u32) -> bool {
        self.flows.get(place as usize).is_none_or(|flow| flow.chain.packets() == 0)
    }

    /// Queues a packet; returns the place of its flow.
    pub(super) fn enqueue<P>(&mut self, packet: QueuedPacket<P>, slab: &mut PacketSlab<P>) -> u32 {
        let now = packet.arrival;
        if !self.has_flows() {
            self.next_time = self.next_time.max(now);
        }
        let (source, destination) = (packet.host, packet.destination_host.into());
        let key = self.isolation.queue_key(packet.flow, source, destination);
        let place = self.places.slot_of(key, |place| !place.is_listed);
        let known = self.places.get(place);
        let flow = self.flows.get_mut(place as usize);
        if !known.is_used {
            *flow = Flow::default();
        }
        *known = Place { is_used: true, is_listed: true };
        slab.push(&mut flow.chain, packet);
        match flow.turns {
            Turns::None => {
                flow.cobalt.rest(&self.cobalt, flow.empty_since, now);
                (flow.turns, flow.source, flow.destination) = (Turns::Sparse, source, destination);
                let load = host_load(flow, self.isolation, &mut self.sources, &mut self.destinations);
                flow.deficit = i64::from((self.flow_quantum / load).max(1));
                self.new.push_back(place);
            }
            Turns::SparseWaiting => self.make_bulk(place),
            Turns::Sparse | Turns::Bulk => {}
        }
        place
    }

    /// Drops the first packet of a queue, which is the longest.
    pub(super) fn drop_first<P>(&mut self, place: u32, now: Time, slab: &mut PacketSlab<P>) -> Option<QueuedPacket<P>> {
        let flow = self.flows.get_mut(place as usize);
        flow.cobalt.overflow(&self.cobalt, now);
        slab.pop(&mut flow.chain)
    }

    /// The next packet; none where the flow whose turn it was has none, and is no longer listed.
    pub(super) fn dequeue<P>(
        &mut self,
        now: Time,
        slab: &mut PacketSlab<P>,
        rng: &mut Pcg64Mcg,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Option<QueuedPacket<P>> {
        let place = self.next_flow(rng)?;
        let flow = self.flows.get_mut(place as usize);
        while let Some(mut packet) = slab.pop(&mut flow.chain) {
            let signal = flow.cobalt.signal(&self.cobalt, now, now - packet.arrival, rng);
            let passes = signal == Signal::None || signal == Signal::Congestion && packet.mark();
            // The last packet is not dropped: none would tell the receiver.
            if passes || flow.chain.packets() == 0 {
                let line_bytes = self.framing.line_bytes(packet.size.min(MAX_PACKET_BYTES));
                flow.deficit -= i64::from(line_bytes);
                self.deficit -= i64::from(line_bytes);
                self.charge(line_bytes, now);
                return Some(packet);
            }
            drops.push(DroppedPacket { packet, cause: DropCause::Aqm });
        }
        let list = if self.new.front() == Some(&place) { &mut self.new } else { &mut self.old };
        list.pop_front();
        self.unlist(place, now);
        None
    }

    /// Whose turn it is, after all those before that have sent what they may (DRR++).
    fn next_flow(&mut self, rng: &mut Pcg64Mcg) -> Option<u32> {
        loop {
            let is_new = !self.new.is_empty();
            let place = *if is_new { self.new.front() } else { self.old.front() }?;
            let flow = self.flows.get_mut(place as usize);
            if flow.deficit > 0 {
                return Some(place);
            }
            if flow.turns == Turns::Sparse {
                if flow.chain.packets() > 0 {
                    self.make_bulk(place);
                } else {
                    flow.turns = Turns::SparseWaiting;
                }
            }
            let flow = self.flows.get_mut(place as usize);
            let load = host_load(flow, self.isolation, &mut self.sources, &mut self.destinations);
            // The rest of the division is given by chance, so that none is lost.
            flow.deficit += i64::from((self.flow_quantum + rng.random_range(0..load)) / load);
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            self.old.push_back(place);
        }
    }

    /// A packet is sent: the tin has used so much of its share.
    fn charge(&mut self, line_bytes: u32, now: Time) {
        let Some(rate) = self.rate else { return };
        let duration = rate.time_for(line_bytes.into());
        // Behind its share, it catches up; otherwise it is due no earlier than if it had begun now.
        self.next_time =
            if self.next_time < now { self.next_time + duration } else { self.next_time.max(now + duration) };
    }

    /// The flow counts for its hosts from now on.
    fn make_bulk(&mut self, place: u32) {
        let flow = self.flows.get_mut(place as usize);
        flow.turns = Turns::Bulk;
        let places = [
            self.sources.slot_of(flow.source, |flows| *flows == 0),
            self.destinations.slot_of(flow.destination, |flows| *flows == 0),
        ];
        *self.sources.get(places[0]) += 1;
        *self.destinations.get(places[1]) += 1;
        flow.host_places = Some(places);
    }

    /// The flow has no packet, and is in no list any more.
    fn unlist(&mut self, place: u32, now: Time) {
        let flow = self.flows.get_mut(place as usize);
        if let Some([source, destination]) = flow.host_places.take() {
            *self.sources.get(source) -= 1;
            *self.destinations.get(destination) -= 1;
        }
        (flow.turns, flow.empty_since) = (Turns::None, now);
        self.places.get(place).is_listed = false;
    }

    /// Nothing waits in the whole queue.
    pub(super) fn forget_empty_flows(&mut self, now: Time) {
        while let Some(place) = self.new.pop_front().or_else(|| self.old.pop_front()) {
            self.unlist(place, now);
        }
    }
}

/// By how many flows of its host a flow's quantum is divided.
fn host_load(
    flow: &Flow,
    isolation: Isolation,
    sources: &mut FlowTable<u16>,
    destinations: &mut FlowTable<u16>,
) -> u32 {
    let [by_source, by_destination] = isolation.fair_ends();
    let count = |is_fair: bool, end: usize, table: &mut FlowTable<u16>, host: u64| {
        let place = flow.host_places.map(|places| places[end]).or_else(|| table.find(host));
        place.filter(|_| is_fair).map_or(0, |place| *table.get(place))
    };
    let most = count(by_source, 0, sources, flow.source).max(count(by_destination, 1, destinations, flow.destination));
    u32::from(most).max(1)
}
