//! Meeting planned instants with whatever timer the system has.

use crate::clock;
use kumade_units::{Span, Time};
use std::hint::spin_loop;
use std::thread;

/// Spinning begins this long before the instant: the timers of Windows are a millisecond late and more (`Sleep` of its API), also those of
/// high resolution, which the standard library uses.
const SPIN_TIME: Span = Span::from_micros(if cfg!(windows) { 2_500 } else { 300 });

/// Waits for the instants of a plan, given as offsets from its start.
#[derive(Debug)]
pub struct Pacer {
    start: Time,
}

impl Pacer {
    /// A plan whose offset zero is `lead` from now.
    pub fn starting_in(lead: Span) -> Self {
        Pacer { start: clock::monotonic() + lead }
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

/// Sleeps until `instant` by [`clock::monotonic`].
pub fn sleep_until(instant: Time) {
    thread::sleep((instant - clock::monotonic()).max(Span::ZERO).to_duration());
}
