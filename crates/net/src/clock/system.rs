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

pub(super) fn realtime() -> Time {
    read_clock(ClockId::CLOCK_REALTIME)
}

/// By how much [`realtime`](super::realtime) may be wrong at most, as the kernel was told by whatever keeps the clock (`maxerror` of
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
    fn errors_that_nobody_stated_bound_nothing() {
        // As chrony and ntpd set them, and as systemd-timesyncd leaves them at once and after half a minute.
        assert_eq!(stated_error(2_300, 120), Some(Span::from_micros(2_300)));
        assert_eq!(stated_error(0, 0), None);
        assert_eq!(stated_error(16_000, 0), None);
    }
}
