use net::clock::{monotonic, realtime};
use std::array;
use units::{Span, Time};

/// The time of a bridge: that of the kernel's stamps, CLOCK_REALTIME, as it would be had nobody set that since the
/// start. What is on its way would otherwise come out an hour late where the clock is set back by an hour.
#[derive(Debug)]
pub(super) struct Clock {
    /// The system's clock less the steady one, at the start and now. Whoever slews the one slews the other as well.
    began: Span,
    apart: Span,
}

/// Two readings are taken to differ by no more, unless the clock was set in between.
const STEP: Span = Span::from_micros(100);

impl Clock {
    pub(super) fn new() -> Self {
        let apart = difference();
        Clock { began: apart, apart }
    }

    pub(super) fn now(&self) -> Time {
        monotonic() + self.began
    }

    /// When something was that the kernel has stamped; no later than now, and it was `past` a while ago: few packets need
    /// the clock read again.
    pub(super) fn stamped(&self, stamp: Time, past: Time) -> Time {
        let time = stamp - (self.apart - self.began);
        if time <= past { time } else { time.min(self.now()) }
    }

    /// What the system's clock will show then, unless it is set.
    pub(super) fn shown(&self, time: Time) -> Time {
        time + (self.apart - self.began)
    }

    /// Looks whether the system's clock was set.
    pub(super) fn look(&mut self) {
        self.compare(difference());
    }

    fn compare(&mut self, apart: Span) {
        let set_by = apart - self.apart;
        if set_by > STEP || set_by < -STEP {
            tracing::info!("the system's clock was set by {set_by}; the link goes on");
            self.apart = apart;
        }
    }
}

/// The system's clock less the steady one, or less where this thread is held up in between: the greatest is the truest.
fn difference() -> Span {
    let readings: [Span; 5] = array::from_fn(|_| realtime() - monotonic());
    readings.into_iter().fold(Span::from_nanos(i64::MIN), Span::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        let mut clock = Clock::new();
        for hours in [-1, 3] {
            let set_by = Span::from_secs(hours * 3600);
            let (before, apart) = (clock.now(), clock.apart);
            let stamp = clock.shown(before) + set_by;
            clock.compare(apart + set_by);
            let now = clock.now();
            assert!(now >= before && now - before < Span::from_secs(60), "{before:?} {now:?}");
            assert_eq!((clock.stamped(stamp, now), clock.shown(before)), (before, stamp));
            // Two readings are never of the same moment.
            clock.compare(apart + set_by + Span::from_micros(30));
            assert_eq!(clock.shown(before), stamp);
        }
    }

    #[test]
    fn nothing_was_stamped_later_than_now() {
        let clock = Clock::new();
        // The clock was set forward, and nobody has looked yet.
        assert!(clock.stamped(realtime() + Span::from_secs(3600), Time::ZERO) <= clock.now());
    }
}
