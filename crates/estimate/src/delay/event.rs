//! Samples as small floating-point numbers.

use super::sample::OneWaySample;
use kumade_units::{Direction, Span, Time};

/// The origin of time at either end: seconds count from here, so that a double holds them to less than a nanosecond. The
/// origins are the stamps of the first packet, whose delay and offset are therefore zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClockAxes {
    pub(super) near_origin: Time,
    pub(super) far_origin: Time,
}

/// The stamps of one packet, in seconds from the origins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TransitEvent {
    pub(super) direction: Direction,
    /// When it was at the near end, by the near clock.
    pub(super) near_time: f64,
    /// When it was at the far end, by the far clock.
    pub(super) far_time: f64,
    /// The delay, plus the offset of the far clock in packets that went up, and minus it in those that went down.
    pub(super) delay: f64,
    /// How long after it was given to the sender's kernel it was stamped: it may have taken so much longer.
    pub(super) stamp_lateness: f64,
}

impl TransitEvent {
    /// The most that its delay can have been, and when it was at the far end then.
    pub(super) fn upper_limit(&self) -> (f64, f64) {
        let far = if self.direction == Direction::Up { self.far_time } else { self.far_time - self.stamp_lateness };
        (far, self.delay + self.stamp_lateness)
    }
}

impl ClockAxes {
    pub(super) fn transit_event(&self, sample: &OneWaySample) -> TransitEvent {
        let (near, far) = match sample.direction {
            Direction::Up => (sample.sent, sample.received),
            Direction::Down => (sample.received, sample.sent),
        };
        let (near, far) = (near - self.near_origin, far - self.far_origin);
        let delay = if sample.direction == Direction::Up { far - near } else { near - far };
        TransitEvent {
            direction: sample.direction,
            near_time: near.as_secs_f64(),
            far_time: far.as_secs_f64(),
            delay: delay.as_secs_f64(),
            stamp_lateness: (sample.sent - sample.submitted).max(Span::ZERO).as_secs_f64(),
        }
    }
}
