//! Meeting planned instants without real-time priority.
//!
//! A sleeping thread is woken late even by the finest timer of a system, a spinning one not at all: so sleep until shortly before the instant and
//! spin through the rest.

#[cfg_attr(not(target_os = "linux"), path = "portable/timer.rs")]
mod timer;

pub use timer::sleep_until;

use crate::clock;
use kumade_units::{Span, Time};
use std::hint::spin_loop;
use timer::{LowLatencyGuard, SPIN_TIME};

/// Waits for the instants of a plan, given as offsets from its start. While it lives, its thread is woken as promptly as the system can
/// be asked to; it must stay on that thread.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
