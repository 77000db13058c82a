//! COBALT: CoDel and BLUE on one queue (Palmei and others 2019; Høiland-Jørgensen, Täht and Morton 2018, section III-A). CoDel
//! signals to flows that react; BLUE (Feng and others 2002) drops more and more of those that don't.

use kumade_units::{Rate, Span, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// What all queues of a tin have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct CobaltParameters {
    interval: Span,
    target: Span,
    /// How long a full packet takes.
    mtu_time: Span,
}

/// The state of one queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cobalt {
    /// How often CoDel signals: it comes down again as slowly as it went up.
    count: u32,
    is_dropping: bool,
    /// When CoDel signals next, or when its count comes down.
    next: Time,
    /// BLUE's.
    drop_probability: f64,
    blue_changed: Time,
}

/// What becomes of a packet that leaves its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    None,
    /// Mark it, or else drop it.
    Congestion,
    /// Drop it: its flow does not react.
    Drop,
}

/// A full Ethernet frame.
const MTU_BYTES: u64 = 1514;
/// CoDel's target is this part of the round-trip time.
const TARGET_DIVISOR: i64 = 20;
/// BLUE is up by this for each target in which the queue overflows, …
const BLUE_INCREASE: f64 = 1.0 / 256.0;
/// … and down by this for each in which it is empty.
const BLUE_DECREASE: f64 = 1.0 / 4096.0;
/// Long before anything.
const LONG_AGO: Time = Time::from_nanos(i64::MIN / 4);

impl CobaltParameters {
    /// For a tin of this rate: a slow one has to hold some packets.
    pub(super) fn new(rtt: Span, rate: Option<Rate>) -> Self {
        let mtu_time = rate.map_or(Span::ZERO, |rate| rate.time_for(MTU_BYTES));
        let usual = rtt / TARGET_DIVISOR;
        let target = usual.max(mtu_time * 3 / 2);
        CobaltParameters { interval: (rtt + target - usual).max(target * 2), target, mtu_time }
    }

    /// The k-th signal follows the one before after `interval / √k`.
    fn step(&self, count: u32) -> Span {
        // The machine's square root is exact to the last bit (IEEE 754), thus the same everywhere.
        let nanos = self.interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
        // A step that takes no time would never end.
        Span::from_nanos((nanos as i64).max(1))
    }
}

impl Default for Cobalt {
    fn default() -> Self {
        Cobalt { count: 0, is_dropping: false, next: LONG_AGO, drop_probability: 0.0, blue_changed: LONG_AGO }
    }
}

impl Cobalt {
    /// A packet of this queue was dropped because all are full.
    pub(super) fn overflow(&mut self, parameters: &CobaltParameters, now: Time) {
        if now - self.blue_changed > parameters.target {
            self.drop_probability = (self.drop_probability + BLUE_INCREASE).min(1.0);
            self.blue_changed = now;
        }
        (self.is_dropping, self.next, self.count) = (true, now, self.count.max(1));
    }

    /// Nothing of the queue has waited from `since` to `now`.
    pub(super) fn rest(&mut self, parameters: &CobaltParameters, since: Time, now: Time) {
        self.is_dropping = false;
        if self.drop_probability > 0.0 {
            let from = self.blue_changed.max(since - parameters.target);
            let steps = (now - from).as_nanos() / parameters.target.as_nanos().max(1);
            if steps > 0 {
                self.drop_probability = (self.drop_probability - steps as f64 * BLUE_DECREASE).max(0.0);
                self.blue_changed = from + parameters.target * steps;
            }
        }
        self.come_down(parameters, now);
    }

    fn come_down(&mut self, parameters: &CobaltParameters, now: Time) {
        while self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next += parameters.step(self.count);
        }
    }

    /// What becomes of a packet that leaves now, after this time in its queue.
    pub(super) fn signal(
        &mut self,
        parameters: &CobaltParameters,
        now: Time,
        sojourn: Span,
        rng: &mut Pcg64Mcg,
    ) -> Signal {
        let is_late = sojourn > parameters.target && sojourn > parameters.mtu_time * 4;
        let is_due = self.count > 0 && now >= self.next;
        if is_late && !self.is_dropping {
            self.next = now + parameters.step(self.count);
        }
        self.is_dropping = is_late;
        self.count = if is_late { self.count.max(1) } else { self.count };
        let mut signal = Signal::None;
        if is_due && is_late {
            signal = Signal::Congestion;
            self.count = self.count.saturating_add(1);
            self.next += parameters.step(self.count);
        } else if is_due {
            self.come_down(parameters, now);
        }
        if self.drop_probability > 0.0 && rng.random::<f64>() < self.drop_probability {
            signal = Signal::Drop;
        }
        if self.count == 0 {
            self.next = now + parameters.interval;
        } else if now > self.next && signal == Signal::None {
            self.next = now;
        }
        signal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn parameters() -> CobaltParameters {
        CobaltParameters::new(Span::from_millis(100), Some(Rate::from_mbit(100)))
    }

    /// When packets get a signal that leave each millisecond after 50 ms of waiting.
    fn signals(cobalt: &mut Cobalt, from: i64, to: i64) -> Vec<i64> {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let late = Span::from_millis(50);
        (from..to).filter(|now| cobalt.signal(&parameters(), millis(*now), late, &mut rng) != Signal::None).collect()
    }

    #[test]
    fn codel_signals_after_an_interval_and_then_more_often() {
        let mut cobalt = Cobalt::default();
        // 100, 100/√2, 100/√3, 100/2 ms apart.
        assert_eq!(signals(&mut cobalt, 10, 400), [110, 181, 239, 289, 334, 374]);
        let count = cobalt.count;
        // It comes down as it went up, and sooner signals again.
        cobalt.rest(&parameters(), millis(400), millis(500));
        assert!(cobalt.count < count && cobalt.count > 2, "{count} {}", cobalt.count);
        cobalt.rest(&parameters(), millis(400), millis(5000));
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn blue_rises_by_overflows_and_falls_by_rest() {
        let mut cobalt = Cobalt::default();
        // Once in each target.
        (0..100).for_each(|now| cobalt.overflow(&parameters(), millis(now)));
        let risen = cobalt.drop_probability * 256.0;
        assert!((16.0..=20.0).contains(&risen), "{risen}");
        cobalt.rest(&parameters(), millis(100), millis(180));
        // 80 ms are 16 targets, and one before.
        let fallen = risen / 256.0 - cobalt.drop_probability;
        assert!((fallen * 4096.0 - 16.0).abs() <= 1.0, "{}", fallen * 4096.0);
        cobalt.rest(&parameters(), millis(180), millis(30_000));
        assert_eq!(cobalt.drop_probability, 0.0);
    }

    #[test]
    fn a_slow_tin_may_hold_some_packets() {
        let slow = CobaltParameters::new(Span::from_millis(100), Some(Rate::from_bits_per_second(1_000_000)));
        // A packet takes 12.1 ms.
        assert_eq!(slow.target, Span::from_micros(18_168));
        assert_eq!(slow.interval, Span::from_micros(113_168));
        assert_eq!((parameters().target, parameters().interval), (Span::from_millis(5), Span::from_millis(100)));
    }
}
