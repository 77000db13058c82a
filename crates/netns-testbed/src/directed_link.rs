pub use kumade_link::MAX_UNDISTURBED_LATENESS;

use crate::count::ByteCount;
use hdrhistogram::Histogram;
use kumade_link::queue::QueueConfig;
use kumade_link::{Delivery, Label, Link, LinkConfig, Recording, invert_bit};
use kumade_packet::{Classification, ecn};
use kumade_packet_loop::Buffer;
use kumade_units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Packets are taken as ordered once they are this old: longer than a packet takes from its stamp to the ring.
pub(crate) const ORDERING_DELAY: Span = Span::from_micros(50);
/// How far back truth and lateness can be asked for: longer than any method takes for a direction.
pub const RECORD_LENGTH: Span = Span::from_secs(90);
/// An idle network computes its cross traffic this often, so that it never has much to catch up with.
pub(crate) const IDLE_TICK: Span = Span::from_millis(20);
/// With less time than this to the next event, work that can wait is put off.
pub(crate) const MIN_IDLE_TIME: Span = Span::from_micros(100);

/// One direction: packets to be ordered, the links, and a record of both.
#[derive(Debug)]
pub(crate) struct DirectedLink {
    bottleneck: Link<Buffer>,
    downstream_hop: Option<Link<Buffer>>,
    /// Read, but possibly not in order yet: by stamp.
    pending: VecDeque<PendingPacket>,
    /// How long a packet may wait in `pending` before the thread must wake for it.
    max_pending_time: Span,
    /// From other hosts than the measuring one.
    cross_packets: ByteCount,
    punctuality: PunctualityLog,
    /// How long packets spent in the queue and in service, by the address that they came from.
    waits: BTreeMap<IpAddr, WaitHistogram>,
    pub(crate) unroutable: u64,
    pub(crate) refused: u64,
}

/// A packet on its way from its sender to the link.
#[derive(Debug)]
pub(crate) struct PendingPacket {
    pub(crate) stamp: Time,
    pub(crate) packet: Buffer,
    pub(crate) label: Label,
    /// Whether it comes from another host than the one that measures.
    pub(crate) is_cross: bool,
    /// Whether the middlebox has nothing to say about it (any more).
    pub(crate) has_passed_middlebox: bool,
}

/// How much later than due packets were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    /// Packets that were due.
    pub packets: u64,
    /// Those more than [`MAX_UNDISTURBED_LATENESS`] late: a train that contains one of them is not to be trusted.
    pub late: u64,
    /// Half of them were at most this late.
    pub median: Span,
    /// 95 of 100 were at most this late.
    pub p95: Span,
    /// 99 of 100 were at most this late.
    pub p99: Span,
    /// The worst.
    pub max: Span,
    /// How long after its sending the slowest packet was read; harmless below the link's delay.
    pub slowest_read: Span,
}

impl DirectedLink {
    /// With this queue at the bottleneck in place of tail drop, if one is given, and this hop behind it.
    pub(crate) fn new(
        config: LinkConfig,
        queue: Option<&QueueConfig>,
        downstream_hop: Option<LinkConfig>,
        now: Time,
    ) -> Result<Self, kumade_units::ConfigError> {
        let patience = (config.delay / 2).min(Span::from_millis(1));
        let config = config.validate()?;
        let mut bottleneck = match queue {
            Some(queue) => Link::with_queue(config, &queue.clone().validate()?),
            None => Link::new(config),
        };
        let mut downstream_hop = downstream_hop.map(|hop| hop.validate().map(Link::new)).transpose()?;
        for link in std::iter::once(&mut bottleneck).chain(&mut downstream_hop) {
            link.advance(now);
            link.ledger_mut().record(Recording::Cross);
        }
        Ok(DirectedLink {
            bottleneck,
            downstream_hop,
            pending: VecDeque::new(),
            max_pending_time: patience,
            cross_packets: ByteCount::default(),
            punctuality: PunctualityLog::default(),
            waits: BTreeMap::new(),
            unroutable: 0,
            refused: 0,
        })
    }

    pub(crate) fn bottleneck(&self) -> &Link<Buffer> {
        &self.bottleneck
    }

    pub(crate) fn bottleneck_mut(&mut self) -> &mut Link<Buffer> {
        &mut self.bottleneck
    }

    pub(crate) fn downstream_hop_mut(&mut self) -> Option<&mut Link<Buffer>> {
        self.downstream_hop.as_mut()
    }

    /// A packet was read at `now`.
    pub(crate) fn record_read(&mut self, arrived: PendingPacket, now: Time) {
        self.punctuality.record_read(arrived.stamp, now);
        self.push(arrived);
    }

    /// A packet is on its way to the link.
    pub(crate) fn push(&mut self, arrived: PendingPacket) {
        let place = self.pending.partition_point(|earlier| earlier.stamp <= arrived.stamp);
        self.pending.insert(place, arrived);
    }

    /// The next packet sent by `horizon`: nothing sent before it is still to come.
    pub(crate) fn pop_ordered(&mut self, horizon: Time) -> Option<PendingPacket> {
        if self.pending.front()?.stamp <= horizon { self.pending.pop_front() } else { None }
    }

    pub(crate) fn offer(&mut self, arrived: PendingPacket) {
        let PendingPacket { stamp, packet, label, is_cross, .. } = arrived;
        if is_cross {
            self.cross_packets.add_bytes(stamp, u64::from(label.size));
        }
        // Its drops are in its ledger.
        let _ = self.bottleneck.offer_labelled(packet, label, stamp);
    }

    /// Brings the links to `horizon`. All packets that leave the first one by then are known: its delay is longer than
    /// packets are held back for.
    pub(crate) fn advance(&mut self, horizon: Time) {
        self.bottleneck.advance(horizon);
        let Some(mut hop) = self.downstream_hop.take() else { return };
        while let Some(Delivery { packet, label, due, .. }) = self.pop_from_bottleneck(horizon) {
            // Its drops are in its ledger.
            let _ = hop.offer_labelled(packet, label, due);
        }
        hop.advance(horizon);
        self.downstream_hop = Some(hop);
    }

    /// When the thread must be awake again for this lane.
    pub(crate) fn next_event(&self) -> Option<Time> {
        let settle = self.pending.front().map(|first| first.stamp + self.max_pending_time);
        let out = self.bottleneck.next_event();
        let leave = match &self.downstream_hop {
            None => out,
            // Packets that leave the bottleneck have time until they are settled.
            Some(hop) => out.map(|out| out + ORDERING_DELAY).into_iter().chain(hop.next_event()).min(),
        };
        leave.into_iter().chain(settle).min()
    }

    /// When the next packet is due, of those whose delivery is certain.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.downstream_hop.as_ref().unwrap_or(&self.bottleneck).next_due()
    }

    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Delivery<Buffer>> {
        let mut delivery = match &mut self.downstream_hop {
            Some(hop) => hop.pop_due(now),
            None => self.pop_from_bottleneck(now),
        }?;
        if let Some(bit) = delivery.inverted_bit.filter(|_| self.downstream_hop.is_some()) {
            invert_bit(&mut delivery.packet, bit);
        }
        Some(delivery)
    }

    fn pop_from_bottleneck(&mut self, now: Time) -> Option<Delivery<Buffer>> {
        let mut delivery = self.bottleneck.pop_due(now)?;
        if delivery.is_marked {
            ecn::mark(&mut delivery.packet);
        }
        if let Some(bit) = delivery.inverted_bit {
            invert_bit(&mut delivery.packet, bit);
        }
        if let Some(selector) = Classification::from_packet(&delivery.packet).selector {
            let wait = delivery.due - delivery.arrival - self.bottleneck.config().delay;
            self.waits.entry(selector.source).or_default().record(wait);
        }
        Some(delivery)
    }

    /// How long packets waited since the last call, by the address that they came from.
    pub(crate) fn take_waits(&mut self) -> BTreeMap<IpAddr, WaitHistogram> {
        std::mem::take(&mut self.waits)
    }

    pub(crate) fn record_write(&mut self, due: Time, lateness: Span) {
        self.bottleneck.ledger_mut().record_delivery(lateness);
        self.punctuality.record_write(due, lateness);
    }

    pub(crate) fn cross_bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        let computed = self.bottleneck.ledger().cross_bytes_between(from, to)?;
        Some(computed + self.cross_packets.bytes_between(from, to))
    }

    /// None where that is not on record, or there is no downstream hop.
    pub(crate) fn downstream_cross_bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        self.downstream_hop.as_ref()?.ledger().cross_bytes_between(from, to)
    }

    pub(crate) fn lateness(&self, from: Time, to: Time) -> Lateness {
        self.punctuality.lateness_between(from, to)
    }

    /// Forgets older entries, so that memory stays bounded.
    pub(crate) fn forget_before(&mut self, time: Time) {
        for link in std::iter::once(&mut self.bottleneck).chain(&mut self.downstream_hop) {
            link.ledger_mut().forget_before(time);
        }
        self.cross_packets.forget_before(time);
        self.punctuality.forget_before(time);
    }
}

/// How long packets waited: to a percent, in bounded memory.
#[derive(Debug)]
pub struct WaitHistogram(Histogram<u64>);

impl Default for WaitHistogram {
    fn default() -> Self {
        // A minute at the most; two significant figures are always possible.
        WaitHistogram(
            Histogram::new_with_max(60_000_000_000, 2).unwrap_or_else(|_| unreachable!("two figures of a minute")),
        )
    }
}

impl WaitHistogram {
    fn record(&mut self, wait: Span) {
        self.0.saturating_record(wait.as_nanos().max(0) as u64);
    }

    /// Adds those of `other`.
    pub fn add(&mut self, other: &WaitHistogram) {
        self.0 += &other.0;
    }

    /// Their mean.
    pub fn mean(&self) -> Span {
        Span::from_nanos(self.0.mean() as i64)
    }

    /// Packets that came out.
    pub fn packets(&self) -> u64 {
        self.0.len()
    }

    /// Their quantile, of a part from 0 to 1.
    pub fn quantile(&self, part: f64) -> Span {
        Span::from_nanos(self.0.value_at_quantile(part) as i64)
    }
}

/// When packets were written and read, and how late that was.
#[derive(Debug, Default)]
pub(crate) struct PunctualityLog {
    /// Due time, and by how much the write missed it.
    writes: LatenessLog,
    /// Stamp, and how much later the packet was read.
    reads: LatenessLog,
}

impl PunctualityLog {
    pub(crate) fn record_read(&mut self, stamp: Time, now: Time) {
        self.reads.0.push_back((stamp, now - stamp));
    }

    pub(crate) fn record_write(&mut self, due: Time, lateness: Span) {
        self.writes.0.push_back((due, lateness));
    }

    pub(crate) fn lateness_between(&self, from: Time, to: Time) -> Lateness {
        let mut writes: Vec<_> = self.writes.lateness_within(from, to).collect();
        writes.sort_unstable();
        let quantile = |q: usize| writes.get(writes.len() * q / 100).copied().unwrap_or_default();
        Lateness {
            packets: writes.len() as u64,
            late: writes.iter().filter(|late| **late > MAX_UNDISTURBED_LATENESS).count() as u64,
            median: quantile(50),
            p95: quantile(95),
            p99: quantile(99),
            max: writes.last().copied().unwrap_or_default(),
            slowest_read: self.reads.lateness_within(from, to).max().unwrap_or_default(),
        }
    }

    pub(crate) fn forget_before(&mut self, time: Time) {
        self.writes.forget_before(time);
        self.reads.forget_before(time);
    }
}

/// Instants, nearly in order, each with how late something was.
#[derive(Debug, Default)]
struct LatenessLog(VecDeque<(Time, Span)>);

impl LatenessLog {
    fn lateness_within(&self, from: Time, to: Time) -> impl Iterator<Item = Span> {
        self.0.iter().filter(move |(time, _)| (from..to).contains(time)).map(|(_, late)| *late)
    }

    fn forget_before(&mut self, time: Time) {
        while self.0.front().is_some_and(|(at, _)| *at < time) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_right_to_a_percent_and_start_anew_when_taken() {
        let mut waits = WaitHistogram::default();
        (1..=1000).for_each(|micros| waits.record(Span::from_micros(micros)));
        assert!((waits.quantile(0.95).as_secs_f64() / 950e-6 - 1.0).abs() < 0.01);
        assert_eq!((waits.packets(), std::mem::take(&mut waits).packets(), waits.packets()), (1000, 1000, 0));
    }
}
