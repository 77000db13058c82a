//! The shape of a burst.

use kumade_units::Span;

/// In bursts of at least so many packets, dispersion counts from the second one: a host that was idle has to wake up for
/// the first, and stamps it some microseconds late.
pub(super) const WAKE_UP_PACKETS: u32 = 4;
/// No train is planned for a lower rate, in bit/s.
pub(super) const MIN_BITS_PER_SECOND: f64 = 20e3;

/// Packets of one size, and how far apart they are sent: most back to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BurstShape {
    pub(super) packets: u32,
    pub(super) size: u32,
    pub(super) interval: Span,
}

impl BurstShape {
    /// Whether it shows how many packets of so many bytes pass at once: enough of them follow back to back.
    pub(super) fn shows_small_bucket(self, full: u32) -> bool {
        self.size == full && self.interval == Span::ZERO && self.packets >= WAKE_UP_PACKETS
    }

    pub(super) fn bits(self) -> f64 {
        f64::from(self.packets) * f64::from(self.size) * 8.0
    }
}
