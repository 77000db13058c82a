use estimate::delay::ClockReference;
use train::ClockError;
use units::{Span, Time};

/// What is known of the clocks of both ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clocks {
    /// When this was so, by the near clock.
    pub at: Time,
    /// Of this host's clock; none where nothing is known.
    pub near: Option<ClockError>,
    /// Of the far clock.
    pub far: Option<ClockError>,
    /// What a reader of delays should know of this.
    pub warnings: Vec<String>,
}

impl Clocks {
    /// What follows for the offset between both clocks at these moments, by the near clock.
    pub fn references(&self, moments: [Time; 2]) -> Vec<ClockReference> {
        let (Some(near), Some(far)) = (self.near, self.far) else { return Vec::new() };
        let reference = |at| {
            let age = at - self.at;
            ClockReference::between(at, near.aged(age), far.aged(age))
        };
        moments.into_iter().map(reference).collect()
    }

    /// By how much this host's clock may be wrong either way.
    pub fn near_error(&self) -> Option<Span> {
        self.near.map(|error| error.high.max(-error.low))
    }

    /// By how much the far clock may be wrong either way.
    pub fn far_error(&self) -> Option<Span> {
        self.far.map(|error| error.high.max(-error.low))
    }
}
