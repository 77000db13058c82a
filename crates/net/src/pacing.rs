//! Meeting planned instants to a fraction of a microsecond without real-time priority.
//!
//! A sleeping thread is woken 30 µs late even at the finest timer slack, a spinning one not at all: so sleep until
//! shortly before the instant and spin through the rest.

use crate::clock;
use crate::low_latency::LowLatencyGuard;
use kumade_units::{Span, Time};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::hint::spin_loop;

/// Spinning begins this long before the instant: more than nearly all wake-ups are late.
const SPIN_TIME: Span = Span::from_micros(70);

/// Waits for the instants of a plan, given as offsets from its start. While it lives, its thread has the settings of a
/// [`LowLatencyGuard`]; it must stay on that thread.
#[derive(Debug)]
pub struct Pacer {
    start: Time,
    _low_latency: LowLatencyGuard,
}

impl Pacer {
    /// A plan whose offset zero is `lead` from now.
    pub fn starting_in(lead: Span) -> Self {
        Pacer { _low_latency: LowLatencyGuard::new(), start: clock::monotonic() + lead }
    }

    /// How long it is until `offset`; negative where that has passed.
    pub fn remaining(&self, offset: Span) -> Span {
        self.start + offset - clock::monotonic()
    }

    /// The instant of `offset` by [`clock::monotonic`].
    pub fn instant_at(&self, offset: Span) -> Time {
        self.start + offset
    }

    /// Returns at `offset`, or at once where that has passed: lateness is never made up for by changing the plan.
    pub fn wait_until(&self, offset: Span) {
        let instant = self.start + offset;
        if instant - clock::monotonic() > SPIN_TIME {
            sleep_until(instant - SPIN_TIME);
        }
        while clock::monotonic() < instant {
            spin_loop();
        }
    }
}

/// Sleeps until `instant` by [`clock::monotonic`]; a signal may end it early.
pub fn sleep_until(instant: Time) {
    let nanos = instant.as_nanos().max(0);
    let at = TimeSpec::new(nanos / 1_000_000_000, nanos % 1_000_000_000);
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::prctl::get_timerslack;

    #[test]
    fn never_returns_early_and_passed_instants_do_not_wait() {
        let pacer = Pacer::starting_in(Span::from_micros(200));
        for step in 0..20 {
            let offset = Span::from_micros(150 * step);
            pacer.wait_until(offset);
            assert!(pacer.remaining(offset) <= Span::ZERO);
        }
        let before = clock::monotonic();
        pacer.wait_until(Span::from_secs(-3600));
        assert!(clock::monotonic() - before < Span::from_secs(60));
    }

    #[test]
    fn timer_slack_is_given_back() {
        let before = get_timerslack().unwrap();
        let pacer = Pacer::starting_in(Span::ZERO);
        assert_eq!(get_timerslack().unwrap(), 1);
        drop(pacer);
        assert_eq!(get_timerslack().unwrap(), before);
    }
}
