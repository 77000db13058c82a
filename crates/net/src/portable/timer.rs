use crate::clock;
use kumade_units::{Span, Time};
use std::thread;

/// The timers of Windows are a millisecond late and more (`Sleep` of its API), also those of high resolution, which the standard library
/// uses.
pub(super) const SPIN_TIME: Span = Span::from_micros(if cfg!(windows) { 2_500 } else { 300 });

/// No other system has the settings of Linux's.
#[derive(Debug)]
pub(super) struct LowLatencyGuard;

impl LowLatencyGuard {
    pub(super) fn new() -> Self {
        LowLatencyGuard
    }
}

/// Sleeps until `instant` by [`clock::monotonic`].
pub fn sleep_until(instant: Time) {
    thread::sleep((instant - clock::monotonic()).max(Span::ZERO).to_duration());
}
