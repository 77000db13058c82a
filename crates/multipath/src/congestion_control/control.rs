//! At which rate a path is paced, so that its queue is ours and not the provider's.

use crate::path_sent::Sent;
use crate::rate_delay::QueueDelay;
use crate::rate_loss::{LossFloor, Losses};
use kumade_units::{Rate, Span, Time};

/// The rate of one path, found by the traffic that it carries.
///
/// **Rule.** As long as packets wait in the path's own queue, the rate at which they arrive is its capacity (or what
/// cross traffic leaves of it); the pace follows that, with a correction that keeps the wait near a small target
/// ([`PathRate::target`]). While nothing waits and the path has always had something to send, the pace rises in steps
/// that double, each of which must have come back before the next, and only where a queue would show by now if the path
/// carried no more than is believed. While nothing is known of the path, it rises 2.5-fold each time, which keeps ahead of a
/// sender in slow start. A queue that is longer than intended is drained at once: nothing is sent until it is empty, which
/// costs the path nothing. Once in two seconds it is drained on purpose, so that the delay of the empty path is known anew;
/// if that turns out to be less than ever, the queue had not been empty, and is drained for twice as long at once. Where
/// draining does not shorten it, the path has become longer or others fill it, and that delay is the new base.
///
/// Loss is no reason to go slower by itself: the rate counts what was sent up to the packet reported. Only where clearly
/// more is lost than usually, as a short buffer or a policer does above its rate, does what *arrived* set the pace, and it is
/// not raised for a while.
///
/// Wrong at the start by a factor of ten, it is right after a few round trips of a backlog. Nothing is concluded
/// from a path with less to carry than it could, except that a queue on it must shrink.
#[derive(Debug)]
pub(crate) struct PathRate {
    /// Bits per second that the path carries, as far as is known.
    capacity: f64,
    max: Option<f64>,
    /// The pace is the capacity times this.
    gain: f64,
    /// It has been at its limit once.
    found: bool,
    /// How often it has been raised in succession.
    step: i32,
    delays: QueueDelay,
    loss_floor: LossFloor,
    round: Option<Round>,
    /// Only packets sent from then on tell of the present pace.
    from: Time,
    /// The first of an unbroken series of samples that found a queue, and the last from which the rate was judged.
    busy: Option<(Sample, Sample)>,
    /// Nothing is sent until then.
    drained: Time,
    /// For so long beyond that, in case that the queue is longer than believed.
    margin: Span,
    clear: Time,
    /// How long the last packet waited that left while nothing of ours was queued.
    waited_alone: Option<Span>,
    quiet: Time,
    hold: Span,
    hold_until: Time,
    /// What is lost until then was not lost for too high a pace.
    slowed_until: Time,
    /// A queue longer than this has overflowed.
    shallow: Option<Span>,
    /// Delays vary by so much without a queue of ours.
    noise: Span,
    noise_at: Time,
    /// Drains in succession after which the queue was as long as before.
    futile: u32,
}

/// What a report says of a packet and all before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub now: Time,
    pub sent: Sent,
    /// Its number among all packets that left the path.
    pub counter: u64,
    pub arrival: Time,
    pub round_trip: Span,
    /// Bytes that have arrived in all, …
    pub received: u64,
    /// … as was concluded from a part of them: while many are lost, that may be too much.
    pub is_estimate: bool,
    /// Packets lost in all, but for those while the path was down.
    pub lost: i64,
    /// Bytes sent after it.
    pub open: u64,
}

/// What has been seen since a sample.
#[derive(Debug, Clone, Copy)]
struct Round {
    start: Sample,
    first_queue: Span,
    last_queue: Span,
    least_queue: Span,
    most_queue: Span,
}

impl Round {
    fn new(start: &Sample, queue: Span) -> Self {
        Round { start: *start, first_queue: queue, last_queue: queue, least_queue: queue, most_queue: queue }
    }

    fn note(&mut self, queue: Span) {
        self.last_queue = queue;
        self.least_queue = self.least_queue.min(queue);
        self.most_queue = self.most_queue.max(queue);
    }

    /// By how much the queue has become longer.
    fn growth(&self) -> Span {
        self.last_queue - self.first_queue
    }
}

/// The first raise may lead to a queue of this length before that is known; each further one to twice that, …
const OVERSHOOT: f64 = 0.003;
/// … up to this many times the rate.
const MAX_GAIN: f64 = 2.5;
const MAX_STEP: i32 = 12;
/// After so many in succession what is believed is far off.
const FEW_STEPS: i32 = 3;
const UNKNOWN: f64 = 1e6;
const MIN_CAPACITY: f64 = 16e3;
/// Of so many packets one is lost, where estimates of what has arrived are not relied on.
const MAX_LOSS_OF_ESTIMATE: u64 = 50;
const MIN_ROUND: Span = Span::from_millis(40);
const MAX_ROUND: Span = Span::from_millis(500);
const MIN_ROUND_PACKETS: u64 = 16;
const MIN_BUSY: Span = Span::from_millis(10);
const MIN_BUSY_PACKETS: u64 = 6;
/// By less, a path is not believed to be faster at once.
const MIN_FASTER: f64 = 1.03;
/// Less than this part of what is believed arrives because the path was away.
const MIN_PASSED: f64 = 0.7;
const DRAIN_INTERVAL: Span = Span::from_secs(2);
/// It must be empty even if the capacity is not exactly known.
const DRAIN_MARGIN: Span = Span::from_millis(2);
/// A path that is found to be shorter by more has not been drained before.
const MIN_SHORTENED: Span = Span::from_micros(500);
/// A path that has become longer by less is not told from noise at once.
const MIN_RAISE: Span = Span::from_millis(8);
const MAX_DRAIN: Span = Span::from_millis(300);
const NOISE_MEMORY: Span = Span::from_secs(3);
const MIN_HOLD: Span = Span::from_secs(2);
const SLOWED: Span = Span::from_secs(1);
const MAX_HOLD: Span = Span::from_secs(8);
/// A measurement that differs by less tells nothing new.
const MIN_CORRECTION: f64 = 0.1;
const TARGET: Span = Span::from_micros(1000);

impl PathRate {
    /// Begins with a rate that was measured, or searches from a low one. It never goes above `max`.
    pub fn new(measured: Option<Rate>, max: Option<Rate>, now: Time) -> Self {
        let max = max.map(|rate| rate.as_f64().max(MIN_CAPACITY));
        let capacity = measured.map_or(UNKNOWN, Rate::as_f64).clamp(MIN_CAPACITY, max.unwrap_or(f64::MAX));
        PathRate {
            capacity,
            max,
            gain: 1.0,
            found: measured.is_some(),
            step: if measured.is_some() { 0 } else { MAX_STEP },
            delays: QueueDelay::new(now),
            loss_floor: LossFloor::default(),
            round: None,
            from: now,
            busy: None,
            drained: now,
            margin: DRAIN_MARGIN,
            clear: now,
            waited_alone: None,
            quiet: now,
            hold: MIN_HOLD,
            hold_until: now,
            slowed_until: now,
            shallow: None,
            noise: Span::ZERO,
            noise_at: now,
            futile: 0,
        }
    }

    /// A measurement says what the path carries. It replaces what is believed where that differs clearly; the search begins
    /// there.
    pub fn suggest(&mut self, measured: Rate, now: Time) {
        if (measured.as_f64() / self.capacity - 1.0).abs() > MIN_CORRECTION {
            self.set_capacity(measured.as_f64());
            self.found = true;
            self.step = 0;
            self.gain = 1.0;
            self.restart(now);
        }
    }

    /// What the path carries, as far as is known.
    pub fn capacity(&self) -> Rate {
        Rate::from_f64(self.capacity)
    }

    /// The same, not rounded to whole bits.
    pub fn exact_capacity(&self) -> f64 {
        self.capacity
    }

    /// It never goes above this.
    pub fn max(&self) -> f64 {
        self.max.unwrap_or(f64::MAX)
    }

    /// Whether the path has been at its limit once.
    pub fn is_found(&self) -> bool {
        self.found
    }

    /// The rate at which to send.
    pub fn pace(&self) -> Rate {
        Rate::from_f64((self.capacity * self.gain).min(self.max()))
    }

    /// When sending may go on after the queue was longer than intended.
    pub fn drained(&self) -> Time {
        self.drained
    }

    /// How long packets wait in the path's own queue.
    pub fn queue(&self) -> Span {
        self.delays.queue()
    }

    /// One-way delay of a full packet on the empty path, with the offset of the two ends' clocks.
    pub fn base_delay(&self) -> Option<Span> {
        self.delays.base(self.capacity())
    }

    /// The ratio of packets that are lost whatever the rate.
    pub fn loss(&self) -> f64 {
        self.loss_floor.ratio()
    }

    /// How long packets are to wait: enough that the path is never idle, less than anyone notices.
    fn target(&self) -> Span {
        self.shallow.map_or(TARGET, |shallow| TARGET.min(shallow / 2))
    }

    /// The path has been away: nothing that began before can be concluded.
    pub fn interrupted(&mut self, now: Time) {
        self.restart(now);
        self.busy = None;
        self.step = 0;
        self.gain = 1.0;
        self.delays.drained();
    }

    /// Takes what a report says of the delay only, as long as nothing but probes is sent; returns how long the packet waited.
    pub fn probed(&mut self, sample: &Sample) -> Span {
        let delay = sample.arrival - sample.sent.time;
        let queue = self.delays.sample(delay, sample.sent.size, self.capacity(), sample.sent.quiet, sample.now);
        // It waits, it is transmitted itself, and so is what was sent after it.
        self.clear = sample.sent.time + queue + self.capacity().time_for(sample.open + u64::from(sample.sent.size));
        if sample.sent.quiet {
            self.quiet = sample.now;
            self.check_base(queue);
            self.check_drain(sample.now);
        }
        queue
    }

    /// Takes what a report says.
    pub fn sample(&mut self, sample: &Sample) {
        let queue = self.probed(sample);
        self.follow_busy(sample, queue);
        if sample.now - self.noise_at > NOISE_MEMORY {
            self.noise = self.noise / 2;
            self.noise_at = sample.now;
        }
        if sample.sent.time < self.from {
            return;
        }
        self.note(sample, queue);
        if self.delays.queue() > self.limit() {
            self.overfull(sample);
        } else if sample.now - self.quiet > DRAIN_INTERVAL && sample.now >= self.drained {
            self.quiet = sample.now;
            self.drain(sample);
        }
        self.steer(sample.round_trip);
    }

    /// A longer queue was not intended.
    fn limit(&self) -> Span {
        self.target() * 3 + self.noise.max(self.delays.variation()) * 2
    }

    fn is_busy(&self, queue: Span) -> bool {
        queue > self.target() / 3 + self.noise.max(self.delays.variation())
    }

    /// While packets wait, they arrive at the rate of the path, whatever the pace was. When far more is sent, that is not
    /// to take a round.
    fn follow_busy(&mut self, sample: &Sample, queue: Span) {
        if !self.is_busy(queue) {
            self.busy = None;
            return;
        }
        let (first, start) = *self.busy.get_or_insert((*sample, *sample));
        if sample.arrival - start.arrival < MIN_BUSY || sample.counter - start.counter < MIN_BUSY_PACKETS {
            return;
        }
        self.busy = Some((first, *sample));
        let passed = rate(&start, sample, sample.received.saturating_sub(start.received));
        let growth = (sample.arrival - start.arrival) - (sample.sent.time - start.sent.time);
        if passed < 0.9 * self.capacity && queue > self.limit() && growth > self.delays.variation() * 3 {
            self.set_capacity(passed);
        }
        self.follow_faster(&first, sample);
    }

    /// What was sent faster than the path was believed to carry tells what it carries, as soon as it is not chance: the search
    /// does not begin anew from the last rate that left no queue.
    fn follow_faster(&mut self, first: &Sample, sample: &Sample) {
        let passed = rate(first, sample, sample.received.saturating_sub(first.received));
        let (packets, lost) = (sample.counter - first.counter, (sample.lost - first.lost).max(0) as u64);
        if sample.is_estimate && lost * MAX_LOSS_OF_ESTIMATE > packets {
            return;
        }
        let is_certain = sample.arrival - first.arrival >= MIN_ROUND.max(self.delays.variation() * 20);
        if is_certain && passed > MIN_FASTER * self.capacity {
            self.set_capacity(passed);
            self.busy = Some((*sample, *sample));
        }
    }

    fn note(&mut self, sample: &Sample, queue: Span) {
        let round = self.round.get_or_insert(Round::new(sample, queue));
        round.note(queue);
        let round = *round;
        let packets = if self.found && self.step < FEW_STEPS { MIN_ROUND_PACKETS } else { MIN_ROUND_PACKETS / 2 };
        let long = sample.arrival - round.start.arrival >= MIN_ROUND;
        if long && sample.counter - round.start.counter >= packets && self.judge(&round, sample) {
            self.round = None;
        }
    }

    /// Draws the conclusions of a round; returns whether there were any.
    fn judge(&mut self, round: &Round, end: &Sample) -> bool {
        let start = &round.start;
        let losses = Losses { packets: end.counter - start.counter, lost: (end.lost - start.lost).max(0) as u64 };
        let idle = (end.sent.idle - start.sent.idle).as_secs_f64();
        let limited = idle > 0.03 * (end.sent.time - start.sent.time).as_secs_f64();
        if self.loss_floor.exceeds(losses, end.now < self.slowed_until, limited) {
            self.exceeded(rate(start, end, end.received.saturating_sub(start.received)), round.most_queue, end.now);
        } else if self.is_busy(round.least_queue) {
            self.step = 0;
            self.found = true;
            let judged = self.follow_queue(start, end);
            if !judged && end.arrival - start.arrival < MAX_ROUND {
                return false;
            }
        } else if limited {
            self.step = if self.found { 0 } else { self.step };
        } else if !self.found {
            self.raise(start, end);
        } else {
            let expected = self.expected_growth(start, end);
            if !self.is_busy(expected) && end.arrival - start.arrival < end.round_trip + MIN_ROUND {
                // Too little was sent for a queue to show.
                return false;
            }
            if round.growth() < expected / 2 { self.raise(start, end) } else { self.step = 0 }
        }
        self.loss_floor.learn(losses);
        true
    }

    /// How much longer the queue would be if the path carried what is believed.
    fn expected_growth(&self, start: &Sample, end: &Sample) -> Span {
        self.capacity().time_for(end.sent.total - start.sent.total) - (end.sent.time - start.sent.time)
    }

    /// Packets wait: what passes is what the path carries. Where the queue neither grew nor shrank by more than delays
    /// vary anyway, more time must pass.
    fn follow_queue(&mut self, start: &Sample, end: &Sample) -> bool {
        let (passing, sending) = (end.arrival - start.arrival, end.sent.time - start.sent.time);
        let significant = (self.delays.variation() * 2).max(passing / 300);
        let passed = rate(start, end, end.sent.total - start.sent.total);
        if passing - sending > significant || (sending - passing > significant && passed > self.capacity) {
            self.set_capacity(passed);
            return true;
        }
        false
    }

    /// More was sent than passes, and what was too much is lost.
    fn exceeded(&mut self, received: f64, queue: Span, now: Time) {
        self.set_capacity(received.min(self.capacity) * 0.99);
        self.step = 0;
        self.found = true;
        self.shallow = Some(queue.max(Span::from_micros(300)));
        self.hold_until = now + self.hold;
        self.slowed_until = now + SLOWED;
        self.hold = (self.hold * 2).min(MAX_HOLD);
        self.restart(now);
    }

    /// Nothing waited although there was always something to send.
    fn raise(&mut self, start: &Sample, end: &Sample) {
        if end.now < self.hold_until {
            self.gain = 1.0;
            return;
        }
        let passed = rate(start, end, end.sent.total - start.sent.total).min(sent_rate(start, end));
        let kept_up = passed > 0.97 * self.pace().as_f64();
        if passed > self.capacity * 1.01 {
            self.hold = MIN_HOLD;
        }
        self.set_capacity(passed.max(self.capacity));
        let next = self.step + if self.step < FEW_STEPS { 1 } else { 2 };
        self.step = if kept_up || !self.found { next.min(MAX_STEP) } else { 0 };
        self.restart(end.now);
    }

    /// A packet has waited although nothing of ours was before it. A queue would have changed from one such packet to the
    /// next; a path that has become longer has not.
    fn check_base(&mut self, queue: Span) {
        let before = self.waited_alone.take();
        if queue < MIN_RAISE + self.delays.variation() {
            return;
        }
        let alike = |before: &Span| (queue - *before).max(*before - queue) <= (queue / 5).max(self.delays.variation());
        match before.filter(alike) {
            Some(before) => {
                self.delays.raise_base(queue.min(before));
                self.noise = Span::ZERO;
            }
            None => self.waited_alone = Some(queue),
        }
    }

    /// What found the path empty took less than ever: it has not been empty before, and perhaps is not yet.
    fn check_drain(&mut self, now: Time) {
        if self.delays.shortened() < MIN_SHORTENED {
            self.margin = DRAIN_MARGIN;
        } else {
            self.margin = (self.margin * 2).min(MAX_DRAIN);
            self.quiet = now - DRAIN_INTERVAL;
        }
    }

    /// The queue is longer than intended.
    fn overfull(&mut self, sample: &Sample) {
        self.step = 0;
        self.found = true;
        self.follow_slower(sample);
        self.learn_noise(sample);
        self.drain(sample);
    }

    /// A queue that has grown too long while packets waited all the time tells that what is believed was too much, also where
    /// it is drained too soon for a round, and varies so much for that alone that nothing else is taken for certain. On a path
    /// that has become longer, less has arrived only in one part of that time; and on one that carried nothing for a while, far less.
    fn follow_slower(&mut self, sample: &Sample) {
        let Some((first, middle)) = self.busy else { return };
        let passed = |start: &Sample, end: &Sample| rate(start, end, end.received.saturating_sub(start.received));
        let (whole, slowest) = (passed(&first, sample), passed(&first, &middle).max(passed(&middle, sample)));
        let is_long = sample.arrival - first.arrival >= MIN_ROUND;
        if is_long && slowest < self.capacity / MIN_FASTER && whole > self.capacity * MIN_PASSED {
            self.set_capacity(whole);
        }
    }

    /// A queue that is there again at once although the pace is right is none of ours.
    fn learn_noise(&mut self, sample: &Sample) {
        let at_once = sample.now - self.drained < sample.round_trip + Span::from_millis(50);
        self.futile = if at_once { self.futile + 1 } else { 0 };
        if self.futile >= 3 {
            self.noise = self.noise.max(self.delays.queue() / 2);
            self.noise_at = sample.now;
        }
    }

    /// Sends nothing until the queue must be empty.
    fn drain(&mut self, sample: &Sample) {
        self.drained = (self.clear + self.margin).min(sample.now + MAX_DRAIN).max(sample.now);
        self.restart(self.drained);
        self.delays.drained();
    }

    /// When all that has been sent will have passed the bottleneck, as if it were at our end of the path.
    pub fn clear(&self) -> Time {
        self.clear
    }

    fn restart(&mut self, from: Time) {
        self.from = from;
        self.round = None;
    }

    fn set_capacity(&mut self, capacity: f64) {
        if (capacity / self.capacity - 1.0).abs() > 0.03 {
            self.futile = 0;
        }
        self.capacity = capacity.clamp(MIN_CAPACITY, self.max());
    }

    /// Keeps the queue near its target; the correction takes effect within a few times the delay of its feedback.
    fn steer(&mut self, round_trip: Span) {
        let queue = self.delays.queue();
        let feedback = round_trip.as_secs_f64() + 0.02;
        if self.step > 0 && !self.is_busy(queue) {
            let first = OVERSHOOT / (feedback + MIN_ROUND.as_secs_f64());
            self.gain = (1.0 + first * f64::from(1 << (self.step - 1))).min(MAX_GAIN);
            return;
        }
        let missing = (self.target() + self.noise - queue).as_secs_f64();
        self.gain = 1.0 + (0.4 * missing / feedback).clamp(-0.3, 0.02);
    }
}

/// At which the packets between two left.
fn sent_rate(start: &Sample, end: &Sample) -> f64 {
    (end.sent.total - start.sent.total) as f64 * 8.0 / (end.sent.time - start.sent.time).as_secs_f64().max(1e-6)
}

/// Of so many bytes between the arrivals of two packets.
fn rate(start: &Sample, end: &Sample, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / (end.arrival - start.arrival).as_secs_f64().max(1e-6)
}
