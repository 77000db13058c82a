use kumade_net::clock::{monotonic, realtime};
use kumade_units::{Span, Time};
use std::array;

/// The time of the kernel's packet stamps (CLOCK_REALTIME), as it would be had nobody set that clock since the start.
/// Packets under way would otherwise come out an hour late where the clock is set back by an hour.
#[derive(Debug)]
pub struct StampClock {
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, at the start and at the last look. Both clocks are slewed alike.
    offset_at_start: Span,
    offset: Span,
}

/// Two readings of the offset differ by no more, unless the clock was set in between.
const MIN_CLOCK_STEP: Span = Span::from_micros(100);

impl Default for StampClock {
    fn default() -> Self {
        Self::new()
    }
}

impl StampClock {
    /// Begins with what the system's clock shows now.
    pub fn new() -> Self {
        let offset = current_offset();
        StampClock { offset_at_start: offset, offset }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        monotonic() + self.offset_at_start
    }

    /// The time that a stamp of the kernel stands for; never later than now. `past` is a time that has passed: only where
    /// the stamp is later must the clock be read.
    pub fn from_stamp(&self, stamp: Time, past: Time) -> Time {
        let time = stamp - (self.offset - self.offset_at_start);
        if time <= past { time } else { time.min(self.now()) }
    }

    /// The same instant by [`kumade_net::clock::monotonic`], as a [turn](crate::Shard::process) returns it.
    pub fn to_monotonic(&self, time: Time) -> Time {
        time - self.offset_at_start
    }

    /// Checks whether the system's clock was set. To be called every now and then: stamps taken between a step of the clock
    /// and this call are off by the step.
    pub fn check_for_step(&mut self) {
        self.update_offset(current_offset());
    }

    fn update_offset(&mut self, offset: Span) {
        let step = offset - self.offset;
        if step > MIN_CLOCK_STEP || step < -MIN_CLOCK_STEP {
            tracing::info!("the system's clock was set by {step}; packets under way are not affected");
            self.offset = offset;
        }
    }
}

/// A reading is too low where the thread is interrupted in the middle of it, so the highest of several is the best.
fn current_offset() -> Span {
    let readings: [Span; 5] = array::from_fn(|_| realtime() - monotonic());
    readings.into_iter().fold(Span::from_nanos(i64::MIN), Span::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_the_system_clock_changes_nothing() {
        let mut clock = StampClock::new();
        for hours in [-1, 3] {
            let step = Span::from_secs(hours * 3600);
            let (before, offset) = (clock.now(), clock.offset);
            let stamp = before + (offset - clock.offset_at_start) + step;
            clock.update_offset(offset + step);
            let now = clock.now();
            assert!(now >= before && now - before < Span::from_secs(60), "{before:?} {now:?}");
            assert_eq!(clock.from_stamp(stamp, now), before);
            // Two readings are never of the same moment.
            clock.update_offset(offset + step + Span::from_micros(30));
            assert_eq!(clock.from_stamp(stamp, now), before);
        }
    }

    #[test]
    fn no_stamp_is_later_than_now() {
        let clock = StampClock::new();
        // The clock was set forward, and nobody has looked yet.
        assert!(clock.from_stamp(realtime() + Span::from_secs(3600), Time::ZERO) <= clock.now());
    }

    #[test]
    fn deadlines_are_on_the_monotonic_clock() {
        let clock = StampClock::new();
        let before = monotonic();
        let now = clock.to_monotonic(clock.now());
        assert!(before <= now && now <= monotonic());
    }
}
