//! The system's two clocks, read in nanoseconds.

use nix::time::{ClockId, clock_gettime};
use units::Time;

/// CLOCK_MONOTONIC: runs steadily; for deadlines and intervals.
pub fn monotonic() -> Time {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME: the clock of the kernel's packet stamps; it may be set or slewed.
pub fn realtime() -> Time {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> Time {
    // Linux refuses neither clock, so the fallback is never taken.
    clock_gettime(clock).map_or(Time::ZERO, |t| Time::from_nanos(t.tv_sec() * 1_000_000_000 + t.tv_nsec()))
}
