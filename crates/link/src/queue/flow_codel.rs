use kumade_units::{Span, Time};

/// Keeps the queueing delay of one flow near a target: a CoDel (RFC 8289) whose interval depends on the flow. The longer a
/// flow has kept no queue since it last had to pay, the longer it takes to come back, as on a long path, and the longer
/// it may keep one before it pays again; else it would get less than its share.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowCoDel {
    /// When it has to pay next, unless its delay falls below the target before that; [`Time::MAX`] while it is below.
    next_signal: Time,
    /// When it last came below the target after it had paid.
    below_target_since: Time,
    interval_micros: u32,
    /// How often it has paid since its delay was last below the target.
    signal_count: u32,
}

/// The interval is never shorter than this part of the window.
pub(super) const SHORTEST_GAP_DIVISOR: i64 = 5;
/// What of the time without a queue is the interval.
const REST_DIVISOR: i64 = 4;

impl Default for FlowCoDel {
    fn default() -> Self {
        FlowCoDel { next_signal: Time::MAX, below_target_since: Time::ZERO, interval_micros: 0, signal_count: 0 }
    }
}

impl FlowCoDel {
    /// The delay is below the target, or nothing of the flow waits.
    pub(super) fn below_target(&mut self, now: Time) {
        if self.signal_count > 0 {
            self.below_target_since = now;
            self.signal_count = 0;
        }
        self.next_signal = Time::MAX;
    }

    /// The delay is above the target: whether the packet that leaves now is to be dropped or marked, unless the flow is
    /// spared so far. The interval is at most `window`.
    pub(super) fn above_target(&mut self, now: Time, window: Span, spared: bool) -> bool {
        if self.next_signal == Time::MAX {
            let rest = if self.below_target_since > Time::ZERO { now - self.below_target_since } else { Span::ZERO };
            let interval = (rest / REST_DIVISOR).min(window).max(window / SHORTEST_GAP_DIVISOR);
            self.interval_micros = u32::try_from(interval.as_nanos() / 1000).unwrap_or(u32::MAX);
            self.next_signal = now + self.signal_interval();
        }
        if now < self.next_signal || spared {
            return false;
        }
        // The first time may be later than it was due.
        let from = if self.signal_count == 0 { now } else { self.next_signal };
        self.signal_count = self.signal_count.saturating_add(1);
        self.next_signal = from + self.signal_interval();
        true
    }

    /// How often it has paid since its delay was last below the target.
    pub(super) fn signal_count(&self) -> u32 {
        self.signal_count
    }

    /// Whether it has had to pay, and was above the target, at or after this time.
    pub(super) fn was_signalled_since(&self, time: Time) -> bool {
        self.signal_count > 0 || (self.below_target_since > Time::ZERO && self.below_target_since >= time)
    }

    /// Until it next has to pay: as CoDel's, by the inverse square root of how often it has paid.
    fn signal_interval(&self) -> Span {
        // The machine's square root is exact to the last bit (IEEE 754), thus the same everywhere.
        let micros = f64::from(self.interval_micros) / f64::from(self.signal_count.max(1)).sqrt();
        Span::from_nanos((micros * 1e3) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_millis(500);

    fn millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// When it pays, if its delay is above the target from one moment to the other.
    fn payments(control: &mut FlowCoDel, from: i64, to: i64) -> Vec<i64> {
        (from..to).filter(|now| control.above_target(millis(*now), WINDOW, false)).collect()
    }

    #[test]
    fn it_pays_after_an_interval_and_then_ever_more_often() {
        let mut control = FlowCoDel::default();
        assert_eq!(payments(&mut control, 10, 400), [110, 210, 281, 339, 389]);
        // Less than an interval above the target costs nothing.
        control.below_target(millis(400));
        assert!(payments(&mut control, 401, 500).is_empty());
    }

    #[test]
    fn who_was_long_without_a_queue_may_keep_one_for_longer_but_not_beyond_the_window() {
        for (rest, interval) in [(100, 100), (1200, 300), (10_000, 500)] {
            let mut control = FlowCoDel::default();
            payments(&mut control, 1, 150);
            control.below_target(millis(150));
            let paid = payments(&mut control, 150 + rest, 150 + rest + 600);
            assert_eq!(paid.first(), Some(&(150 + rest + interval)), "{rest}");
        }
    }
}
