//! The system's clocks, read in nanoseconds.

use kumade_units::{Span, Time};
use nix::libc;
use nix::time::{ClockId, clock_gettime};
use std::mem;

/// CLOCK_MONOTONIC: runs steadily; for deadlines and intervals.
pub fn monotonic() -> Time {
    read_clock(ClockId::CLOCK_MONOTONIC)
}

/// CLOCK_BOOTTIME: as [`monotonic`], and runs while the host is suspended; for deadlines that another host counts, too.
pub fn boottime() -> Time {
    read_clock(ClockId::CLOCK_BOOTTIME)
}

/// CLOCK_REALTIME: the clock of the kernel's packet stamps; it may be set or slewed.
pub fn realtime() -> Time {
    #[cfg(feature = "fault-injection")]
    return read_clock(ClockId::CLOCK_REALTIME) + crate::fault_injection::clock_step();
    #[cfg(not(feature = "fault-injection"))]
    read_clock(ClockId::CLOCK_REALTIME)
}

/// Smaller steps of the clock may be unsteady readings.
const MIN_STEP: Span = Span::from_micros(100);
/// Readings of both clocks, of which the closest to each other count.
const CLOCK_READINGS: u32 = 5;

/// By how much [`realtime`] was ahead of [`monotonic`] at some time. That changes only when the clock is set: whoever slews it
/// slews both.
#[derive(Debug, Clone, Copy)]
pub struct RealtimeOffset(Span);

impl RealtimeOffset {
    /// At present.
    pub fn now() -> Self {
        let reading = || {
            let before = monotonic();
            let wall = realtime();
            let between = monotonic() - before;
            (between, wall - (before + between / 2))
        };
        let (_, lead) = (0..CLOCK_READINGS).map(|_| reading()).min().unwrap_or_else(reading);
        RealtimeOffset(lead)
    }

    /// By how much the clock has been set since then; none if it has not, or by less than 100 µs.
    pub fn step_since(self) -> Option<Span> {
        let step = Self::now().0 - self.0;
        (step.max(-step) >= MIN_STEP).then_some(step)
    }
}

/// By how much [`realtime`] may be wrong at most, as the kernel was told by whatever keeps the clock (`maxerror` of
/// adjtimex(2)); none where the clock is not synchronised, or whatever keeps it states no errors: systemd-timesyncd sets both
/// the maximum and the estimated error to zero whenever it adjusts the clock, and the kernel lets only the maximum grow.
pub fn maximum_error() -> Option<Span> {
    // SAFETY: timex is plain data, for which all zeroes is a valid value: `modes` of zero only asks.
    let mut state: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the kernel fills in the struct, which is alive and of its kind.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    let is_synchronised = answer >= 0 && answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    if is_synchronised { stated_error(state.maxerror, state.esterror) } else { None }
}

/// The maximum error in microseconds, where it and the estimated one were stated.
fn stated_error(maximum: i64, estimated: i64) -> Option<Span> {
    (maximum > 0 && estimated > 0).then(|| Span::from_micros(maximum))
}

fn read_clock(clock: ClockId) -> Time {
    // Linux refuses neither clock, so the fallback is never taken.
    clock_gettime(clock).map_or(Time::ZERO, |t| Time::from_nanos(t.tv_sec() * 1_000_000_000 + t.tv_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_makes_no_step() {
        let lead = RealtimeOffset::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(lead.step_since(), None);
    }

    #[test]
    fn errors_that_nobody_stated_bound_nothing() {
        // As chrony and ntpd set them, and as systemd-timesyncd leaves them at once and after half a minute.
        assert_eq!(stated_error(2_300, 120), Some(Span::from_micros(2_300)));
        assert_eq!(stated_error(0, 0), None);
        assert_eq!(stated_error(16_000, 0), None);
    }
}
