use crate::report::Warning;
use kumade_estimate::delay::ClockReference;
use kumade_probe_train::ClockError;
use kumade_units::{Span, Time};

/// The maximum errors of both ends' clocks against UTC, as far as known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clocks {
    /// When the errors were determined, by this host's clock; they grow with age.
    pub measured_at: Time,
    /// Error of this host's clock; none if unknown.
    pub near: Option<ClockError>,
    /// Error of the peer's clock; none if unknown.
    pub far: Option<ClockError>,
    /// By how much the stamps of packets on an idle loopback of this host differ from each other: zero where the kernel stamps them.
    pub stamp_scatter: Span,
    /// Circumstances that limit the validity of one-way delays, for the report.
    pub warnings: Vec<Warning>,
}

impl Clocks {
    /// Bounds of the offset between both clocks at these times (by this host's clock); none unless both errors are known.
    pub fn clock_references(&self, moments: [Time; 2]) -> Vec<ClockReference> {
        let (Some(near), Some(far)) = (self.near, self.far) else { return Vec::new() };
        let reference = |at| {
            let age = at - self.measured_at;
            ClockReference::at_time(at, near.aged(age), far.aged(age))
        };
        moments.into_iter().map(reference).collect()
    }

    /// Maximum absolute error of this host's clock.
    pub fn near_error(&self) -> Option<Span> {
        self.near.map(|error| error.high.max(-error.low))
    }

    /// Maximum absolute error of the peer's clock.
    pub fn far_error(&self) -> Option<Span> {
        self.far.map(|error| error.high.max(-error.low))
    }
}
