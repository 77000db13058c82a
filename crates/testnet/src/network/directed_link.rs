use super::core::HOLDBACK;
use crate::count::ByteCount;
use hdrhistogram::Histogram;
use link::queue::{Ecn, QueueConfig};
use link::{Delivery, Label, Link, LinkConfig, Recording};
use packet::{Selector, ecn};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use units::{Span, Time};

/// One direction: packets that wait to be ordered, the links, and what is needed to judge afterwards.
#[derive(Debug)]
pub(super) struct DirectedLink {
    /// The bottleneck.
    link: Link<Vec<u8>>,
    /// Behind it.
    later: Option<Link<Vec<u8>>>,
    /// Read, but possibly not in order yet: by stamp.
    pending: VecDeque<Pending>,
    /// How long a packet may wait in `pending` before the thread must wake for it.
    patience: Span,
    /// From other hosts than the measuring one.
    foreign: ByteCount,
    /// Due time, and by how much the write missed it.
    writes: Log,
    /// Stamp, and how much later the packet was read.
    reads: Log,
    /// How long packets spent in the queue and in service.
    waits: Waits,
    pub(super) unroutable: u64,
    pub(super) refused: u64,
}

/// A packet on its way from its sender to the link.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) stamp: Time,
    pub(super) packet: Vec<u8>,
    /// Whether it comes from another host than the one that measures.
    pub(super) foreign: bool,
    /// Whether the middlebox has nothing to say about it (any more).
    pub(super) judged: bool,
}

/// How late packets were, against when they should have been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    /// Packets that were due.
    pub packets: u64,
    /// Those more than 300 µs late: of a train that holds one of them, nothing is to be believed.
    pub late: u64,
    /// Half of them were at most this late.
    pub median: Span,
    /// 99 of 100 were at most this late.
    pub p99: Span,
    /// The worst.
    pub max: Span,
    /// How long after its sending the slowest packet was read; harmless below the link's delay.
    pub slowest_read: Span,
}

impl DirectedLink {
    /// With a queue at the bottleneck in place of tail drop if one is given, and a link behind it.
    pub(super) fn new(
        config: LinkConfig,
        queue: Option<&QueueConfig>,
        later: Option<LinkConfig>,
        now: Time,
    ) -> Result<Self, units::ConfigError> {
        let patience = (config.delay / 2).min(Span::from_millis(1));
        let mut link = match queue {
            Some(queue) => Link::with_queue(config, queue)?,
            None => Link::new(config)?,
        };
        let mut later = later.map(Link::new).transpose()?;
        for link in std::iter::once(&mut link).chain(&mut later) {
            link.advance(now);
            link.ledger_mut().record(Recording::Cross);
        }
        Ok(DirectedLink {
            link,
            later,
            pending: VecDeque::new(),
            patience,
            foreign: ByteCount::default(),
            writes: Log::default(),
            reads: Log::default(),
            waits: Waits::default(),
            unroutable: 0,
            refused: 0,
        })
    }

    pub(super) fn link(&self) -> &Link<Vec<u8>> {
        &self.link
    }

    pub(super) fn link_mut(&mut self) -> &mut Link<Vec<u8>> {
        &mut self.link
    }

    pub(super) fn later_mut(&mut self) -> Option<&mut Link<Vec<u8>>> {
        self.later.as_mut()
    }

    /// A packet was read at `now`.
    pub(super) fn read(&mut self, arrived: Pending, now: Time) {
        self.reads.0.push_back((arrived.stamp, now - arrived.stamp));
        self.push(arrived);
    }

    /// A packet is on its way to the link.
    pub(super) fn push(&mut self, arrived: Pending) {
        let place = self.pending.partition_point(|earlier| earlier.stamp <= arrived.stamp);
        self.pending.insert(place, arrived);
    }

    /// The next packet sent by `horizon`: nothing sent before it is still to come.
    pub(super) fn pop_settled(&mut self, horizon: Time) -> Option<Pending> {
        if self.pending.front()?.stamp <= horizon { self.pending.pop_front() } else { None }
    }

    pub(super) fn offer(&mut self, arrived: Pending) {
        let size = arrived.packet.len() as u32;
        if arrived.foreign {
            self.foreign.note(arrived.stamp, u64::from(size));
        }
        let label = label(&arrived.packet);
        // What the link drops is in its ledger.
        let _ = self.link.offer_labelled(arrived.packet, label, arrived.stamp);
    }

    /// Brings the links to `horizon`. What leaves the first one by then is all known: its delay is longer than packets
    /// are held back for.
    pub(super) fn advance(&mut self, horizon: Time) {
        self.link.advance(horizon);
        let Some(mut later) = self.later.take() else { return };
        while let Some(Delivery { packet, due, .. }) = self.leave_bottleneck(horizon) {
            let label = label(&packet);
            // What the link drops is in its ledger.
            let _ = later.offer_labelled(packet, label, due);
        }
        later.advance(horizon);
        self.later = Some(later);
    }

    /// When the thread must be awake again for this lane.
    pub(super) fn next_event(&self) -> Option<Time> {
        let settle = self.pending.front().map(|first| first.stamp + self.patience);
        let leave = match &self.later {
            None => self.link.next_event(),
            // What leaves the bottleneck has time until it is settled.
            Some(later) => self.link.next_event().map(|out| out + HOLDBACK).into_iter().chain(later.next_event()).min(),
        };
        leave.into_iter().chain(settle).min()
    }

    /// When the next packet is to be handed over that is known to be.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.later.as_ref().unwrap_or(&self.link).next_due()
    }

    pub(super) fn pop_due(&mut self, now: Time) -> Option<Delivery<Vec<u8>>> {
        match &mut self.later {
            Some(later) => later.pop_due(now),
            None => self.leave_bottleneck(now),
        }
    }

    fn leave_bottleneck(&mut self, now: Time) -> Option<Delivery<Vec<u8>>> {
        let mut delivery = self.link.pop_due(now)?;
        if delivery.marked {
            ecn::mark(&mut delivery.packet);
        }
        self.waits.note(delivery.due - delivery.arrival - self.link.config().delay);
        Some(delivery)
    }

    /// How long packets waited since the last call.
    pub(super) fn take_waits(&mut self) -> Waits {
        std::mem::take(&mut self.waits)
    }

    pub(super) fn written(&mut self, due: Time, lateness: Span) {
        self.link.ledger_mut().delivered(lateness);
        self.writes.0.push_back((due, lateness));
    }

    pub(super) fn cross_bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        let computed = self.link.ledger().cross_bytes_between(from, to)?;
        Some(computed + self.foreign.between(from, to))
    }

    /// None where that is not on record, or there is no later link.
    pub(super) fn later_cross_bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        self.later.as_ref()?.ledger().cross_bytes_between(from, to)
    }

    pub(super) fn lateness(&self, from: Time, to: Time) -> Lateness {
        let mut writes: Vec<_> = self.writes.within(from, to).collect();
        writes.sort_unstable();
        let quantile = |q: usize| writes.get(writes.len() * q / 100).copied().unwrap_or_default();
        Lateness {
            packets: writes.len() as u64,
            late: writes.iter().filter(|late| **late > crate::STALL).count() as u64,
            median: quantile(50),
            p99: quantile(99),
            max: writes.last().copied().unwrap_or_default(),
            slowest_read: self.reads.within(from, to).max().unwrap_or_default(),
        }
    }

    /// Forgets what is older, so that memory stays bounded.
    pub(super) fn forget_before(&mut self, time: Time) {
        for link in std::iter::once(&mut self.link).chain(&mut self.later) {
            link.ledger_mut().forget_before(time);
        }
        self.foreign.forget_before(time);
        self.writes.forget_before(time);
        self.reads.forget_before(time);
    }
}

/// What a queue must know of a packet. Fragments and what is no IP are told apart as far as they can be.
pub(super) fn label(packet: &[u8]) -> Label {
    let mut hasher = DefaultHasher::new();
    Selector::of(packet).hash(&mut hasher);
    let ecn = match ecn::read(packet) {
        ecn::CAPABLE_0 => Ecn::Capable0,
        ecn::CAPABLE_1 => Ecn::Capable1,
        ecn::MARKED => Ecn::Marked,
        _ => Ecn::NotCapable,
    };
    Label { size: packet.len() as u32, flow: hasher.finish(), ecn }
}

/// How long packets waited: to a percent, in bounded memory.
#[derive(Debug)]
pub struct Waits(Histogram<u64>);

impl Default for Waits {
    fn default() -> Self {
        // A minute at the most; two significant figures are always possible.
        Waits(Histogram::new_with_max(60_000_000_000, 2).unwrap_or_else(|_| unreachable!("two figures of a minute")))
    }
}

impl Waits {
    fn note(&mut self, wait: Span) {
        self.0.saturating_record(wait.as_nanos().max(0) as u64);
    }

    /// Packets that came out.
    pub fn packets(&self) -> u64 {
        self.0.len()
    }

    /// What this part of them, from 0 to 1, did not exceed.
    pub fn quantile(&self, part: f64) -> Span {
        Span::from_nanos(self.0.value_at_quantile(part) as i64)
    }
}

/// Instants, nearly in order, each with how late something was.
#[derive(Debug, Default)]
struct Log(VecDeque<(Time, Span)>);

impl Log {
    fn within(&self, from: Time, to: Time) -> impl Iterator<Item = Span> {
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

    /// IPv4 without options, and the ports of TCP.
    fn segment(source_port: u8, traffic_class: u8) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[1], packet[3], packet[9]) = (0x45, traffic_class, 40, packet::protocol::TCP);
        (packet[21], packet[32]) = (source_port, 0x50);
        packet
    }

    #[test]
    fn connections_are_flows_of_their_own_and_marks_do_not_matter() {
        assert_eq!(label(&segment(1, 0)).flow, label(&segment(1, 2)).flow);
        assert_ne!(label(&segment(1, 0)).flow, label(&segment(2, 0)).flow);
        assert_eq!((label(&segment(1, 2)).ecn, label(&segment(1, 0)).ecn), (Ecn::Capable0, Ecn::NotCapable));
        assert_eq!(label(&[]).size, 0);
    }

    #[test]
    fn waits_are_right_to_a_percent_and_start_anew_when_taken() {
        let mut waits = Waits::default();
        (1..=1000).for_each(|micros| waits.note(Span::from_micros(micros)));
        assert!((waits.quantile(0.95).as_secs_f64() / 950e-6 - 1.0).abs() < 0.01);
        assert_eq!((waits.packets(), std::mem::take(&mut waits).packets(), waits.packets()), (1000, 1000, 0));
    }
}
