use crate::congestion_control::base_delay::{BaseDelay, EmptyDelay};
use kumade_units::{Rate, Span, Time};

/// How long packets wait in the path's own queue: their one-way delay less that of an empty path.
///
/// The delay of an empty path depends on the size of the packet (its serialisation), so that sizes are told apart by the
/// power of two, and on the rate: on a path that has become slower, a packet takes longer without waiting. It is the least delay seen, and follows an empty path that has become longer, or a clock that drifts,
/// by packets which were sent when nothing of ours was queued (*quiet* ones).
#[derive(Debug)]
pub(crate) struct QueueDelay {
    base_delays: [BaseDelay; SIZE_CLASSES],
    recent_queue_delays: [Span; SMOOTHED_SAMPLES],
    next_index: usize,
    variation: Span,
    last_variation_sample: Option<(Span, Time)>,
    period_start: Time,
    /// By how much the latest sample was below the least so far.
    base_reduction: Span,
}

const SIZE_CLASSES: usize = 6;
/// The least of so many samples counts, so that jitter does not pass for a queue.
const SMOOTHED_SAMPLES: usize = 3;
const VARIATION_INTERVAL: Span = Span::from_millis(40);
const CLIPPING_MARGIN: Span = Span::from_millis(2);
const MIN_FILTER_PERIOD: Span = Span::from_secs(4);

impl QueueDelay {
    pub fn new(now: Time) -> Self {
        QueueDelay {
            base_delays: [BaseDelay::default(); SIZE_CLASSES],
            recent_queue_delays: [Span::ZERO; SMOOTHED_SAMPLES],
            next_index: 0,
            variation: Span::ZERO,
            last_variation_sample: None,
            period_start: now,
            base_reduction: Span::ZERO,
        }
    }

    /// Takes the one-way delay (with any constant offset) of a packet and returns how long it waited, on a path of about
    /// this capacity.
    pub fn record_sample(&mut self, delay: Span, size: u32, capacity: Rate, quiet: bool, now: Time) -> Span {
        if now - self.period_start > MIN_FILTER_PERIOD {
            self.period_start = now;
            self.base_delays.iter_mut().for_each(BaseDelay::rotate_period);
        }
        let alone = self.delay_without_serialization(delay, size, capacity);
        let base = &mut self.base_delays[size_class(size)];
        let known = base.min_delay(0, capacity);
        self.base_reduction = known.map_or(Span::ZERO, |least| (least - alone).max(Span::ZERO));
        if known.is_none_or(|least| alone < least) {
            base.set_delay(EmptyDelay { delay: alone, size, capacity });
        }
        if quiet {
            base.record_quiet(EmptyDelay { delay, size, capacity });
        }
        let least = base.min_delay(size, capacity).unwrap_or(alone);
        let queue = (delay - least).max(Span::ZERO);
        self.recent_queue_delays[self.next_index] = queue;
        self.next_index = (self.next_index + 1) % SMOOTHED_SAMPLES;
        self.update_variation(queue, now);
        queue
    }

    fn update_variation(&mut self, queue: Span, now: Time) {
        match self.last_variation_sample {
            Some((_, at)) if now - at < VARIATION_INTERVAL => return,
            Some((last, _)) => {
                let change = queue - last;
                // A change that is far out of the usual is none of chance.
                let change = change.max(-change).min(self.variation * 4 + CLIPPING_MARGIN);
                self.variation += (change - self.variation) / 8;
            }
            None => {}
        }
        self.last_variation_sample = Some((queue, now));
    }

    /// By how much the delay differs, in the mean, from what it was 40 ms before.
    pub fn variation(&self) -> Span {
        self.variation
    }

    /// By how much the empty path is shorter than was believed before the latest sample.
    pub fn delay_decrease(&self) -> Span {
        self.base_reduction
    }

    /// What the delay would be if nothing waited, as far as a single packet tells. The first of its size may have waited
    /// as others do, but on the empty path it takes no less than a shorter one.
    fn delay_without_serialization(&self, delay: Span, size: u32, capacity: Rate) -> Span {
        let class = size_class(size);
        if self.base_delays[class].min_delay(0, capacity).is_some() {
            return delay;
        }
        let shorter = self.base_delays[..class].iter().filter_map(|base| base.min_delay(0, capacity)).max();
        shorter.map_or(delay, |shorter| (delay - self.queue_delay()).max(shorter)).min(delay)
    }

    /// The least of the latest samples.
    pub fn queue_delay(&self) -> Span {
        self.recent_queue_delays.iter().copied().min().unwrap_or_default()
    }

    /// What was seen of the queue is of the past: it has been drained.
    pub fn queue_drained(&mut self) {
        self.recent_queue_delays = [Span::ZERO; SMOOTHED_SAMPLES];
        self.last_variation_sample = None;
    }

    /// The empty path is longer than believed by this.
    pub fn raise_base(&mut self, raise: Span) {
        self.base_delays.iter_mut().for_each(|base| base.raise_delay(raise));
        self.queue_drained();
    }

    /// One-way delay of a full packet on the empty path, with the clocks' offset.
    pub fn base_delay(&self, capacity: Rate) -> Option<Span> {
        self.base_delays.iter().rev().find_map(|base| base.min_delay(0, capacity))
    }
}

/// 0 below 128 bytes, 1 below 256, and so on.
fn size_class(size: u32) -> usize {
    (size.max(1).ilog2().saturating_sub(6) as usize).min(SIZE_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbit(2);

    fn time_at_millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn ms(millis: i64) -> Span {
        Span::from_millis(millis)
    }

    #[test]
    fn a_large_packet_does_not_wait_because_it_takes_longer_and_jitter_is_no_queue() {
        let mut delays = QueueDelay::new(time_at_millis(0));
        let offset = -Span::from_secs(1000);
        assert_eq!(delays.record_sample(offset + ms(10), 64, RATE, true, time_at_millis(0)), ms(0));
        assert_eq!(delays.record_sample(offset + ms(16), 1500, RATE, true, time_at_millis(1)), ms(0));
        assert_eq!(delays.record_sample(offset + ms(19), 1500, RATE, false, time_at_millis(2)), ms(3));
        assert_eq!((delays.queue_delay(), delays.base_delay(RATE)), (ms(0), Some(offset + ms(16))));
        delays.record_sample(offset + ms(14), 64, RATE, false, time_at_millis(3));
        delays.record_sample(offset + ms(21), 1500, RATE, false, time_at_millis(4));
        assert_eq!(delays.queue_delay(), ms(3));
    }

    #[test]
    fn a_packet_does_not_wait_because_the_path_has_become_slower() {
        let mut delays = QueueDelay::new(time_at_millis(0));
        delays.record_sample(ms(16), 1500, RATE, false, time_at_millis(0));
        let slower = Rate::from_mbit(1);
        assert_eq!(delays.record_sample(ms(22), 1500, slower, false, time_at_millis(1)), ms(0));
        assert_eq!(delays.record_sample(ms(25), 1500, slower, false, time_at_millis(2)), ms(3));
        assert_eq!(delays.record_sample(ms(18), 1500, slower, false, time_at_millis(3)), ms(0));
        assert_eq!(delays.base_delay(slower), Some(ms(18)), "others only leave less of it");
        assert_eq!(delays.record_sample(ms(18), 1500, RATE, false, time_at_millis(4)), ms(0));
    }

    #[test]
    fn the_base_follows_quiet_packets_only() {
        let mut delays = QueueDelay::new(time_at_millis(0));
        for n in 0..200 {
            delays.record_sample(ms(10 + n / 20), 1500, RATE, false, time_at_millis(n * 100));
        }
        assert_eq!(delays.base_delay(RATE), Some(ms(10)));
        for n in 200..300 {
            delays.record_sample(ms(20), 1500, RATE, true, time_at_millis(n * 100));
        }
        assert_eq!((delays.base_delay(RATE), delays.queue_delay()), (Some(ms(20)), ms(0)));
    }
}
