use kumade_probe_train::ClockError;
use kumade_units::{Direction, Span, Time};

/// The time stamps of one packet that arrived: one sample of one-way delay (RFC 7679). Each stamp is by the clock of the
/// end where it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWaySample {
    /// Up is towards the far end.
    pub direction: Direction,
    /// When it left, most likely. Where the host is busy, this can be after the path began to carry it.
    pub sent: Time,
    /// When it was given to the sender's kernel: it left no earlier. [`sent`](Self::sent), where nothing else is known.
    pub submitted: Time,
    /// When it arrived.
    pub received: Time,
}

/// A bound on the clocks' offset that does not come from the packets: at one moment, the far clock is ahead of the near
/// one by at least `low` and at most `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReference {
    /// The moment, by the near clock.
    pub time: Time,
    /// The lower bound; negative where the far clock may be behind.
    pub low: Span,
    /// The upper bound.
    pub high: Span,
}

impl ClockReference {
    /// From the errors of both clocks at one moment.
    pub fn at_time(at: Time, near: ClockError, far: ClockError) -> Self {
        ClockReference { time: at, low: far.low - near.high, high: far.high - near.low }
    }
}
