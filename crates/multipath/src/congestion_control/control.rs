//! At which rate a path is paced, so that its queue is ours and not the provider's.

use crate::congestion_control::background_loss::{BackgroundLoss, PacketLosses};
use crate::congestion_control::competition::{CompetitionSample, CompetitiveWindow, OverflowHistory};
use crate::congestion_control::queue_delay::QueueDelay;
use crate::path::sent_log::AcknowledgedPackets;
use kumade_units::{Rate, Span, Time};

/// The rate of one path, found by the traffic that it carries.
///
/// **Rule.** As long as packets wait in the path's own queue, the rate at which they arrive is its capacity (or what
/// cross traffic leaves of it); the pace follows that, with a correction that keeps the wait near a small target
/// ([`PathCongestionControl::target_queue_delay`]). While nothing waits and the path has always had something to send, the pace rises in steps
/// that double, each of which must have come back before the next, and only where a queue would show by now if the path
/// carried no more than is believed. While nothing is known of the path, it rises 2.5-fold each time, and after shorter steps, which
/// keeps ahead of a sender in slow start. A queue that is longer than intended is drained at once: nothing is sent until it is empty, which
/// costs the path nothing. Once in two seconds it is drained on purpose, so that the delay of the empty path is known anew;
/// if that turns out to be less than ever, the queue had not been empty, and is drained for twice as long at once. Where
/// draining does not shorten it, the path has become longer or others fill it, and that delay is the new base.
///
/// Loss is no reason to go slower by itself: the rate counts what was sent up to the packet reported. Only where clearly
/// more is lost than usually, as a short buffer or a policer does above its rate, does what *arrived* set the pace, and it is
/// not raised for a while.
///
/// **Others.** Who keeps the queue short gets next to nothing beside senders that fill it. If packets still wait on the drained path
/// twice in succession, or if losses go with a full queue, others fill it: the path then has the rate of a [`CompetitiveWindow`]. It
/// ends where a drained path is empty again, and after [`MAX_COMPETITION`], to begin again at once if the others are still there.
///
/// Wrong at the start by a factor of ten, it is right after a few round trips of a backlog. Nothing is concluded
/// from a path with less to carry than it could, except that a queue on it must shrink.
#[derive(Debug)]
pub(crate) struct PathCongestionControl {
    /// Bits per second that the path carries, as far as is known.
    capacity: f64,
    max_capacity: Option<f64>,
    /// The pace is the capacity times this.
    gain: f64,
    /// It has been at its limit once.
    is_capacity_known: bool,
    /// How often it has been raised in succession.
    probe_step: i32,
    delay_tracker: QueueDelay,
    loss_floor: BackgroundLoss,
    round: Option<RateRound>,
    /// Only packets sent from then on tell of the present pace.
    valid_from: Time,
    /// The first of an unbroken series of samples that found a queue, and the last from which the rate was judged.
    busy_period: Option<(DeliverySample, DeliverySample)>,
    /// Nothing is sent until then.
    drained_at: Time,
    /// For so long beyond that, in case that the queue is longer than believed.
    drain_margin: Span,
    bottleneck_clear_at: Time,
    /// How long the last packet waited that left while nothing of ours was queued.
    empty_path_wait: Option<Span>,
    last_empty_path: Time,
    hold_time: Span,
    hold_until: Time,
    /// What is lost until then was not lost for too high a pace.
    slowed_until: Time,
    /// A queue longer than this has overflowed.
    shallow_buffer: Option<Span>,
    /// Delays vary by so much without a queue of ours.
    delay_noise: Span,
    noise_updated: Time,
    /// Drains in succession after which the queue was as long as before.
    futile_drains: u32,
    /// What is sent while others keep the queue filled.
    competition: Option<CompetitiveWindow>,
    /// The last one, which may have ended though the others are there.
    last_competition: Option<CompetitiveWindow>,
    overflows: OverflowHistory,
    /// What was sent before was sent at a pace that has turned out to be far too high.
    overestimated_until: Time,
    /// The most that the path carried in this period and in the one before.
    recent_rates: [f64; 2],
    recent_start: Time,
    /// Drains in succession that have shown a queue of others, or, with a competition, none.
    contrary_drains: u32,
    /// How long the queue was when it was last drained.
    drained_queue: Span,
    /// Waits in succession on the drained path that were alike.
    alike_waits: u32,
}

/// What a report says of a packet and all before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliverySample {
    pub now: Time,
    pub sent: AcknowledgedPackets,
    /// Its number among all packets that left the path.
    pub counter: u64,
    pub arrival: Time,
    pub round_trip: Span,
    /// Bytes that have arrived in all, …
    pub received_bytes: u64,
    /// … as was concluded from a part of them: while many are lost, that may be too much.
    pub is_received_estimated: bool,
    /// Packets lost in all, but for those while the path was down.
    pub lost_packets: i64,
    /// Bytes sent after it.
    pub in_flight_bytes: u64,
}

/// What has been seen since a sample.
#[derive(Debug, Clone, Copy)]
struct RateRound {
    start: DeliverySample,
    first_queue: Span,
    last_queue: Span,
    min_queue: Span,
    max_queue: Span,
}

impl RateRound {
    fn new(start: &DeliverySample, queue: Span) -> Self {
        RateRound { start: *start, first_queue: queue, last_queue: queue, min_queue: queue, max_queue: queue }
    }

    fn record_queue(&mut self, queue: Span) {
        self.last_queue = queue;
        self.min_queue = self.min_queue.min(queue);
        self.max_queue = self.max_queue.max(queue);
    }

    /// By how much the queue has become longer.
    fn queue_growth(&self) -> Span {
        self.last_queue - self.first_queue
    }
}

/// The first raise may lead to a queue of this length before that is known; each further one to twice that, …
const OVERSHOOT_SECONDS: f64 = 0.003;
/// … up to this many times the rate.
const MAX_GAIN_FACTOR: f64 = 2.5;
const MAX_SEARCH_STEPS: i32 = 12;
/// After so many in succession what is believed is far off.
const FAR_OFF_STEPS: i32 = 3;
const INITIAL_BITS_PER_SECOND: f64 = 1e6;
const MIN_BITS_PER_SECOND: f64 = 16e3;
/// Of so many packets one is lost, where estimates of what has arrived are not relied on.
const MIN_PACKETS_PER_LOSS: u64 = 50;
const MIN_ROUND_DURATION: Span = Span::from_millis(40);
/// While nothing is known of a path, what a round finds is one of a series in which each is 2.5 times the last: two reports show whether a
/// queue has begun, and the pace leaves 1 Mbit/s in a tenth of a second where round trips are short.
const MIN_SEARCH_ROUND_DURATION: Span = Span::from_millis(10);
const MAX_ROUND_DURATION: Span = Span::from_millis(500);
const MIN_ROUND_PACKETS: u64 = 16;
const MIN_BUSY_PERIOD: Span = Span::from_millis(10);
const MIN_BUSY_PACKETS: u64 = 6;
/// By less, a path is not believed to be faster at once.
const MIN_FASTER_RATIO: f64 = 1.03;
/// Less than this part of what is believed arrives because the path was away.
const MIN_PASSED_FRACTION: f64 = 0.7;
const DRAIN_INTERVAL: Span = Span::from_secs(2);
/// It must be empty even if the capacity is not exactly known.
const DRAIN_MARGIN: Span = Span::from_millis(2);
/// A path that is found to be shorter by more has not been drained before.
const MIN_DELAY_DECREASE: Span = Span::from_micros(500);
/// A path that has become longer by less is not told from noise at once.
const MIN_BASE_DELAY_RAISE: Span = Span::from_millis(8);
const MAX_DRAIN_DURATION: Span = Span::from_millis(300);
const NOISE_PERIOD: Span = Span::from_secs(3);
const MIN_HOLD_DOWN: Span = Span::from_secs(2);
const SLOWED_PERIOD: Span = Span::from_secs(1);
const MAX_HOLD_DOWN: Span = Span::from_secs(8);
/// A measurement that differs by less tells nothing new.
const MIN_CORRECTION_FRACTION: f64 = 0.1;
/// More loss is not taken for what a path has whatever the rate.
const MAX_USUAL_LOSS: f64 = 0.15;
/// One may show what is there by chance.
const MIN_CONTRARY_DRAINS: u32 = 2;
/// If the path carries less than this part of what was believed, what is lost is one's own fault.
const MAX_OVERESTIMATE_FRACTION: f64 = 0.9;
/// After so long a competition it is tried whether it is still needed; if it begins again soon, it goes on.
const MAX_COMPETITION: Span = Span::from_secs(30);
const RESUME_PERIOD: Span = Span::from_secs(5);
/// Before a competition, a path carried what it did in the last one or two of these.
const RECENT_PERIOD: Span = Span::from_secs(10);
pub(crate) const TARGET_QUEUE_DELAY: Span = Span::from_micros(1000);

impl PathCongestionControl {
    /// Begins with a rate that was measured, or searches from a low one. It never goes above `max`.
    pub fn new(measured: Option<Rate>, max: Option<Rate>, now: Time) -> Self {
        let max = max.map(|rate| rate.as_f64().max(MIN_BITS_PER_SECOND));
        let capacity =
            measured.map_or(INITIAL_BITS_PER_SECOND, Rate::as_f64).clamp(MIN_BITS_PER_SECOND, max.unwrap_or(f64::MAX));
        PathCongestionControl {
            capacity,
            max_capacity: max,
            gain: 1.0,
            is_capacity_known: measured.is_some(),
            probe_step: if measured.is_some() { 0 } else { MAX_SEARCH_STEPS },
            delay_tracker: QueueDelay::new(now),
            loss_floor: BackgroundLoss::default(),
            round: None,
            valid_from: now,
            busy_period: None,
            drained_at: now,
            drain_margin: DRAIN_MARGIN,
            bottleneck_clear_at: now,
            empty_path_wait: None,
            last_empty_path: now,
            hold_time: MIN_HOLD_DOWN,
            hold_until: now,
            slowed_until: now,
            shallow_buffer: None,
            delay_noise: Span::ZERO,
            noise_updated: now,
            futile_drains: 0,
            competition: None,
            last_competition: None,
            overflows: OverflowHistory::default(),
            overestimated_until: now,
            recent_rates: [0.0; 2],
            recent_start: now,
            contrary_drains: 0,
            drained_queue: Span::ZERO,
            alike_waits: 0,
        }
    }

    /// A measurement says what the path carries. It replaces what is believed where that differs clearly; the search begins
    /// there.
    pub fn suggest_capacity(&mut self, measured: Rate, now: Time) {
        if (measured.as_f64() / self.capacity - 1.0).abs() > MIN_CORRECTION_FRACTION {
            self.set_capacity(measured.as_f64());
            self.is_capacity_known = true;
            self.probe_step = 0;
            self.gain = 1.0;
            self.restart_round(now);
        }
    }

    /// What the path carries, as far as is known.
    pub fn capacity(&self) -> Rate {
        Rate::from_f64(self.capacity)
    }

    /// The same, not rounded to whole bits.
    pub fn capacity_bits_per_second(&self) -> f64 {
        self.capacity
    }

    /// It never goes above this.
    pub fn max_bits_per_second(&self) -> f64 {
        self.max_capacity.unwrap_or(f64::MAX)
    }

    /// Whether the path has been at its limit once.
    pub fn is_capacity_found(&self) -> bool {
        self.is_capacity_known
    }

    /// The rate at which to send.
    pub fn pacing_rate(&self) -> Rate {
        Rate::from_f64((self.capacity * self.gain).min(self.max_bits_per_second()))
    }

    /// When sending may go on after the queue was longer than intended.
    pub fn drained_at(&self) -> Time {
        self.drained_at
    }

    /// How long packets wait in the path's own queue.
    pub fn queue_delay(&self) -> Span {
        self.delay_tracker.queue_delay()
    }

    /// One-way delay of a full packet on the empty path, with the offset of the two ends' clocks.
    pub fn base_delay(&self) -> Option<Span> {
        self.delay_tracker.base_delay(self.capacity())
    }

    /// The ratio of packets that are lost whatever the rate.
    pub fn loss_ratio(&self) -> f64 {
        self.loss_floor.loss_ratio()
    }

    /// How long packets are to wait: enough that the path is never idle, less than anyone notices.
    pub fn target_queue_delay(&self) -> Span {
        self.shallow_buffer.map_or(TARGET_QUEUE_DELAY, |shallow| TARGET_QUEUE_DELAY.min(shallow / 2))
    }

    /// The path has been away: nothing that began before can be concluded.
    pub fn path_interrupted(&mut self, now: Time) {
        self.restart_round(now);
        self.busy_period = None;
        self.competition = None;
        self.contrary_drains = 0;
        self.probe_step = 0;
        self.gain = 1.0;
        self.delay_tracker.queue_drained();
    }

    /// Takes what a report says of the delay only, as long as nothing but probes is sent; returns how long the packet waited.
    pub fn record_probe(&mut self, sample: &DeliverySample) -> Span {
        let delay = sample.arrival - sample.sent.time;
        let queue = self.delay_tracker.record_sample(
            delay,
            sample.sent.size,
            self.capacity(),
            sample.sent.found_empty_path && self.competition.is_none(),
            sample.now,
        );
        // It waits, it is transmitted itself, and so is what was sent after it.
        self.bottleneck_clear_at =
            sample.sent.time + queue + self.capacity().time_for(sample.in_flight_bytes + u64::from(sample.sent.size));
        if sample.sent.found_empty_path {
            self.last_empty_path = sample.now;
            self.check_base_delay(queue);
            self.check_drain(sample.now);
        }
        queue
    }

    /// Takes what a report says.
    pub fn record_sample(&mut self, sample: &DeliverySample) {
        let queue = self.record_probe(sample);
        self.record_overflow(sample, queue);
        if sample.sent.found_empty_path {
            self.check_competition(sample, queue);
        }
        if self.competition.is_some() {
            return self.compete(sample, queue);
        }
        let believed = self.capacity;
        self.record_delay_sample(sample, queue);
        if self.capacity < believed * MAX_OVERESTIMATE_FRACTION {
            self.overestimated_until = sample.now;
            self.overflows.forget_losses();
        }
    }

    /// Keeps the queue short, as long as it is one's own.
    fn record_delay_sample(&mut self, sample: &DeliverySample, queue: Span) {
        self.update_busy_period(sample, queue);
        if sample.now - self.noise_updated > NOISE_PERIOD {
            self.delay_noise = self.delay_noise / 2;
            self.noise_updated = sample.now;
        }
        if sample.sent.time < self.valid_from {
            return;
        }
        self.record_round(sample, queue);
        if self.delay_tracker.queue_delay() > self.max_queue_delay() {
            self.queue_overfull(sample);
        } else if sample.now - self.last_empty_path > DRAIN_INTERVAL && sample.now >= self.drained_at {
            self.last_empty_path = sample.now;
            self.begin_drain(sample);
        }
        self.update_pacing_rate(sample.round_trip);
    }

    /// A buffer that overflows though the pace is not too high is filled by others.
    fn record_overflow(&mut self, sample: &DeliverySample, queue: Span) {
        let is_pace_right = self.is_capacity_known && self.probe_step == 0 && sample.now >= self.slowed_until;
        let counts = is_pace_right && sample.sent.time >= self.overestimated_until;
        self.overflows.record_sample(queue, sample.lost_packets, counts, sample.now);
        if self.competition.is_none() && self.overflows.overflows() {
            self.begin_competition(sample, queue);
        }
    }

    /// So much arrived in a round.
    fn record_recent_rate(&mut self, passed: f64, now: Time) {
        if now - self.recent_start > RECENT_PERIOD {
            let is_next = now - self.recent_start < RECENT_PERIOD * 2;
            self.recent_rates = [0.0, if is_next { self.recent_rates[0] } else { 0.0 }];
            self.recent_start = now;
        }
        self.recent_rates[0] = self.recent_rates[0].max(passed);
    }

    fn begin_competition(&mut self, sample: &DeliverySample, queue: Span) {
        let seen = self.competition_sample(sample, queue);
        let recent = self.recent_rates[0].max(self.recent_rates[1]);
        let resumed =
            self.last_competition.take().filter(|last| sample.now - last.begin() < MAX_COMPETITION + RESUME_PERIOD);
        let window = match resumed {
            Some(mut window) => {
                window.resume(&seen);
                window
            }
            None => CompetitiveWindow::new(self.capacity, recent, &seen),
        };
        self.competition = Some(window);
        self.contrary_drains = 0;
        self.overflows.forget_losses();
        self.is_capacity_known = true;
        self.probe_step = 0;
    }

    /// What waits on the drained path is of others.
    fn check_competition(&mut self, sample: &DeliverySample, queue: Span) {
        let threshold = self.max_queue_delay();
        let is_contrary = match self.competition {
            // It may be one's own, which could not be drained.
            None if sample.now - self.overestimated_until < SLOWED_PERIOD => return,
            None => queue > self.target_queue_delay() * 3 + self.delay_noise.max(self.delay_tracker.variation()),
            // A short queue tells nothing of who has filled it.
            Some(_) if self.drained_queue < threshold * 2 => return,
            Some(_) => queue < (threshold / 2).max(self.drained_queue / 8),
        };
        self.contrary_drains = if is_contrary { self.contrary_drains + 1 } else { 0 };
        if self.contrary_drains < MIN_CONTRARY_DRAINS {
            return;
        }
        match self.competition {
            None => self.begin_competition(sample, queue),
            Some(_) => self.end_competition(sample.now),
        }
    }

    fn end_competition(&mut self, now: Time) {
        self.competition = None;
        self.contrary_drains = 0;
        self.busy_period = None;
        self.probe_step = 0;
        self.gain = 1.0;
        self.restart_round(now);
    }

    /// Sends what another sender would that fills the queue.
    fn compete(&mut self, sample: &DeliverySample, queue: Span) {
        let seen = self.competition_sample(sample, queue);
        let Some(window) = &mut self.competition else { return };
        window.record_sample(&seen);
        let (rate, begin) = (window.bits_per_second(), window.begin());
        self.set_capacity(rate);
        if sample.now - begin > MAX_COMPETITION {
            // Whether the others are still there shows soon.
            self.last_competition = self.competition;
            return self.end_competition(sample.now);
        }
        self.gain = 1.0;
        let (since, threshold) = (sample.now - self.last_empty_path, self.max_queue_delay());
        let is_due = since > DRAIN_INTERVAL && (queue > threshold * 2 || since > DRAIN_INTERVAL * 3);
        if is_due && sample.now >= self.drained_at {
            self.last_empty_path = sample.now;
            self.drained_queue = queue;
            self.begin_drain(sample);
        }
    }

    fn competition_sample(&self, sample: &DeliverySample, queue: Span) -> CompetitionSample {
        CompetitionSample {
            now: sample.now,
            sent: sample.sent.time,
            round_trip: sample.round_trip,
            is_queue_full: self.overflows.is_full(queue),
            packets: sample.counter,
            lost_packets: sample.lost_packets,
            idle_time: sample.sent.idle_time,
        }
    }

    /// A longer queue was not intended.
    fn max_queue_delay(&self) -> Span {
        self.target_queue_delay() * 3 + self.delay_noise.max(self.delay_tracker.variation()) * 2
    }

    fn is_busy(&self, queue: Span) -> bool {
        queue > self.target_queue_delay() / 3 + self.delay_noise.max(self.delay_tracker.variation())
    }

    /// While packets wait, they arrive at the rate of the path, whatever the pace was. When far more is sent, that is not
    /// to take a round.
    fn update_busy_period(&mut self, sample: &DeliverySample, queue: Span) {
        if !self.is_busy(queue) {
            self.busy_period = None;
            return;
        }
        let (first, start) = *self.busy_period.get_or_insert((*sample, *sample));
        if sample.arrival - start.arrival < MIN_BUSY_PERIOD || sample.counter - start.counter < MIN_BUSY_PACKETS {
            return;
        }
        self.busy_period = Some((first, *sample));
        let passed = rate_between(&start, sample, sample.received_bytes.saturating_sub(start.received_bytes));
        let growth = (sample.arrival - start.arrival) - (sample.sent.time - start.sent.time);
        if passed < 0.9 * self.capacity && queue > self.max_queue_delay() && growth > self.delay_tracker.variation() * 3
        {
            self.set_capacity(passed);
        }
        self.raise_to_faster(&first, sample);
    }

    /// What was sent faster than the path was believed to carry tells what it carries, as soon as it is not chance: the search
    /// does not begin anew from the last rate that left no queue.
    fn raise_to_faster(&mut self, first: &DeliverySample, sample: &DeliverySample) {
        let passed = rate_between(first, sample, sample.received_bytes.saturating_sub(first.received_bytes));
        let (packets, lost) =
            (sample.counter - first.counter, (sample.lost_packets - first.lost_packets).max(0) as u64);
        if sample.is_received_estimated && lost * MIN_PACKETS_PER_LOSS > packets {
            return;
        }
        let is_certain = sample.arrival - first.arrival >= MIN_ROUND_DURATION.max(self.delay_tracker.variation() * 20);
        if is_certain && passed > MIN_FASTER_RATIO * self.capacity {
            self.set_capacity(passed);
            self.busy_period = Some((*sample, *sample));
        }
    }

    fn record_round(&mut self, sample: &DeliverySample, queue: Span) {
        let round = self.round.get_or_insert(RateRound::new(sample, queue));
        round.record_queue(queue);
        let round = *round;
        let packets = if self.is_capacity_known && self.probe_step < FAR_OFF_STEPS {
            MIN_ROUND_PACKETS
        } else {
            MIN_ROUND_PACKETS / 2
        };
        let least = if self.is_capacity_known { MIN_ROUND_DURATION } else { MIN_SEARCH_ROUND_DURATION };
        let long = sample.arrival - round.start.arrival >= least;
        if long && sample.counter - round.start.counter >= packets && self.evaluate_round(&round, sample) {
            self.round = None;
        }
    }

    /// Draws the conclusions of a round; returns whether there were any.
    fn evaluate_round(&mut self, round: &RateRound, end: &DeliverySample) -> bool {
        let start = &round.start;
        let losses = PacketLosses {
            packets: end.counter - start.counter,
            lost: (end.lost_packets - start.lost_packets).max(0) as u64,
        };
        let idle = (end.sent.idle_time - start.sent.idle_time).as_secs_f64();
        let limited = idle > 0.03 * (end.sent.time - start.sent.time).as_secs_f64();
        let received = rate_between(start, end, end.received_bytes.saturating_sub(start.received_bytes));
        self.record_recent_rate(received, end.now);
        if self.loss_floor.exceeds_background(losses, end.now < self.slowed_until, limited) {
            self.capacity_exceeded(received, round.max_queue, end.now);
        } else if self.is_busy(round.min_queue) {
            self.probe_step = 0;
            self.is_capacity_known = true;
            let judged = self.update_from_queue(start, end);
            if !judged && end.arrival - start.arrival < MAX_ROUND_DURATION {
                return false;
            }
        } else if limited {
            self.probe_step = if self.is_capacity_known { 0 } else { self.probe_step };
        } else if !self.is_capacity_known {
            self.raise_capacity(start, end);
        } else {
            let expected = self.expected_growth(start, end);
            if !self.is_busy(expected) && end.arrival - start.arrival < end.round_trip + MIN_ROUND_DURATION {
                // Too little was sent for a queue to show.
                return false;
            }
            if round.queue_growth() < expected / 2 { self.raise_capacity(start, end) } else { self.probe_step = 0 }
        }
        self.loss_floor.record_losses(losses);
        true
    }

    /// How much longer the queue would be if the path carried what is believed.
    fn expected_growth(&self, start: &DeliverySample, end: &DeliverySample) -> Span {
        self.capacity().time_for(end.sent.total_bytes - start.sent.total_bytes) - (end.sent.time - start.sent.time)
    }

    /// Packets wait: what passes is what the path carries. Where the queue neither grew nor shrank by more than delays
    /// vary anyway, more time must pass.
    fn update_from_queue(&mut self, start: &DeliverySample, end: &DeliverySample) -> bool {
        let (passing, sending) = (end.arrival - start.arrival, end.sent.time - start.sent.time);
        let significant = (self.delay_tracker.variation() * 2).max(passing / 300);
        let passed = rate_between(start, end, end.sent.total_bytes - start.sent.total_bytes);
        if passing - sending > significant || (sending - passing > significant && passed > self.capacity) {
            self.set_capacity(passed);
            return true;
        }
        false
    }

    /// More was sent than passes, and what was too much is lost.
    fn capacity_exceeded(&mut self, received: f64, queue: Span, now: Time) {
        self.set_capacity(received.min(self.capacity) * 0.99);
        self.probe_step = 0;
        self.is_capacity_known = true;
        self.shallow_buffer = Some(queue.max(Span::from_micros(300)));
        self.hold_until = now + self.hold_time;
        self.slowed_until = now + SLOWED_PERIOD;
        self.hold_time = (self.hold_time * 2).min(MAX_HOLD_DOWN);
        self.restart_round(now);
    }

    /// Nothing waited although there was always something to send.
    fn raise_capacity(&mut self, start: &DeliverySample, end: &DeliverySample) {
        if end.now < self.hold_until {
            self.gain = 1.0;
            return;
        }
        let passed = rate_between(start, end, end.sent.total_bytes - start.sent.total_bytes).min(sent_rate(start, end));
        let kept_up = passed > 0.97 * self.pacing_rate().as_f64();
        if passed > self.capacity * 1.01 {
            self.hold_time = MIN_HOLD_DOWN;
        }
        self.set_capacity(passed.max(self.capacity));
        let next = self.probe_step + if self.probe_step < FAR_OFF_STEPS { 1 } else { 2 };
        self.probe_step = if kept_up || !self.is_capacity_known { next.min(MAX_SEARCH_STEPS) } else { 0 };
        self.restart_round(end.now);
    }

    /// A packet has waited although nothing of ours was before it. A queue would have changed from one such packet to the
    /// next; a path that has become longer has not.
    fn check_base_delay(&mut self, queue: Span) {
        let before = self.empty_path_wait.take();
        let competes = self.competition.is_some();
        let min_raise = if competes { self.max_queue_delay() } else { MIN_BASE_DELAY_RAISE };
        if queue < min_raise + self.delay_tracker.variation() {
            self.alike_waits = 0;
            return;
        }
        // Others' queue is alike twice by chance.
        let (part, min_alike) = if competes { (20, 2) } else { (5, 1) };
        let alike = |before: &Span| {
            (queue - *before).max(*before - queue) <= (queue / part).max(self.delay_tracker.variation() * 5 / part)
        };
        let is_alike = before.as_ref().is_some_and(alike);
        self.alike_waits = if is_alike { self.alike_waits + 1 } else { 0 };
        match before {
            Some(before) if self.alike_waits >= min_alike => {
                self.delay_tracker.raise_base(queue.min(before));
                self.delay_noise = Span::ZERO;
                self.overflows.forget_queues();
                self.alike_waits = 0;
                if competes {
                    self.end_competition(self.valid_from);
                }
            }
            _ => self.empty_path_wait = Some(queue),
        }
    }

    /// What found the path empty took less than ever: it has not been empty before, and perhaps is not yet.
    fn check_drain(&mut self, now: Time) {
        if self.delay_tracker.delay_decrease() < MIN_DELAY_DECREASE {
            self.drain_margin = DRAIN_MARGIN;
        } else {
            self.drain_margin = (self.drain_margin * 2).min(MAX_DRAIN_DURATION);
            self.last_empty_path = now - DRAIN_INTERVAL;
        }
    }

    /// The queue is longer than intended.
    fn queue_overfull(&mut self, sample: &DeliverySample) {
        self.probe_step = 0;
        self.is_capacity_known = true;
        self.lower_to_slower(sample);
        self.update_noise(sample);
        self.begin_drain(sample);
    }

    /// A queue that has grown too long while packets waited all the time tells that what is believed was too much, also where
    /// it is drained too soon for a round, and varies so much for that alone that nothing else is taken for certain. On a path
    /// that has become longer, less has arrived only in one part of that time; and on one that carried nothing for a while, far less.
    fn lower_to_slower(&mut self, sample: &DeliverySample) {
        let Some((first, middle)) = self.busy_period else { return };
        // What is lost whatever the rate has passed the bottleneck, or would have.
        let usual = 1.0 - self.loss_ratio().min(MAX_USUAL_LOSS);
        let passed = |start: &DeliverySample, end: &DeliverySample| {
            rate_between(start, end, end.received_bytes.saturating_sub(start.received_bytes)) / usual
        };
        let (whole, slowest) = (passed(&first, sample), passed(&first, &middle).max(passed(&middle, sample)));
        let is_long = sample.arrival - first.arrival >= MIN_ROUND_DURATION;
        if is_long && slowest < self.capacity / MIN_FASTER_RATIO && whole > self.capacity * MIN_PASSED_FRACTION {
            self.set_capacity(whole);
        }
    }

    /// A queue that is there again at once although the pace is right is none of ours.
    fn update_noise(&mut self, sample: &DeliverySample) {
        let at_once = sample.now - self.drained_at < sample.round_trip + Span::from_millis(50);
        self.futile_drains = if at_once { self.futile_drains + 1 } else { 0 };
        if self.futile_drains >= 3 {
            self.delay_noise = self.delay_noise.max(self.delay_tracker.queue_delay() / 2);
            self.noise_updated = sample.now;
        }
    }

    /// Sends nothing until the queue must be empty.
    fn begin_drain(&mut self, sample: &DeliverySample) {
        self.drained_at =
            (self.bottleneck_clear_at + self.drain_margin).min(sample.now + MAX_DRAIN_DURATION).max(sample.now);
        self.restart_round(self.drained_at);
        self.delay_tracker.queue_drained();
    }

    /// When all that has been sent will have passed the bottleneck, as if it were at our end of the path.
    pub fn clear_at(&self) -> Time {
        self.bottleneck_clear_at
    }

    fn restart_round(&mut self, from: Time) {
        self.valid_from = from;
        self.round = None;
    }

    fn set_capacity(&mut self, capacity: f64) {
        if (capacity / self.capacity - 1.0).abs() > 0.03 {
            self.futile_drains = 0;
        }
        self.capacity = capacity.clamp(MIN_BITS_PER_SECOND, self.max_bits_per_second());
    }

    /// Keeps the queue near its target; the correction takes effect within a few times the delay of its feedback.
    fn update_pacing_rate(&mut self, round_trip: Span) {
        let queue = self.delay_tracker.queue_delay();
        let feedback = round_trip.as_secs_f64() + 0.02;
        if self.probe_step > 0 && !self.is_busy(queue) {
            let first = OVERSHOOT_SECONDS / (feedback + MIN_ROUND_DURATION.as_secs_f64());
            self.gain = (1.0 + first * f64::from(1 << (self.probe_step - 1))).min(MAX_GAIN_FACTOR);
            return;
        }
        let missing = (self.target_queue_delay() + self.delay_noise - queue).as_secs_f64();
        self.gain = 1.0 + (0.4 * missing / feedback).clamp(-0.3, 0.02);
    }
}

/// At which the packets between two left.
fn sent_rate(start: &DeliverySample, end: &DeliverySample) -> f64 {
    (end.sent.total_bytes - start.sent.total_bytes) as f64 * 8.0
        / (end.sent.time - start.sent.time).as_secs_f64().max(1e-6)
}

/// Of so many bytes between the arrivals of two packets.
fn rate_between(start: &DeliverySample, end: &DeliverySample, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / (end.arrival - start.arrival).as_secs_f64().max(1e-6)
}
