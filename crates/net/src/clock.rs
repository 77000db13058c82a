//! The system's clocks, read in nanoseconds.

#[cfg_attr(not(target_os = "linux"), path = "portable/clock.rs")]
mod system;

pub use system::{boottime, maximum_error, monotonic};

use kumade_units::{Span, Time};

/// CLOCK_REALTIME: the clock of the kernel's packet stamps; it may be set or slewed.
pub fn realtime() -> Time {
    #[cfg(all(feature = "fault-injection", target_os = "linux"))]
    return system::realtime() + crate::fault_injection::clock_step();
    #[cfg(not(all(feature = "fault-injection", target_os = "linux")))]
    system::realtime()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_makes_no_step() {
        let lead = RealtimeOffset::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(lead.step_since(), None);
    }
}
