//! The packets of one train, and what they show by themselves.

use crate::back_to_back::{Gap, PacketGaps};
use crate::rejection::Rejection;
use crate::stats::{mean, median};
use kumade_probe_train::{PacketRecord, TrainRecord};
use kumade_units::{Span, Time};

/// The packets at a prime's end by whose pace it shows whether a token bucket had given all that it held.
pub(super) const PRIME_END_PACKETS: usize = 4;

/// Packets that arrive together are stamped in any order within this time.
const MAX_BATCH_GAP: Span = Span::from_micros(50);

/// Stamps count from here: the first train's first packet, so that seconds fit a double with all their digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct StampEpoch {
    sent: Time,
    received: Time,
}

/// One packet that has both stamps.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketPoint {
    /// Seconds from the epoch to its sending.
    pub(super) sent: f64,
    /// One-way delay in seconds, up to a constant that is the same for all trains.
    pub(super) delay: f64,
    /// Of a burst, that of its first packet, which tells how long the queue was that it met; else the same.
    pub(super) first_packet_delay: f64,
    /// Bits that had been sent when it left, itself included.
    pub(super) sent_bits: f64,
    /// Those of them that were lost.
    pub(super) lost_bits: f64,
    /// Its place in the train.
    pub(super) index: usize,
}

impl PacketPoint {
    /// Seconds from the epoch to its arrival.
    fn arrival_seconds(&self) -> f64 {
        self.sent + self.delay
    }
}

/// A packet that was sent and did not come.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketLoss {
    pub(super) index: usize,
    /// When the packet before it was sent, and what delay it had.
    pub(super) preceding_packet: (f64, f64),
}

/// A sender that is so many times as late as usual between two packets, and by so much, was held up: a busy host lets other programs run.
const MAX_GAP_RATIO: f64 = 4.0;
const MAX_LATENESS_SECONDS: f64 = 300e-6;

/// From one packet to the next, at the sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendingGap {
    /// The usual one of the train, in seconds.
    usual: f64,
}

impl SendingGap {
    /// The median one of these packets; none of fewer than two. A host that was held up for most of a train makes up for it in most of
    /// the gaps: those that are so much shorter than the mean do not count.
    pub(super) fn usual_gap<'p>(points: impl Iterator<Item = &'p PacketPoint> + Clone) -> Option<Self> {
        const MIN_GAP_PART: f64 = 0.125;
        let gaps: Vec<f64> = points.clone().zip(points.skip(1)).map(|(one, next)| next.sent - one.sent).collect();
        let least = MIN_GAP_PART * mean(&gaps);
        let planned: Vec<f64> = gaps.into_iter().filter(|gap| *gap >= least).collect();
        Some(SendingGap { usual: median(&planned)? })
    }

    /// Whether the sender was held up between these two.
    pub(super) fn is_held_up(&self, one: &PacketPoint, next: &PacketPoint) -> bool {
        let lost = (next.index - one.index).saturating_sub(1) as f64;
        next.sent - one.sent - lost * self.usual > f64::max(MAX_GAP_RATIO * self.usual, MAX_LATENESS_SECONDS)
    }

    /// Whether it makes up for having been held up, and sends as fast as it can.
    pub(super) fn catches_up(&self, one: &PacketPoint, next: &PacketPoint) -> bool {
        const MIN_CATCH_UP_SECONDS: f64 = 50e-6;
        self.usual > MIN_CATCH_UP_SECONDS && next.sent - one.sent < self.usual / MAX_GAP_RATIO
    }
}

/// The rate at which these arrived, in bit/s.
pub(super) fn arrival_rate(points: &[&PacketPoint]) -> f64 {
    let [first, .., last] = points else { return 0.0 };
    (last.sent_bits - first.sent_bits) / (last.arrival_seconds() - first.arrival_seconds()).max(1e-9)
}

/// The packets of one train, ready to be read as soon as capacity and floor are known.
#[derive(Debug, Clone)]
pub(super) struct PrimedTrain {
    /// Of all trains that the method recorded, counted from zero.
    pub(super) number: usize,
    pub(super) points: Vec<PacketPoint>,
    pub(super) losses: Vec<PacketLoss>,
    /// Of a packet of the body, or of a burst of these.
    pub(super) size_bits: f64,
    /// Of a packet of the body that was sent by itself, or of the first one of a burst.
    pub(super) packet_bits: f64,
    /// Of a packet of the prime.
    pub(super) prime_bits: f64,
    pub(super) prime_packets: usize,
    /// Each point is of a burst.
    pub(super) is_in_bursts: bool,
}

/// The dispersion of a prime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispersion {
    /// The rate in bit/s, by the median gap: the capacity of the narrow link, if cross traffic is in few gaps.
    pub(super) rate: f64,
    /// The median gap.
    pub(super) gap: Gap,
}

impl StampEpoch {
    /// Of the first packet with both stamps.
    pub(super) fn from_record(record: &TrainRecord) -> Option<Self> {
        record.packets.iter().find_map(|p| Some(StampEpoch { sent: p.sent?, received: p.received? }))
    }
}

impl PrimedTrain {
    /// Takes a record apart; its first `prime` packets were sent back to back.
    fn new(record: &TrainRecord, prime: usize, epoch: StampEpoch) -> Result<Self, Rejection> {
        let (mut carried, mut lost) = (0.0, 0.0);
        let mut points: Vec<PacketPoint> = Vec::with_capacity(record.packets.len());
        let mut losses = Vec::new();
        let reordered = record.reordered_packets(MAX_BATCH_GAP);
        for (index, packet) in record.packets.iter().enumerate() {
            let bits = f64::from(packet.size) * 8.0;
            // What shows neither stamp was never sent.
            if packet.sent.or(packet.received).is_some() {
                carried += bits;
            }
            let received = packet.received.filter(|_| !reordered[index]);
            match (packet.sent, received) {
                (Some(sent), Some(received)) => {
                    let (sent, received) = (sent - epoch.sent, received - epoch.received);
                    let delay = (received - sent).as_secs_f64();
                    points.push(PacketPoint {
                        sent: sent.as_secs_f64(),
                        delay,
                        first_packet_delay: delay,
                        sent_bits: carried,
                        lost_bits: lost,
                        index,
                    });
                }
                (Some(_), None) => {
                    lost += bits;
                    let before = points.last().map_or((0.0, f64::NEG_INFINITY), |p| (p.sent, p.delay));
                    losses.push(PacketLoss { index, preceding_packet: before });
                }
                (None, _) => {}
            }
        }
        let body = points.iter().filter(|p| p.index >= prime).count();
        if body < 4 || body * 5 < record.packets.len() - prime {
            return Err(Rejection::PacketsMissing);
        }
        // The last burst may be shorter, or part of one that was lost in part.
        let largest = |packets: &[PacketRecord]| packets.iter().map(|p| f64::from(p.size) * 8.0).fold(0.0, f64::max);
        let (first, body) = record.packets.split_at(prime.clamp(1, record.packets.len()));
        let (size_bits, prime_bits) = (largest(body), largest(first));
        Ok(PrimedTrain {
            number: 0,
            points,
            losses,
            size_bits,
            packet_bits: size_bits,
            prime_bits,
            prime_packets: prime,
            is_in_bursts: false,
        })
    }

    /// Takes a record apart, with each burst as one packet; its first `prime` packets were sent back to back.
    pub(super) fn with_bursts_joined(record: &TrainRecord, prime: usize, epoch: StampEpoch) -> Result<Self, Rejection> {
        let joined = record.with_bursts_joined();
        let is_in_bursts = joined.record.packets.len() < record.packets.len();
        let mut packets = PrimedTrain::new(&joined.record, joined.whole_bursts_within(prime), epoch)?;
        if is_in_bursts {
            packets.is_in_bursts = true;
            packets.packet_bits = record.packets.last().map_or(0.0, |packet| f64::from(packet.size) * 8.0);
            for point in &mut packets.points {
                let head = joined.first_arrivals[point.index].map(|head| (head - epoch.received).as_secs_f64());
                point.first_packet_delay = head.map_or(point.delay, |head| head - point.sent);
            }
        }
        Ok(packets)
    }

    /// The prime's dispersion; none where its stamps do not show it.
    pub(super) fn dispersion(&self) -> Option<Dispersion> {
        let pairs = self.points.windows(2).filter(|w| w[1].index < self.prime_packets && w[1].index == w[0].index + 1);
        let mut gaps = PacketGaps::default();
        for pair in pairs {
            let sent = pair[1].sent - pair[0].sent;
            gaps.push(Gap { sent, received: sent + pair[1].delay - pair[0].delay });
        }
        let usual = gaps.usual()?;
        Some(Dispersion { rate: self.prime_bits / usual.received, gap: usual })
    }

    /// The rate at which the prime really left, in bit/s.
    pub(super) fn prime_sending_rate(&self) -> f64 {
        let [first, .., last] = self.prime_points() else { return f64::INFINITY };
        (last.sent_bits - first.sent_bits) / (last.sent - first.sent).max(1e-9)
    }

    /// The rate of arrivals of the first packets, and that of the last ones, if those were sent much faster than they arrived: behind a
    /// token bucket, it falls. `least_delay` is that of any train's first packet.
    pub(super) fn end_rates(&self, least_delay: f64) -> Option<[f64; 2]> {
        // By the mean and the median gap: a host scheduling delay makes one gap long, a device that reports packets in
        // batches makes most short.
        let rates = |points: &[PacketPoint]| {
            let gap = |pair: &[PacketPoint]| {
                let (bits, sent) = (pair[1].sent_bits - pair[0].sent_bits, pair[1].sent - pair[0].sent);
                (sent / bits, (sent + pair[1].delay - pair[0].delay) / bits)
            };
            let (sent, received): (Vec<f64>, Vec<f64>) = points.windows(2).map(gap).unzip();
            let received = match self.is_in_bursts {
                // Hosts are held up between a few bursts of each train.
                true => median(&received)?,
                false => mean(&received).min(median(&received)?),
            };
            Some((1.0 / mean(&sent), 1.0 / received))
        };
        let count = if self.is_in_bursts { 2 * PRIME_END_PACKETS } else { PRIME_END_PACKETS };
        let ends = [last_points(self.prime_points(), count), last_points(&self.points, 2 * count)];
        let start = self.points.get(..count).and_then(rates)?;
        // Packets that arrive closer together than they left were held back by a host.
        let credible = start.1 > 0.0 && start.1 < 1.25 * start.0;
        let slower = ends.into_iter().filter_map(rates).filter(|end| credible && end.0 > 2.5 * end.1);
        let end = slower.map(|end| end.1).reduce(f64::min)?;
        (!arrived_late(&self.points[..count], least_delay, self.size_bits / end)).then_some([start.1, end])
    }

    /// Of the first packet that arrived.
    pub(super) fn first_delay(&self) -> Option<f64> {
        self.points.first().map(|first| first.first_packet_delay)
    }

    pub(super) fn prime_points(&self) -> &[PacketPoint] {
        &self.points[..self.points.partition_point(|p| p.index < self.prime_packets)]
    }

    /// All that the train carried.
    pub(super) fn bits(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p.sent_bits)
    }

    /// The rate at which the body really left.
    pub(super) fn body_rate(&self) -> f64 {
        match (self.body().next(), self.points.last()) {
            (Some(first), Some(last)) if last.sent > first.sent => {
                (last.sent_bits - first.sent_bits) / (last.sent - first.sent)
            }
            _ => 0.0,
        }
    }

    /// The rate at which the body arrived, in bit/s, if none of it was lost, and it did not come all at once from a host that held it up.
    pub(super) fn carried_rate(&self) -> Option<f64> {
        let body: Vec<&PacketPoint> = self.body().collect();
        let [first, .., last] = body[..] else { return None };
        (last.lost_bits == first.lost_bits && last.arrival_seconds() > first.arrival_seconds())
            .then(|| arrival_rate(&body))
    }

    /// The rate at which the body left, divided by that at which it arrived.
    pub(super) fn slowdown(&self) -> f64 {
        match (self.body().next(), self.points.last()) {
            (Some(first), Some(last)) if last.sent > first.sent => {
                1.0 + (last.delay - first.delay) / (last.sent - first.sent)
            }
            _ => 1.0,
        }
    }

    /// The body without its first eighth: by then the prime has left all queues but the one that limits the path.
    pub(super) fn body(&self) -> impl Iterator<Item = &PacketPoint> + '_ {
        let end = self.points.last().map_or(0, |p| p.index + 1);
        let first = self.prime_packets + end.saturating_sub(self.prime_packets) / 8;
        self.points.iter().filter(move |p| p.index >= first)
    }
}

/// Whether one of these came so late that a host which held it up, and let the next ones go with it, explains that they arrived faster than
/// one in so many seconds. A token bucket that has tokens lets all of them pass at once.
fn arrived_late(points: &[PacketPoint], least_delay: f64, seconds: f64) -> bool {
    const MAX_LATE_PACKETS: f64 = 1.5;
    points.iter().any(|point| point.first_packet_delay - least_delay > MAX_LATE_PACKETS * seconds)
}

pub(super) fn last_points(points: &[PacketPoint], count: usize) -> &[PacketPoint] {
    &points[points.len().saturating_sub(count)..]
}
