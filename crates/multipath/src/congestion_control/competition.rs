use kumade_units::{Span, Time};

/// The rate of a path whose queue others keep filled: what CUBIC (RFC 9438) would send there, of which the others are
/// most likely some. Who keeps its own queue short gets next to nothing beside them.
///
/// Only losses while the queue is long count: a full buffer's, not those that the path has anyway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompetitiveWindow {
    /// In bytes, as the one before the last reduction, which the growth tends to.
    window: f64,
    last_max: f64,
    /// When the growth began, after which window.
    epoch: Time,
    epoch_window: f64,
    round_trip: f64,
    /// Losses among packets that were sent before count no more.
    reduced_at: Time,
    /// Packets sent and lost until the last reduction.
    packets_then: u64,
    lost_then: i64,
    /// As of the last sample.
    lost_packets: i64,
    idle_time: Span,
    last_sample: Time,
    begin: Time,
}

/// What a sample tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompetitionSample {
    pub now: Time,
    /// When its packet was sent.
    pub sent: Time,
    pub round_trip: Span,
    /// Whether the queue was about as long as it lately was at most.
    pub is_queue_full: bool,
    /// That were sent, and of these lost, in all.
    pub packets: u64,
    pub lost_packets: i64,
    /// For how long there was nothing to send, in all.
    pub idle_time: Span,
}

/// What remains of the window after a reduction; RFC 9438 has 0.7, but a paced sender loses packets in each overflow, of which
/// others miss some. How fast it grows, in segments per cubic second (RFC 9438).
const REDUCTION_FACTOR: f64 = 0.8;
const CUBIC_SEGMENTS: f64 = 0.4;
/// What the growth of a NewReno is multiplied by so that it gets as much with this reduction factor.
const RENO_GROWTH: f64 = 3.0 * (1.0 - REDUCTION_FACTOR) / (1.0 + REDUCTION_FACTOR);
const SEGMENT_BYTES: f64 = 1500.0;
const MIN_WINDOW_SEGMENTS: f64 = 2.0;
const ROUND_TRIP_WEIGHT: f64 = 0.125;
/// No more is lost, in parts, while others fill the queue, unless the window is too large.
const MAX_LOSS_RATIO: f64 = 0.05;
const MIN_LOST_PACKETS: f64 = 10.0;
/// More idle time than this part means that the window isn't what limits.
const MAX_IDLE_FRACTION: f64 = 0.03;

impl CompetitiveWindow {
    /// Begins at the rate that the path has or, if that is more, at half of what it had lately: it has yielded to at least one other,
    /// and should not have to catch up.
    pub fn new(bits_per_second: f64, recent_max: f64, sample: &CompetitionSample) -> Self {
        let round_trip = sample.round_trip.as_secs_f64().max(1e-4);
        let window =
            (bits_per_second.max(recent_max / 2.0) / 8.0 * round_trip).max(MIN_WINDOW_SEGMENTS * SEGMENT_BYTES);
        CompetitiveWindow {
            window,
            last_max: window,
            epoch: sample.now,
            epoch_window: window,
            round_trip,
            reduced_at: sample.now,
            packets_then: sample.packets,
            lost_then: sample.lost_packets,
            lost_packets: sample.lost_packets,
            idle_time: sample.idle_time,
            last_sample: sample.now,
            begin: sample.now,
        }
    }

    pub fn bits_per_second(&self) -> f64 {
        self.window * 8.0 / self.round_trip
    }

    /// When it began.
    pub fn begin(&self) -> Time {
        self.begin
    }

    /// Goes on after a time in which nobody else seemed to be there.
    pub fn resume(&mut self, sample: &CompetitionSample) {
        self.epoch += sample.now - self.last_sample;
        (self.begin, self.reduced_at, self.last_sample) = (sample.now, sample.now, sample.now);
        (self.packets_then, self.lost_then) = (sample.packets, sample.lost_packets);
        (self.lost_packets, self.idle_time) = (sample.lost_packets, sample.idle_time);
    }

    /// Takes what a report says.
    pub fn record_sample(&mut self, sample: &CompetitionSample) {
        let round_trip = sample.round_trip.as_secs_f64().max(1e-4);
        self.round_trip += ROUND_TRIP_WEIGHT * (round_trip - self.round_trip);
        let lost = sample.lost_packets > self.lost_packets;
        let (elapsed, idle) = (sample.now - self.last_sample, sample.idle_time - self.idle_time);
        (self.lost_packets, self.idle_time, self.last_sample) = (sample.lost_packets, sample.idle_time, sample.now);
        let is_congested = sample.is_queue_full || self.loses_much(sample);
        if lost && sample.sent > self.reduced_at && is_congested {
            self.reduce(sample);
        } else if idle.as_secs_f64() > MAX_IDLE_FRACTION * elapsed.as_secs_f64() {
            self.epoch += elapsed;
        } else {
            self.grow(sample.now);
        }
    }

    /// Whether so much has been lost since the last reduction that it does not matter why.
    fn loses_much(&self, sample: &CompetitionSample) -> bool {
        let lost = (sample.lost_packets - self.lost_then) as f64;
        lost >= MIN_LOST_PACKETS && lost > MAX_LOSS_RATIO * (sample.packets - self.packets_then) as f64
    }

    fn reduce(&mut self, sample: &CompetitionSample) {
        let now = sample.now;
        (self.packets_then, self.lost_then) = (sample.packets, sample.lost_packets);
        // Fast convergence: who has less than before leaves more to those who begin.
        let converges = self.window < self.last_max;
        self.last_max = if converges { self.window * (1.0 + REDUCTION_FACTOR) / 2.0 } else { self.window };
        self.window = (self.window * REDUCTION_FACTOR).max(MIN_WINDOW_SEGMENTS * SEGMENT_BYTES);
        (self.epoch, self.epoch_window, self.reduced_at) = (now, self.window, now);
    }

    fn grow(&mut self, now: Time) {
        let since = (now - self.epoch).as_secs_f64();
        let segments = (self.last_max - self.epoch_window).max(0.0) / SEGMENT_BYTES;
        let from_max = since + self.round_trip - (segments / CUBIC_SEGMENTS).cbrt();
        let cubic = self.last_max.max(self.epoch_window) + CUBIC_SEGMENTS * from_max.powi(3) * SEGMENT_BYTES;
        let reno = self.epoch_window + RENO_GROWTH * SEGMENT_BYTES * since / self.round_trip;
        self.window = self.window.max(cubic.min(self.window * 1.5)).max(reno);
    }
}

/// Whether what is lost is lost since a buffer overflows: while the queue is about as long as it lately was at most. What the path
/// loses anyway is lost whatever the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OverflowHistory {
    /// This and the one before.
    periods: [OverflowPeriod; 2],
    start: Time,
    lost_packets: i64,
}

#[derive(Debug, Clone, Copy, Default)]
struct OverflowPeriod {
    peak_queue: Span,
    samples: u32,
    full_samples: u32,
    losses: u32,
    full_losses: u32,
}

const OVERFLOW_PERIOD: Span = Span::from_secs(8);
/// A queue of at least this part of the peak is about full.
const FULL_QUEUE_DIVISOR: i64 = 2;
/// If losses were independent of the queue, so many reports of them would be of another queue than a full one, ...
const MIN_EXPECTED_LOSSES: f64 = 12.0;
/// ... of which at most this part was seen: by chance not once in a thousand times.
const MAX_SEEN_FRACTION: f64 = 1.0 / 6.0;

impl OverflowHistory {
    /// Takes what a report says of the queue and of all losses; `counts` if those may be of others' making.
    pub fn record_sample(&mut self, queue: Span, lost_packets: i64, counts: bool, now: Time) {
        if now - self.start > OVERFLOW_PERIOD {
            self.start = now;
            self.periods = [OverflowPeriod::default(), self.periods[0]];
        }
        self.periods[0].peak_queue = self.periods[0].peak_queue.max(queue);
        let (is_full, lost) = (self.is_full(queue), lost_packets > self.lost_packets);
        self.lost_packets = lost_packets;
        let period = &mut self.periods[0];
        period.samples += 1;
        period.full_samples += u32::from(is_full);
        period.losses += u32::from(lost && counts);
        period.full_losses += u32::from(lost && counts && is_full);
    }

    /// Whether a queue is about as long as it lately was at most.
    pub fn is_full(&self, queue: Span) -> bool {
        queue >= self.periods[0].peak_queue.max(self.periods[1].peak_queue) / FULL_QUEUE_DIVISOR
    }

    /// Whether a buffer overflows time and again.
    pub fn overflows(&self) -> bool {
        let sum = |part: fn(&OverflowPeriod) -> u32| self.periods.iter().map(part).sum::<u32>();
        let (losses, full_losses) = (sum(|period| period.losses), sum(|period| period.full_losses));
        let (samples, full_samples) = (sum(|period| period.samples), sum(|period| period.full_samples));
        let expected = f64::from(losses) * f64::from(samples - full_samples) / f64::from(samples.max(1));
        expected >= MIN_EXPECTED_LOSSES && f64::from(losses - full_losses) <= MAX_SEEN_FRACTION * expected
    }

    /// Queues are measured anew.
    pub fn forget_queues(&mut self) {
        self.periods = [OverflowPeriod::default(); 2];
    }

    /// What has been seen of losses is of the past.
    pub fn forget_losses(&mut self) {
        let kept =
            |period: OverflowPeriod| OverflowPeriod { peak_queue: period.peak_queue, ..OverflowPeriod::default() };
        self.periods = self.periods.map(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Span = Span::from_millis(10);

    /// Reports each millisecond of a queue that fills and empties in turn, of which those lose a packet for which `is_lost` says so.
    fn overflows(is_lost: impl Fn(i64, Span) -> bool) -> bool {
        let (mut history, mut lost) = (OverflowHistory::default(), 0);
        (0..7000).any(|millis| {
            let queue = FULL * (millis % 100) / 100;
            lost += i64::from(is_lost(millis, queue));
            history.record_sample(queue, lost, true, Time::ZERO + Span::from_millis(millis));
            history.overflows()
        })
    }

    #[test]
    fn losses_of_a_full_queue_are_told_from_those_of_a_path() {
        assert!(overflows(|_, queue| queue > FULL * 95 / 100));
        assert!(!overflows(|millis, _| millis % 37 == 0), "whatever the queue");
        assert!(!overflows(|_, _| false));
    }

    #[test]
    fn only_what_is_lost_while_the_queue_is_full_reduces_the_window() {
        let sample = |millis, lost_packets, is_queue_full| CompetitionSample {
            now: Time::ZERO + Span::from_millis(millis),
            sent: Time::ZERO + Span::from_millis(millis - 20),
            round_trip: Span::from_millis(40),
            is_queue_full,
            packets: millis as u64,
            lost_packets,
            idle_time: Span::ZERO,
        };
        let mut window = CompetitiveWindow::new(8e6, 0.0, &sample(100, 0, false));
        assert_eq!(window.bits_per_second(), 8e6);
        window.record_sample(&sample(200, 1, false));
        assert!(window.bits_per_second() >= 8e6);
        window.record_sample(&sample(300, 2, true));
        assert!((0.7..0.9).contains(&(window.bits_per_second() / 8e6)));
        let reduced = window.bits_per_second();
        window.record_sample(&sample(310, 3, true));
        assert!(window.bits_per_second() >= reduced, "once in a round trip");
    }
}
