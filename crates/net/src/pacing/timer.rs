pub(super) use crate::low_latency::LowLatencyGuard;

use kumade_units::{Span, Time};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

/// Spinning begins this long before the instant: more than nearly all wake-ups are late, which are 30 µs even at the finest timer slack.
pub(super) const SPIN_TIME: Span = Span::from_micros(70);

/// Sleeps until `instant` by [`clock::monotonic`](crate::clock::monotonic); a signal may end it early.
pub fn sleep_until(instant: Time) {
    let nanos = instant.as_nanos().max(0);
    let at = TimeSpec::new(nanos / 1_000_000_000, nanos % 1_000_000_000);
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

#[cfg(test)]
mod tests {
    use crate::pacing::Pacer;
    use kumade_units::Span;
    use nix::sys::prctl::get_timerslack;

    #[test]
    fn timer_slack_is_given_back() {
        let before = get_timerslack().unwrap();
        let pacer = Pacer::starting_in(Span::ZERO);
        assert_eq!(get_timerslack().unwrap(), 1);
        drop(pacer);
        assert_eq!(get_timerslack().unwrap(), before);
    }
}
