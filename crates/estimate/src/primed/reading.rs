//! What one primed train tells.

use crate::fit::{Line, line, lower_hull, robust_line};
use crate::stats::{mean, median};
use crate::{Rejection, Shaper};
use train::{PacketRecord, TrainRecord};
use units::Time;

/// By how many seconds stamps on both ends scatter.
const STAMP_SCATTER: f64 = 5e-6;

/// The usual packet of others.
pub(super) const WHOLE_PACKET_BITS: f64 = 12_000.0;

/// Where a body lasts no longer than so many of those, each is a step and none an outlier.
const FEW_PACKETS: f64 = 20.0;

/// The packets at a prime's end by whose pace it shows whether a token bucket had given all that it held.
const PRIME_END: usize = 4;

/// A token bucket may be served late by this part of a body without misleading the line through the others' packets.
const LATE_SERVICE: f64 = 0.15;

/// What limits the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bottleneck {
    /// What it carries in the long run, in bit/s.
    pub(super) capacity: f64,
    /// The rate at which a packet passes that need not wait, in bit/s: the capacity, but for a token bucket.
    pub(super) line: f64,
}

/// Stamps count from here: the first train's first packet, so that seconds fit a double with all their digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    sent: Time,
    received: Time,
}

/// One packet that has both stamps.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// Seconds from the epoch to its sending.
    sent: f64,
    /// One-way delay in seconds, up to a constant that is the same for all trains.
    delay: f64,
    /// Bits that had been sent when it left, itself included.
    carried: f64,
    /// Those of them that were lost.
    lost: f64,
    /// Its place in the train.
    index: usize,
}

/// A packet that was sent and did not come.
#[derive(Debug, Clone, Copy)]
struct Loss {
    index: usize,
    /// When the packet before it was sent, and what delay it had.
    before: (f64, f64),
}

/// The packets of one train, ready to be read as soon as capacity and floor are known.
#[derive(Debug, Clone)]
pub(super) struct Packets {
    points: Vec<Point>,
    losses: Vec<Loss>,
    /// Of a packet of the body.
    size_bits: f64,
    /// Of a packet of the prime.
    prime_bits: f64,
    prime: usize,
}

/// What one train says about the path while it passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// The body's rate in bit/s.
    pub(super) rate: f64,
    /// Available bandwidth in bit/s.
    pub(super) available: f64,
    /// By how many seconds a second the delay grew.
    pub(super) growth: f64,
    /// How long the body was on the way, in seconds.
    pub(super) duration: f64,
    /// The queue ran empty: `available` is a lower bound.
    pub(super) emptied: bool,
    /// A token bucket held credit when the body began, which hides whatever the body had too much: nothing is known.
    pub(super) credit_left: bool,
    /// The part of the body that the queue turned away because it was full; zero where no queue overflowed. Others lost
    /// packets likewise, which `available` takes into account as well as it can.
    pub(super) turned_away: f64,
    /// The queue had no room for the prime.
    pub(super) prime_spilt: bool,
    /// Packets came in clumps, faster than the bottleneck lets them: the receiver's machine stalled.
    pub(super) compressed: bool,
    /// The delay jumped once, out of all proportion to what it does otherwise: the path or a machine on it stood still,
    /// or somebody sent a burst.
    pub(super) jumped: bool,
    /// What the last packet left in the queue, in bits.
    pub(super) backlog: f64,
}

/// How a prime came out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispersion {
    /// The rate in bit/s, by the median gap: the capacity of the narrowest link, if others' packets are in few gaps.
    pub(super) rate: f64,
    /// The gaps on sending as a part of those on reception: how wide the door stood to others' packets.
    pub(super) openness: f64,
}

impl Bottleneck {
    /// A link of this rate.
    pub(super) fn link(capacity: f64) -> Self {
        Bottleneck { capacity, line: capacity }
    }

    /// A token bucket, and the line behind it, which is as good as endless where its rate is not known.
    pub(super) fn behind(shaper: &Shaper) -> Self {
        let line = shaper.peak_rate.map_or(f64::INFINITY, |peak| peak.value.as_f64());
        Bottleneck { capacity: shaper.committed_rate.value.as_f64(), line }
    }

    /// Whether packets pass faster for a while than in the long run.
    fn lends(&self) -> bool {
        self.line > self.capacity
    }
}

impl Reading {
    /// Whether a queue overflowed in the body.
    pub(super) fn overflowed(&self) -> bool {
        self.turned_away > 0.0
    }
}

impl Dispersion {
    /// Whether the path, not the sender, set the pace.
    pub(super) fn shows_capacity(&self) -> bool {
        self.openness < 0.8
    }
}

impl Epoch {
    /// Of the first packet with both stamps.
    pub(super) fn of(record: &TrainRecord) -> Option<Self> {
        record.packets.iter().find_map(|p| Some(Epoch { sent: p.sent?, received: p.received? }))
    }
}

impl Packets {
    /// Takes a record apart; its first `prime` packets were sent back to back.
    pub(super) fn new(record: &TrainRecord, prime: usize, epoch: Epoch) -> Result<Self, Rejection> {
        let (mut carried, mut lost) = (0.0, 0.0);
        let mut points: Vec<Point> = Vec::with_capacity(record.packets.len());
        let mut losses = Vec::new();
        for (index, packet) in record.packets.iter().enumerate() {
            let bits = f64::from(packet.size) * 8.0;
            // What shows neither stamp was never sent.
            if packet.sent.or(packet.received).is_some() {
                carried += bits;
            }
            let received = packet.received.filter(|&at| !is_retransmitted(record, index, at));
            match (packet.sent, received) {
                (Some(sent), Some(received)) => {
                    let (sent, received) = (sent - epoch.sent, received - epoch.received);
                    let delay = (received - sent).as_secs_f64();
                    points.push(Point { sent: sent.as_secs_f64(), delay, carried, lost, index });
                }
                (Some(_), None) => {
                    lost += bits;
                    let before = points.last().map_or((0.0, f64::NEG_INFINITY), |p| (p.sent, p.delay));
                    losses.push(Loss { index, before });
                }
                (None, _) => {}
            }
        }
        let body = points.iter().filter(|p| p.index >= prime).count();
        if body < 4 || body * 5 < record.packets.len() - prime {
            return Err(Rejection::PacketsMissing);
        }
        let bits = |packet: Option<&PacketRecord>| packet.map_or(0.0, |p| f64::from(p.size) * 8.0);
        let (size_bits, prime_bits) = (bits(record.packets.last()), bits(record.packets.first()));
        Ok(Packets { points, losses, size_bits, prime_bits, prime })
    }

    /// What the prime's dispersion shows; none where its stamps tell nothing.
    pub(super) fn dispersion(&self) -> Option<Dispersion> {
        let pairs = self.points.windows(2).filter(|w| w[1].index < self.prime && w[1].index == w[0].index + 1);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for pair in pairs {
            let gap = pair[1].sent - pair[0].sent;
            sent.push(gap);
            received.push(gap + pair[1].delay - pair[0].delay);
        }
        // A device that reports packets in batches leaves no gap within one: then only the mean tells.
        let batched = received.iter().filter(|&&gap| gap < 1e-6).count() * 4 > received.len();
        let typical = |gaps: &[f64]| if batched { Some(mean(gaps)) } else { median(gaps) };
        let (sent, received) = (typical(&sent)?, typical(&received)?);
        let openness = sent / received;
        (received > 1e-6).then(|| Dispersion { rate: self.prime_bits / received, openness })
    }

    /// The rate at which the prime really left, in bit/s.
    pub(super) fn prime_sending_rate(&self) -> f64 {
        let [first, .., last] = self.prime_points() else { return f64::INFINITY };
        (last.carried - first.carried) / (last.sent - first.sent).max(1e-9)
    }

    /// How many times as fast the path let the first packets pass as the last ones, though those were sent much faster than
    /// they came: as a token bucket does.
    pub(super) fn slowed_down(&self) -> f64 {
        // By the mean and the median gap: a machine that stalls makes one gap long, a device that reports packets in
        // batches makes most short.
        let rates = |points: &[Point]| {
            let gap = |pair: &[Point]| {
                let (bits, sent) = (pair[1].carried - pair[0].carried, pair[1].sent - pair[0].sent);
                (sent / bits, (sent + pair[1].delay - pair[0].delay) / bits)
            };
            let (sent, received): (Vec<f64>, Vec<f64>) = points.windows(2).map(gap).unzip();
            Some((1.0 / mean(&sent), 1.0 / mean(&received).min(median(&received)?)))
        };
        let ends = [last(self.prime_points(), PRIME_END), last(&self.points, 2 * PRIME_END)];
        let Some(start) = self.points.get(..PRIME_END).and_then(rates) else { return 1.0 };
        // Packets that come closer together than they left were held up by a machine that stalled.
        let credible = start.1 > 0.0 && start.1 < 1.25 * start.0;
        let slower = ends.into_iter().filter_map(rates).filter(|end| credible && end.0 > 2.5 * end.1);
        slower.map(|end| start.1 / end.1).fold(1.0, f64::max)
    }

    fn prime_points(&self) -> &[Point] {
        &self.points[..self.points.partition_point(|p| p.index < self.prime)]
    }

    /// All that the train carried.
    pub(super) fn bits(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p.carried)
    }

    /// The rate at which the body really left.
    pub(super) fn body_rate(&self) -> f64 {
        match (self.body().next(), self.points.last()) {
            (Some(first), Some(last)) if last.sent > first.sent => {
                (last.carried - first.carried) / (last.sent - first.sent)
            }
            _ => 0.0,
        }
    }

    /// Reads the train: while the queue holds, what it carries less what the queue grows by is what the path had to
    /// give. `carried − capacity · delay` therefore rises at the available bandwidth. `full` is the longest wait in a
    /// queue that any train has seen, in seconds.
    pub(super) fn reading(&self, bottleneck: Bottleneck, floor: Line, full: f64) -> Option<Reading> {
        let Bottleneck { capacity, .. } = bottleneck;
        let rate = self.body_rate();
        let waited = |p: &Point| self.waited(p, bottleneck, floor);
        let delivered = self.delivered_of_overflow(bottleneck, floor, full);
        // What the queue turned away did not use the link.
        let turned_away = |p: &Point| if delivered.is_some() { p.lost } else { 0.0 };
        let held: Vec<(f64, f64)> =
            self.body().map(|p| (p.sent, p.carried - turned_away(p) - capacity * p.delay)).collect();
        let duration = held.last()?.0 - held.first()?.0;
        let few_steps = duration * capacity < FEW_PACKETS * WHOLE_PACKET_BITS;
        let slope = if few_steps { line(&held)? } else { robust_line(&held)? }.slope;
        // It turned away the same part of the others' packets.
        let available = delivered.map_or(slope, |part| capacity - (capacity - slope) / part);
        let service = self.size_bits / capacity;
        let idle = self.body().filter(|p| waited(p) < 0.5 * service + STAMP_SCATTER).count();
        Some(Reading {
            rate,
            growth: (rate - available) / capacity,
            available,
            duration,
            emptied: idle * 10 > held.len(),
            credit_left: bottleneck.lends() && self.credit_left(bottleneck, floor),
            turned_away: delivered.map_or(0.0, |part| 1.0 - part),
            prime_spilt: self.losses.iter().any(|loss| loss.index < self.prime),
            compressed: self.compressed(bottleneck, duration),
            jumped: self.jumped(capacity),
            backlog: self.points.last().map_or(0.0, |p| waited(p).max(0.0) * capacity),
        })
    }

    /// The longest that a packet waited in queues, in seconds.
    pub(super) fn longest_wait(&self, bottleneck: Bottleneck, floor: Line) -> f64 {
        self.points.iter().map(|p| self.waited(p, bottleneck, floor)).fold(0.0, f64::max)
    }

    fn waited(&self, point: &Point, bottleneck: Bottleneck, floor: Line) -> f64 {
        point.delay - floor.at(point.sent) - self.size_bits / bottleneck.line
    }

    /// Whether the prime's last packets still came faster than the bucket fills, or without waiting.
    fn credit_left(&self, bottleneck: Bottleneck, floor: Line) -> bool {
        let end = last(self.prime_points(), PRIME_END);
        let ([first, .., last], service) = (end, self.prime_bits / bottleneck.capacity) else { return true };
        let pace = (last.carried - first.carried) / (last.sent + last.delay - first.sent - first.delay).max(1e-9);
        let between = (bottleneck.line / bottleneck.capacity).sqrt().min(1.5);
        pace > between * bottleneck.capacity || self.waited(last, bottleneck, floor) < 0.5 * service
    }

    /// Which part of the body came through, if most of its losses happened where a queue was as full as ever: that
    /// tells an overflow from a path that loses now and then.
    fn delivered_of_overflow(&self, bottleneck: Bottleneck, floor: Line, full: f64) -> Option<f64> {
        let lost: Vec<&Loss> = self.losses.iter().filter(|loss| loss.index >= self.prime).collect();
        let [passing, service] = [bottleneck.line, bottleneck.capacity].map(|rate| self.size_bits / rate);
        let was_full = |loss: &&&Loss| {
            let (sent, delay) = loss.before;
            delay - floor.at(sent) - passing > f64::max(0.7 * full, 2.0 * service)
        };
        let arrived = self.points.iter().filter(|p| p.index >= self.prime).count();
        let at_full = lost.iter().filter(was_full).count();
        (at_full * 2 > lost.len()).then(|| arrived as f64 / (arrived + lost.len()) as f64)
    }

    /// Packets came faster than the bottleneck lets them, after a pause that neither others behind it nor a device that
    /// reports them in batches explains.
    fn compressed(&self, bottleneck: Bottleneck, duration: f64) -> bool {
        const LONGEST_BATCH: f64 = 150e-6;
        let service = self.size_bits / bottleneck.capacity;
        // A token bucket that is served late makes up for it at once, and nothing is lost.
        let late_service = if bottleneck.lends() { LATE_SERVICE * duration } else { 0.0 };
        let (mut recovered, mut most) = (0.0, 0.0);
        for pair in self.points.windows(2).filter(|w| w[0].index >= self.prime) {
            let fall = pair[0].delay - pair[1].delay;
            let gap = pair[1].sent - pair[0].sent - fall;
            recovered = if gap < 0.5 * service { recovered + fall } else { 0.0 };
            most = f64::max(most, recovered);
        }
        most > LONGEST_BATCH.max(3.0 * service).max(late_service)
    }

    fn jumped(&self, capacity: f64) -> bool {
        let delays: Vec<f64> = self.body().map(|p| p.delay).collect();
        let steps: Vec<f64> = delays.windows(2).map(|w| w[1] - w[0]).collect();
        let Some(usual) = median(&steps) else { return false };
        let deviation = median(&steps.iter().map(|s| (s - usual).abs()).collect::<Vec<_>>()).unwrap_or(0.0);
        let others = (4.0 * self.size_bits).max(2.5 * WHOLE_PACKET_BITS);
        let out_of_proportion = f64::max(8.0 * 1.48 * deviation, others / capacity);
        steps.iter().any(|step| step - usual > out_of_proportion)
    }

    /// The body without its first eighth: by then the prime has left all queues but the one that limits the path.
    fn body(&self) -> impl Iterator<Item = &Point> + '_ {
        let end = self.points.last().map_or(0, |p| p.index + 1);
        let first = self.prime + end.saturating_sub(self.prime) / 8;
        self.points.iter().filter(move |p| p.index >= first)
    }
}

fn last(points: &[Point], count: usize) -> &[Point] {
    &points[points.len().saturating_sub(count)..]
}

/// Whether a packet came behind three or more that had been sent after it: no queue does that, but TCP does when it
/// repeats a lost one.
fn is_retransmitted(record: &TrainRecord, index: usize, received: Time) -> bool {
    let later = record.packets[index + 1..].iter().filter_map(|p| p.received);
    later.filter(|&at| at < received).nth(2).is_some()
}

/// The delay of a packet of no size through empty queues, as a line over time: clocks drift. From the lower hull of
/// the trains' least delays; a slope that no pair of clocks has is taken for a path that never was empty.
pub(super) fn delay_floor(trains: &[Packets], bottleneck: Bottleneck) -> Line {
    const STEEPEST: f64 = 200e-6;
    // A sending stamp that was taken late makes a delay look too short: the two least of each train are passed over.
    let least = |train: &Packets| {
        let passing = train.size_bits / bottleneck.line;
        let mut delays: Vec<(f64, f64)> = train.points.iter().map(|p| (p.sent, p.delay - passing)).collect();
        delays.sort_by(|a, b| a.1.total_cmp(&b.1));
        delays.get(2).or(delays.first()).copied()
    };
    let points: Vec<(f64, f64)> = trains.iter().filter_map(least).collect();
    let hull = lower_hull(points.iter().copied());
    let middle = crate::stats::mean(&points.iter().map(|p| p.0).collect::<Vec<_>>());
    let edge = hull.windows(2).find(|w| (w[0].0..=w[1].0).contains(&middle));
    if let Some([a, b]) = edge {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        if slope.abs() <= STEEPEST {
            return Line { intercept: a.1 - slope * a.0, slope };
        }
    }
    Line { intercept: hull.iter().map(|p| p.1).fold(f64::INFINITY, f64::min), slope: 0.0 }
}
