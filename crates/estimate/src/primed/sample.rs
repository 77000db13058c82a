//! What one primed train says about the path.

use super::bottleneck::Bottleneck;
use super::packets::{PRIME_END_PACKETS, PacketLoss, PacketPoint, PrimedTrain, SendingGap, arrival_rate, last_points};
use crate::cross_traffic::{CROSS_PACKET_BITS, CrossTrafficUnit};
use crate::stats::median;
use kumade_probe_train::fit::{FittedLine, fit_line, fit_robust_line};
use std::borrow::Borrow;

/// By how many seconds stamps on both ends scatter.
const STAMP_SCATTER_SECONDS: f64 = 5e-6;

/// Where a body lasts no longer than so many of those, each is a step and none an outlier.
const MIN_ROBUST_PACKETS: f64 = 20.0;

/// A token bucket may be served late by this part of a body without misleading the line through the packets.
const MAX_LATE_SERVICE_PART: f64 = 0.15;

/// The longest undisturbed part of a body is read alone if it is this part of it or more.
const MIN_BUSY_PART: f64 = 0.15;

/// The longest part of a body that the sender did not interrupt is read alone if it has this part of the packets or more.
const MIN_SENT_PART: f64 = 0.4;

/// What one train says about the path while it passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainSample {
    /// The train's number.
    pub(super) train: usize,
    /// The body's rate in bit/s.
    pub(super) rate: f64,
    /// The rate in bit/s at which the whole body arrived.
    pub(super) arrival_rate: f64,
    /// Available bandwidth in bit/s.
    pub(super) available: f64,
    /// The part of the body that was lost for whatever cause.
    pub(super) loss_fraction: f64,
    /// By how many seconds a second the delay grew.
    pub(super) delay_growth: f64,
    /// The time from the body's first packet to its last, in seconds.
    pub(super) duration: f64,
    /// The queue ran empty: `available` is a lower bound.
    pub(super) has_emptied: bool,
    /// A token bucket held credit when the body began, which hides whatever the body had too much: nothing is known.
    pub(super) has_credit_left: bool,
    /// The part of the body that was lost because a queue was full; zero where no queue overflowed. Cross traffic is
    /// assumed to lose the same part, which `available` takes into account.
    pub(super) overflow_loss_fraction: f64,
    /// The queue had no room for the prime.
    pub(super) has_prime_overflowed: bool,
    /// Packets arrived closer together than the bottleneck can deliver them: the receiving host held them back.
    pub(super) is_compressed: bool,
    /// The delay jumped once, far beyond its usual variation: packets were held up, or cross traffic sent a burst.
    pub(super) has_delay_jump: bool,
    /// Packets were held up so often that the train tells nothing.
    pub(super) is_disturbed: bool,
    /// What the last packet left in the queue, in bits.
    pub(super) backlog_bits: f64,
}

impl TrainSample {
    /// Whether a queue overflowed in the body.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflow_loss_fraction > 0.0
    }
}

impl PrimedTrain {
    /// Reads the train: while the queue holds, what it carries less what the queue grows by is what the path had to
    /// give. `carried − capacity · delay` therefore rises at the available bandwidth. `full` is the longest wait in a
    /// queue that any train has seen, in seconds, and `cross` what others send at once.
    pub(super) fn sample(
        &self,
        bottleneck: Bottleneck,
        floor: FittedLine,
        full: f64,
        cross: CrossTrafficUnit,
    ) -> Option<TrainSample> {
        let Bottleneck { capacity, .. } = bottleneck;
        let service = self.size_bits / capacity;
        let waited = |p: &PacketPoint| self.waiting_seconds(p, bottleneck, floor);
        let is_idle = |p: &PacketPoint| waited(p) < 0.5 * service + STAMP_SCATTER_SECONDS;
        let body: Vec<&PacketPoint> = self.body().collect();
        let busy = match self.is_in_bursts {
            true => longest_busy_period(&body, is_idle, cross.max_wait(self.size_bits, capacity)),
            false => longest_sent_part(&body, |p| waited(p) + service),
        };
        let rate = if busy.len() < body.len() { sending_rate(busy) } else { self.body_rate() };
        let delivered = self.overflow_delivered_part(bottleneck, floor, full);
        // What a full queue dropped did not use the link.
        let dropped = |p: &PacketPoint| if delivered.is_some() { p.lost_bits } else { 0.0 };
        let held: Vec<(f64, f64)> =
            busy.iter().map(|p| (p.sent, p.sent_bits - dropped(p) - capacity * p.delay)).collect();
        let duration = held.last().zip(held.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        let few_steps = duration * capacity < MIN_ROBUST_PACKETS * CROSS_PACKET_BITS;
        let slope = match busy.is_empty() {
            true => rate,
            false => if few_steps { fit_line(&held)? } else { fit_robust_line(&held)? }.slope,
        };
        // Cross traffic lost the same part of its packets.
        let available = delivered.map_or(slope, |part| capacity - (capacity - slope) / part);
        // Where the sender was held up, the first packet behind finds no queue.
        let idle = busy.iter().skip(usize::from(busy.len() < body.len())).filter(|p| is_idle(p)).count();
        Some(TrainSample {
            train: self.number,
            rate,
            arrival_rate: arrival_rate(&body),
            loss_fraction: self.body_loss_fraction(),
            delay_growth: (rate - available) / capacity,
            available,
            duration,
            has_emptied: idle * 10 > held.len(),
            has_credit_left: bottleneck.has_token_bucket() && self.has_credit_left(bottleneck, floor),
            overflow_loss_fraction: delivered.map_or(0.0, |part| 1.0 - part),
            has_prime_overflowed: self.losses.iter().any(|loss| loss.index < self.prime_packets),
            is_compressed: self.is_compressed(bottleneck, duration),
            has_delay_jump: !self.is_in_bursts && self.has_delay_jump(capacity),
            is_disturbed: busy.is_empty(),
            backlog_bits: self
                .points
                .last()
                .map_or(0.0, |p| waited(p).max(0.0) * capacity + self.size_bits - self.packet_bits),
        })
    }

    /// The part of the body that was lost.
    fn body_loss_fraction(&self) -> f64 {
        let lost = self.losses.iter().filter(|loss| loss.index >= self.prime_packets).count();
        let arrived = self.points.iter().filter(|p| p.index >= self.prime_packets).count();
        lost as f64 / (arrived + lost).max(1) as f64
    }

    /// The longest that a packet waited in queues, in seconds.
    pub(super) fn longest_wait(&self, bottleneck: Bottleneck, floor: FittedLine) -> f64 {
        self.points.iter().map(|p| self.waiting_seconds(p, bottleneck, floor)).fold(0.0, f64::max)
    }

    fn waiting_seconds(&self, point: &PacketPoint, bottleneck: Bottleneck, floor: FittedLine) -> f64 {
        point.first_packet_delay - floor.value_at(point.sent) - self.packet_bits / bottleneck.line_rate
    }

    /// Whether the prime's last packets still arrived faster than the bucket fills, or without queueing.
    fn has_credit_left(&self, bottleneck: Bottleneck, floor: FittedLine) -> bool {
        let end = last_points(self.prime_points(), PRIME_END_PACKETS);
        let ([first, .., last], service) = (end, self.prime_bits / bottleneck.capacity) else { return true };
        let pace = (last.sent_bits - first.sent_bits) / (last.sent + last.delay - first.sent - first.delay).max(1e-9);
        let between = (bottleneck.line_rate / bottleneck.capacity).sqrt().min(1.5);
        pace > between * bottleneck.capacity || self.waiting_seconds(last, bottleneck, floor) < 0.5 * service
    }

    /// Which part of the body arrived, if most of its losses happened where a queue was as full as ever seen: that tells
    /// an overflow from random loss.
    fn overflow_delivered_part(&self, bottleneck: Bottleneck, floor: FittedLine, full: f64) -> Option<f64> {
        let lost: Vec<&PacketLoss> = self.losses.iter().filter(|loss| loss.index >= self.prime_packets).collect();
        let [passing, service] = [bottleneck.line_rate, bottleneck.capacity].map(|rate| self.size_bits / rate);
        let was_full = |loss: &&&PacketLoss| {
            let (sent, delay) = loss.preceding_packet;
            delay - floor.value_at(sent) - passing > f64::max(0.7 * full, 1.4 * service)
        };
        let arrived = self.points.iter().filter(|p| p.index >= self.prime_packets).count();
        let at_full = lost.iter().filter(was_full).count();
        (at_full * 2 > lost.len()).then(|| arrived as f64 / (arrived + lost.len()) as f64)
    }

    /// Packets arrived closer together than the bottleneck can deliver them, after a pause that neither queues behind it
    /// nor a device that reports packets in batches explains.
    fn is_compressed(&self, bottleneck: Bottleneck, duration: f64) -> bool {
        const MAX_BATCH_SECONDS: f64 = 150e-6;
        let service = self.size_bits / bottleneck.capacity;
        // A token bucket that is served late makes up for it at once, and nothing is lost.
        let late_service = if bottleneck.has_token_bucket() { MAX_LATE_SERVICE_PART * duration } else { 0.0 };
        let (mut recovered, mut most) = (0.0, 0.0);
        for pair in self.points.windows(2).filter(|w| w[0].index >= self.prime_packets) {
            let fall = pair[0].delay - pair[1].delay;
            let gap = pair[1].sent - pair[0].sent - fall;
            recovered = if gap < 0.5 * service { recovered + fall } else { 0.0 };
            most = f64::max(most, recovered);
        }
        most > MAX_BATCH_SECONDS.max(3.0 * service).max(late_service)
    }

    /// Whether a burst of the body waited for longer than those before it, by more than the cross traffic's packets explain.
    pub(super) fn is_behind_bursts(&self, capacity: f64) -> bool {
        let max_wait = CrossTrafficUnit::Packet.max_wait(self.size_bits, capacity);
        let body: Vec<&PacketPoint> = self.body().collect();
        self.is_in_bursts && body.windows(2).any(|pair| is_held_up(pair[0], pair[1], max_wait))
    }

    fn has_delay_jump(&self, capacity: f64) -> bool {
        let delays: Vec<f64> = self.body().map(|p| p.delay).collect();
        let steps: Vec<f64> = delays.windows(2).map(|w| w[1] - w[0]).collect();
        let Some(usual) = median(&steps) else { return false };
        let deviation = median(&steps.iter().map(|s| (s - usual).abs()).collect::<Vec<_>>()).unwrap_or(0.0);
        let others = (4.0 * self.size_bits).max(2.5 * CROSS_PACKET_BITS);
        let out_of_proportion = f64::max(8.0 * 1.48 * deviation, others / capacity);
        steps.iter().any(|step| step - usual > out_of_proportion)
    }
}

/// The longest part of a body during which the queue held and nothing was held up. A host that is held up between two bursts lets
/// the queue run empty, and one that forwards them lets all of it wait. A burst that finds the queue empty may begin such a part. The
/// whole body where the queue was empty for most of it, and nothing where it was held up too often.
fn longest_busy_period<'p>(
    body: &'p [&'p PacketPoint],
    is_idle: impl Fn(&PacketPoint) -> bool,
    max_wait: f64,
) -> &'p [&'p PacketPoint] {
    let duration =
        |part: &[&PacketPoint]| part.last().zip(part.first()).map_or(0.0, |(last, first)| last.sent - first.sent);
    let parts = body.chunk_by(|one, next| !is_idle(next) && !is_held_up(one, next, max_wait));
    let longest = parts.max_by(|a, b| duration(a).total_cmp(&duration(b))).unwrap_or_default();
    let idle = body.iter().filter(|point| is_idle(point)).count();
    if duration(longest) >= MIN_BUSY_PART * duration(body) {
        longest
    } else if idle * 10 > body.len() {
        body
    } else {
        &[]
    }
}

/// The longest part of a body in which the link was kept busy as far as the sender goes: one that is held up for longer than what it has
/// queued takes to pass, which `until_idle` tells, leaves the link idle. Nothing where that is too little.
fn longest_sent_part<'p>(
    body: &'p [&'p PacketPoint],
    until_idle: impl Fn(&PacketPoint) -> f64,
) -> &'p [&'p PacketPoint] {
    let Some(gap) = SendingGap::usual_gap(body.iter().copied()) else { return body };
    let leaves_idle =
        |one: &PacketPoint, next: &PacketPoint| gap.is_held_up(one, next) && next.sent - one.sent > until_idle(one);
    let longest = body.chunk_by(|one, next| !leaves_idle(one, next)).max_by_key(|part| part.len()).unwrap_or_default();
    if longest.len() as f64 >= MIN_SENT_PART * body.len() as f64 { longest } else { &[] }
}

/// Whether all that was queued was held up between two bursts: no cross traffic comes at so much more than the link's rate.
pub(super) fn is_held_up(one: &PacketPoint, next: &PacketPoint, max_wait: f64) -> bool {
    next.delay - one.delay > max_wait
}

/// The rate at which these were sent, in bit/s.
pub(super) fn sending_rate<P: Borrow<PacketPoint>>(points: &[P]) -> f64 {
    let [first, .., last] = points else { return 0.0 };
    let (first, last) = (first.borrow(), last.borrow());
    (last.sent_bits - first.sent_bits) / (last.sent - first.sent).max(1e-9)
}
