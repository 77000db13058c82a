//! One vector of facts a train.

use crate::assumptions::{
    MAX_BATCH_GAP, MIN_BODY_PACKETS, MIN_HEAD_PACKETS, QUICK_GAPS_PART, SKIPPED_PART_BEHIND_HEAD,
    SKIPPED_PART_WITHOUT_HEAD,
};
use kumade_probe_train::fit::fit_line;
use kumade_probe_train::{PacketRecord, Train, TrainRecord};
use kumade_units::{Span, Time};

/// Deciles of the delays of a segment's packets, at 5, 15 … 95 %.
pub(crate) const DELAY_QUANTILES: usize = 10;

/// What became of one segment of a train: packets back to back, or at a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentFacts {
    /// When its first packet left, in seconds from the first train's.
    pub start: f64,
    /// From the first packet to the last, in seconds, at the sender.
    pub duration: f64,
    /// Packets that arrived.
    pub packets: u32,
    /// What was sent after the first packet, up to the last, in bits.
    pub bits: f64,
    /// Bits of a packet.
    pub packet_bits: f64,
    /// By how many seconds the one-way delay grew from the first packet to the last: the rise of the line of least squares of a body; of a
    /// head, what it took longer to arrive than to leave.
    pub growth: f64,
    /// The part of the packets that was lost.
    pub loss_fraction: f64,
    /// Quantiles of the one-way delays, in seconds up to a constant, in ascending order.
    pub delay_quantiles: [f64; DELAY_QUANTILES],
    /// The rate in bit/s that a quarter of the gaps at arrival exceed.
    pub quick_rate: f64,
}

/// What became of one train.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainFacts {
    /// Packets at its beginning, sent back to back.
    pub head: Option<SegmentFacts>,
    /// Packets at a constant rate behind, without those that passed while queues found their length.
    pub body: Option<SegmentFacts>,
    /// From the end of the train before to this one's start, in seconds; none of the first one.
    pub spacing: Option<f64>,
    /// When the last packet left, in seconds from the first train's first.
    pub end: f64,
}

/// What stamps count from: the first packet's, so that seconds fit a double with all their digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Epoch {
    sent: Time,
    received: Time,
}

impl Epoch {
    /// Of the first packet with both stamps.
    pub(crate) fn from_record(record: &TrainRecord) -> Option<Self> {
        record.packets.iter().find_map(|p| Some(Epoch { sent: p.sent?, received: p.received? }))
    }
}

impl TrainFacts {
    /// The facts of a train that was to be sent as `plan`. None where it has no segment that shows anything.
    pub(crate) fn from_record(record: &TrainRecord, plan: &Train, epoch: Epoch, last_end: Option<f64>) -> Option<Self> {
        // One rate, or a head and one rate: chirps and ramps have no single rate.
        let head_packets = match plan.segments[..] {
            [only] if only.interval == Span::ZERO => record.packets.len(),
            [_] => 0,
            [first, second] if first.interval == Span::ZERO && second.interval > Span::ZERO => first.count as usize + 1,
            _ => return None,
        };
        let joined = record.with_bursts_joined();
        let packets = &joined.record.packets;
        let head_packets = joined.whole_bursts_within(head_packets.min(record.packets.len()));
        let reordered = joined.record.reordered_packets(MAX_BATCH_GAP);
        let points = points_of_packets(packets, &reordered, epoch);
        let rest = packets.len() - head_packets;
        let skipped = if head_packets > 0 { rest / SKIPPED_PART_BEHIND_HEAD } else { rest / SKIPPED_PART_WITHOUT_HEAD };
        let split = points.partition_point(|p| p.place < head_packets);
        let begin = points.partition_point(|p| p.place < head_packets + skipped);
        let head = (head_packets >= MIN_HEAD_PACKETS)
            .then(|| SegmentFacts::from_points(&points[..split], head_packets, true))
            .flatten();
        let body = SegmentFacts::from_points(&points[begin..], rest - skipped, false);
        let (start, end) = (points.first()?.sent, points.last()?.sent);
        (head.is_some() || body.is_some()).then(|| TrainFacts {
            head,
            body,
            spacing: last_end.map(|last| start - last),
            end,
        })
    }
}

/// A packet with both stamps.
#[derive(Debug, Clone, Copy)]
struct Point {
    place: usize,
    sent: f64,
    delay: f64,
    /// Bits sent up to its end.
    sent_bits: f64,
    bits: f64,
}

fn points_of_packets(packets: &[PacketRecord], reordered: &[bool], epoch: Epoch) -> Vec<Point> {
    let mut sent_bits = 0.0;
    let point = |(place, packet): (usize, &PacketRecord)| {
        let bits = f64::from(packet.size) * 8.0;
        // What has neither stamp was never sent.
        if packet.sent.or(packet.received).is_some() {
            sent_bits += bits;
        }
        let (sent, received) =
            (packet.sent? - epoch.sent, packet.received.filter(|_| !reordered[place])? - epoch.received);
        Some(Point { place, sent: sent.as_secs_f64(), delay: (received - sent).as_secs_f64(), sent_bits, bits })
    };
    packets.iter().enumerate().filter_map(point).collect()
}

impl SegmentFacts {
    fn from_points(points: &[Point], planned: usize, is_head: bool) -> Option<Self> {
        let least = if is_head { MIN_HEAD_PACKETS } else { MIN_BODY_PACKETS };
        let [first, .., last] = points else { return None };
        if points.len() < least || last.sent - first.sent <= 0.0 {
            return None;
        }
        let duration = last.sent - first.sent;
        let growth = match is_head {
            true => last.delay - first.delay,
            false => fit_line(&points.iter().map(|p| (p.sent, p.delay)).collect::<Vec<_>>())?.slope * duration,
        };
        let mut delays: Vec<f64> = points.iter().map(|p| p.delay).collect();
        delays.sort_by(f64::total_cmp);
        let quantile = |part: usize| delays[(2 * part + 1) * delays.len() / (2 * DELAY_QUANTILES)];
        let gap = |pair: &[Point]| (pair[1].sent + pair[1].delay - pair[0].sent - pair[0].delay) / pair[1].bits;
        let mut gaps: Vec<f64> = points.windows(2).map(gap).collect();
        gaps.sort_by(f64::total_cmp);
        let quick_gap = gaps[gaps.len() / QUICK_GAPS_PART];
        Some(SegmentFacts {
            start: first.sent,
            duration,
            packets: points.len() as u32,
            bits: last.sent_bits - first.sent_bits,
            packet_bits: last.bits,
            growth,
            loss_fraction: 1.0 - points.len() as f64 / planned.max(1) as f64,
            delay_quantiles: std::array::from_fn(quantile),
            quick_rate: if quick_gap > 0.0 { 1.0 / quick_gap } else { f64::INFINITY },
        })
    }

    /// The rate at which it left, in bit/s.
    pub fn sending_rate(&self) -> f64 {
        self.bits / self.duration
    }

    /// The rate at which it arrived, in bit/s.
    pub fn arrival_rate(&self) -> f64 {
        self.bits / (self.duration + self.growth).max(1e-9)
    }

    /// The least delay but for the lowest part of the packets, whose stamps may be late at the sender.
    pub(crate) fn low_delay(&self) -> f64 {
        self.delay_quantiles[0]
    }
}
