use crate::rate_delay_base::{Base, EmptyDelay};
use kumade_units::{Rate, Span, Time};

/// How long packets wait in the path's own queue: their one-way delay less that of an empty path.
///
/// The delay of an empty path depends on the size of the packet (its serialisation), so that sizes are told apart by the
/// power of two, and on the rate: on a path that has become slower, a packet takes longer without waiting. It is the least delay seen, and follows an empty path that has become longer, or a clock that drifts,
/// by packets which were sent when nothing of ours was queued (*quiet* ones).
#[derive(Debug)]
pub(crate) struct QueueDelay {
    bases: [Base; CLASSES],
    recent: [Span; SMOOTHED],
    next: usize,
    variation: Span,
    last: Option<(Span, Time)>,
    rotated: Time,
    /// By how much the latest sample was below the least so far.
    shortened: Span,
}

const CLASSES: usize = 6;
/// The least of so many samples counts, so that jitter does not pass for a queue.
const SMOOTHED: usize = 3;
const VARIATION_INTERVAL: Span = Span::from_millis(40);
const MAX_SURPRISE: Span = Span::from_millis(2);
const PERIOD: Span = Span::from_secs(4);

impl QueueDelay {
    pub fn new(now: Time) -> Self {
        QueueDelay {
            bases: [Base::default(); CLASSES],
            recent: [Span::ZERO; SMOOTHED],
            next: 0,
            variation: Span::ZERO,
            last: None,
            rotated: now,
            shortened: Span::ZERO,
        }
    }

    /// Takes the one-way delay (with any constant offset) of a packet and returns how long it waited, on a path of about
    /// this capacity.
    pub fn sample(&mut self, delay: Span, size: u32, capacity: Rate, quiet: bool, now: Time) -> Span {
        if now - self.rotated > PERIOD {
            self.rotated = now;
            self.bases.iter_mut().for_each(Base::rotate);
        }
        let alone = self.alone(delay, size, capacity);
        let base = &mut self.bases[class(size)];
        let known = base.least(0, capacity);
        self.shortened = known.map_or(Span::ZERO, |least| (least - alone).max(Span::ZERO));
        if known.is_none_or(|least| alone < least) {
            base.set(EmptyDelay { delay: alone, size, capacity });
        }
        if quiet {
            base.note_quiet(EmptyDelay { delay, size, capacity });
        }
        let least = base.least(size, capacity).unwrap_or(alone);
        let queue = (delay - least).max(Span::ZERO);
        self.recent[self.next] = queue;
        self.next = (self.next + 1) % SMOOTHED;
        self.vary(queue, now);
        queue
    }

    fn vary(&mut self, queue: Span, now: Time) {
        match self.last {
            Some((_, at)) if now - at < VARIATION_INTERVAL => return,
            Some((last, _)) => {
                let change = queue - last;
                // A change that is far out of the usual is none of chance.
                let change = change.max(-change).min(self.variation * 4 + MAX_SURPRISE);
                self.variation += (change - self.variation) / 8;
            }
            None => {}
        }
        self.last = Some((queue, now));
    }

    /// By how much the delay differs, in the mean, from what it was 40 ms before.
    pub fn variation(&self) -> Span {
        self.variation
    }

    /// By how much the empty path is shorter than was believed before the latest sample.
    pub fn shortened(&self) -> Span {
        self.shortened
    }

    /// What the delay would be if nothing waited, as far as a single packet tells. The first of its size may have waited
    /// as others do, but on the empty path it takes no less than a shorter one.
    fn alone(&self, delay: Span, size: u32, capacity: Rate) -> Span {
        let class = class(size);
        if self.bases[class].least(0, capacity).is_some() {
            return delay;
        }
        let shorter = self.bases[..class].iter().filter_map(|base| base.least(0, capacity)).max();
        shorter.map_or(delay, |shorter| (delay - self.queue()).max(shorter)).min(delay)
    }

    /// The least of the latest samples.
    pub fn queue(&self) -> Span {
        self.recent.iter().copied().min().unwrap_or_default()
    }

    /// What was seen of the queue is of the past: it has been drained.
    pub fn drained(&mut self) {
        self.recent = [Span::ZERO; SMOOTHED];
        self.last = None;
    }

    /// The empty path is longer than believed by this.
    pub fn raise_base(&mut self, raise: Span) {
        self.bases.iter_mut().for_each(|base| base.raise(raise));
        self.drained();
    }

    /// One-way delay of a full packet on the empty path, with the clocks' offset.
    pub fn base(&self, capacity: Rate) -> Option<Span> {
        self.bases.iter().rev().find_map(|base| base.least(0, capacity))
    }
}

/// 0 below 128 bytes, 1 below 256, and so on.
fn class(size: u32) -> usize {
    (size.max(1).ilog2().saturating_sub(6) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbit(2);

    fn at(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn ms(millis: i64) -> Span {
        Span::from_millis(millis)
    }

    #[test]
    fn a_large_packet_does_not_wait_because_it_takes_longer_and_jitter_is_no_queue() {
        let mut delays = QueueDelay::new(at(0));
        let offset = -Span::from_secs(1000);
        assert_eq!(delays.sample(offset + ms(10), 64, RATE, true, at(0)), ms(0));
        assert_eq!(delays.sample(offset + ms(16), 1500, RATE, true, at(1)), ms(0));
        assert_eq!(delays.sample(offset + ms(19), 1500, RATE, false, at(2)), ms(3));
        assert_eq!((delays.queue(), delays.base(RATE)), (ms(0), Some(offset + ms(16))));
        delays.sample(offset + ms(14), 64, RATE, false, at(3));
        delays.sample(offset + ms(21), 1500, RATE, false, at(4));
        assert_eq!(delays.queue(), ms(3));
    }

    #[test]
    fn a_packet_does_not_wait_because_the_path_has_become_slower() {
        let mut delays = QueueDelay::new(at(0));
        delays.sample(ms(16), 1500, RATE, false, at(0));
        let slower = Rate::from_mbit(1);
        assert_eq!(delays.sample(ms(22), 1500, slower, false, at(1)), ms(0));
        assert_eq!(delays.sample(ms(25), 1500, slower, false, at(2)), ms(3));
        assert_eq!(delays.sample(ms(18), 1500, slower, false, at(3)), ms(0));
        assert_eq!(delays.base(slower), Some(ms(18)), "others only leave less of it");
        assert_eq!(delays.sample(ms(18), 1500, RATE, false, at(4)), ms(0));
    }

    #[test]
    fn the_base_follows_quiet_packets_only() {
        let mut delays = QueueDelay::new(at(0));
        for n in 0..200 {
            delays.sample(ms(10 + n / 20), 1500, RATE, false, at(n * 100));
        }
        assert_eq!(delays.base(RATE), Some(ms(10)));
        for n in 200..300 {
            delays.sample(ms(20), 1500, RATE, true, at(n * 100));
        }
        assert_eq!((delays.base(RATE), delays.queue()), (Some(ms(20)), ms(0)));
    }
}
